"""Reports the dollars that were lost: their causes, the namespaces and pools with the most, and remedies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from charterer.domain.budget import Budget, Cause, DayCosts, JobTime
from charterer.domain.cost_row import CostRow
from charterer.domain.money import ZERO, Money, total
from charterer.domain.time import Instant
from charterer.tools.commands.shared.output import JsonValue, percent
from charterer.tools.documents.document import (
    Block,
    DocumentTable,
    Item,
    Items,
    Paragraph,
    TableColumn,
    Tone,
    row,
)

NOT_REPORTED: Final = "not reported"
"""Label of dollars for which no job reported whether its GPUs trained."""
LARGEST: Final = 3
"""Number of the largest causes for which the report names a remedy."""
_PLACES: Final = 6
"""Maximum number of rows in the table of namespaces and classes."""
COUNTED, REPORTED, ESTIMATED = "counted", "reported", "estimated"


class _LostCause(NamedTuple):
    """What is said of a cause: how it is ``known`` (counted, reported or estimated), its meaning and its remedy,
    without a full stop.
    """

    known: str
    meaning: str
    remedy: str


_TOLD: Final[Mapping[Cause | JobTime, _LostCause]] = {
    Cause.STARTING: _LostCause(
        COUNTED,
        "nodes from their launch until they took pods",
        "a machine image with driver and containers starts sooner; fewer moves start fewer nodes (spec.moves of the "
        "GPUBudget)",
    ),
    Cause.IDLE: _LostCause(
        COUNTED,
        "GPUs of ready nodes that no job held",
        "smaller nodes, or widths that fill them, leave fewer GPUs free (docs/capacity/whole-nodes.md); charterer plan "
        "says what each node is kept for",
    ),
    Cause.ENDING: _LostCause(
        COUNTED,
        "nodes without a job, from the decision to end them to their end",
        "look in status.heldBy of GPURentals for pods that keep nodes from ending (docs/runbooks/nodes-do-not-end.md)",
    ),
    Cause.INCOMPLETE_GANG: _LostCause(
        COUNTED,
        "nodes that waited for others that their job needs at once",
        "a pool whose cloud launches all nodes or none has no such waits (docs/clouds/README.md)",
    ),
    JobTime.RUN_START: _LostCause(
        COUNTED,
        "GPUs that runs held before they trained",
        "smaller images, images that are on the nodes already, and checkpoints that load faster",
    ),
    JobTime.REDONE: _LostCause(
        REPORTED,
        "work that was trained again after an interruption or a move",
        "save more often, and within the grace period: should_checkpoint() says when (docs/progress.md)",
    ),
    JobTime.SLOW: _LostCause(
        ESTIMATED,
        "other ranks waited for a slow node",
        "resizePolicy Restart or InPlace lets Charterer replace such a node (docs/bottlenecks.md)",
    ),
    JobTime.STARVED: _LostCause(
        ESTIMATED,
        "GPUs waited for input",
        "more loader processes, a cache, or data that is nearer (docs/bottlenecks.md)",
    ),
    JobTime.WAITING_FOR_PEERS: _LostCause(
        ESTIMATED,
        "ranks waited for each other",
        "a larger batch, accumulated gradients, or fewer and larger nodes (docs/bottlenecks.md)",
    ),
    JobTime.NO_CELL: _LostCause(
        REPORTED,
        "interactive jobs held GPUs while no cell ran",
        "a shorter spec.interactive.idleSeconds gives them back sooner (docs/capacity/interactive.md)",
    ),
    JobTime.KEPT_EMPTY: _LostCause(
        COUNTED,
        "GPUs that nobody else could have beside those of a job",
        "ask for no more CPU and memory a GPU than the node has (docs/capacity/whole-nodes.md)",
    ),
}


def word(cause: Cause | JobTime | None) -> str:
    """Return the cause as text, such as ``idle`` or ``waiting for peers``."""
    return NOT_REPORTED if cause is None else cause.value.replace("_", " ")


def pieces(
    cause: Cause, cost: Money, went_to: Mapping[JobTime, Money]
) -> Iterator[tuple[Cause | JobTime | None, Money]]:
    """Divide an amount into causes, which add up to the amount. The cause None is the part that is not known."""
    if cause is not Cause.JOB:
        yield cause, cost
        return
    yield from went_to.items()
    rest = cost - total(went_to.values())
    if rest != ZERO or not went_to:
        yield None, rest


class LostIn(NamedTuple):
    """The place of a loss: a namespace and a class of jobs, or a pool. A field that is not known is empty."""

    namespace: str = ""
    job_class: str = ""
    pool: str = ""

    def __str__(self) -> str:
        named = (("namespace", self.namespace), ("class", self.job_class), ("pool", self.pool))
        return ", ".join(f"{what} {name}" for what, name in named if name)


@dataclass(slots=True)
class Losses:
    """Dollars of machines by cause and place. The cause None is the part that is not known."""

    sums: dict[Cause | JobTime | None, dict[LostIn, Money]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, cause: Cause | JobTime | None, place: LostIn, amount: Money) -> None:
        places = self.sums[cause]
        places[place] = places.get(place, ZERO) + amount

    def add_row(self, found: CostRow) -> None:
        payer = found.payer
        place = LostIn(pool=found.pool) if payer is None else LostIn(payer.namespace, payer.job_class)
        for cause, amount in pieces(found.cause, found.cost, found.went_to):
            self.add(cause, place, amount)

    def add_day(self, day: DayCosts) -> None:
        """Add a day of a budget's status. Its dollars have causes but no places."""
        for purpose, amount in day.by_cause.items():
            for cause, part in pieces(purpose, amount, day.went_to):
                self.add(cause, LostIn(), part)

    def of(self, cause: Cause | JobTime | None) -> Money:
        """Return the sum of a cause."""
        return total(self.sums.get(cause, {}).values())

    @property
    def spent(self) -> Money:
        """Total dollars: useful, lost and not known."""
        return total(self.of(cause) for cause in self.sums)

    @property
    def causes(self) -> Sequence[tuple[Cause | JobTime, Money]]:
        """Lost dollars by cause, the largest first."""
        found = [(cause, self.of(cause)) for cause in self.sums if cause not in (None, JobTime.TRAINED)]
        lost = [(cause, amount) for cause, amount in found if cause is not None and amount != ZERO]
        return sorted(lost, key=lambda each: (-each[1].micros, word(each[0])))

    @property
    def lost(self) -> Money:
        """Total dollars lost."""
        return total(amount for _, amount in self.causes)

    def most(self, cause: Cause | JobTime) -> tuple[LostIn, Money]:
        """Return the place with the largest loss for a cause, and the dollars lost there."""
        return max(self.sums[cause].items(), key=lambda each: (each[1].micros, each[0]))

    @property
    def places(self) -> Sequence[tuple[LostIn, Money, Cause | JobTime]]:
        """Dollars that jobs lost by namespace and class, the largest first, with the largest cause of each."""
        found: dict[LostIn, dict[Cause | JobTime, Money]] = defaultdict(dict)
        for cause, _ in self.causes:
            for place, amount in self.sums[cause].items():
                if place.namespace:
                    found[place][cause] = amount
        by_place = [
            (place, total(lost.values()), max(lost, key=lambda each: (lost[each].micros, word(each))))
            for place, lost in found.items()
        ]
        return sorted(by_place, key=lambda each: (-each[1].micros, each[0]))


def losses_since(budget: Budget, since: Instant) -> Losses:
    """Sum the losses of the days in the budget's status from ``since`` on."""
    losses = Losses()
    for day in () if budget.balance is None else budget.balance.costs.days:
        if day.start >= since:
            losses.add_day(day)
    return losses


def lost_blocks(losses: Losses, *, causes: bool) -> Iterator[Block]:
    """Yield the total lost, the largest causes with remedies, and the namespaces and classes that lost most.

    ``causes`` adds a table of all causes.
    """
    spent = losses.spent
    if spent <= ZERO:
        return
    yield Paragraph(_sentence(losses), Tone.STRONG)
    if causes:
        yield _by_cause(losses)
    if losses.causes:
        yield Items(tuple(_largest(losses)))
    if losses.places:
        yield _by_place(losses)


def _sentence(losses: Losses) -> str:
    spent, unknown = losses.spent, losses.of(None)
    said = f"Lost: {losses.lost}, {percent(losses.lost.micros / spent.micros)} of the {spent} that machines cost."
    if unknown == ZERO:
        return said
    part = percent(unknown.micros / spent.micros)
    return f"{said} Of {unknown} ({part}) it is not known: these jobs report nothing (docs/progress.md)."


def _by_cause(losses: Losses) -> DocumentTable:
    rows = [("trained", losses.of(JobTime.TRAINED), REPORTED, "jobs advanced, as far as they report")]
    rows += [(NOT_REPORTED, losses.of(None), "-", "nobody can say whether the GPUs trained")]
    rows += [(word(cause), amount, _TOLD[cause].known, _TOLD[cause].meaning) for cause, amount in losses.causes]
    columns = (
        TableColumn("CAUSE"),
        TableColumn("DOLLARS", right=True),
        TableColumn("SHARE", right=True),
        TableColumn("KNOWN"),
        TableColumn("MEANING", elastic=True),
    )
    spent = losses.spent.micros
    return DocumentTable(
        columns,
        tuple(
            row(name, str(amount), percent(amount.micros / spent), known, meaning)
            for name, amount, known, meaning in rows
            if amount != ZERO
        ),
    )


def _largest(losses: Losses) -> Iterable[Item]:
    for number, (cause, amount) in enumerate(losses.causes[:LARGEST], 1):
        told = _TOLD[cause]
        place, part = losses.most(cause)
        where = f"; most in {place} ({part})" if str(place) else ""
        yield Item(f"{number}.", f"{word(cause)}, {amount} ({told.known}){where}. To do: {told.remedy}.")


def _by_place(losses: Losses) -> DocumentTable:
    with_class = any(place.job_class for place, *_ in losses.places)
    columns = (
        TableColumn("NAMESPACE"),
        *([TableColumn("CLASS")] if with_class else []),
        TableColumn("LOST BY JOBS", right=True),
        TableColumn("MOST OF IT"),
    )
    shown = losses.places[:_PLACES]
    rows = [
        row(place.namespace, *([place.job_class or "(none)"] if with_class else []), str(amount), word(cause))
        for place, amount, cause in shown
    ]
    return DocumentTable(columns, tuple(rows))


def losses_json(losses: Losses) -> JsonValue:
    """Return the losses as JSON."""
    return {
        "spent": losses.spent.decimal(),
        "trained": losses.of(JobTime.TRAINED).decimal(),
        "notReported": losses.of(None).decimal(),
        "lost": losses.lost.decimal(),
        "causes": [_cause_json(losses, cause, amount) for cause, amount in losses.causes],
        "byJobs": [
            {
                "namespace": place.namespace,
                "class": place.job_class or None,
                "lost": amount.decimal(),
                "largestCause": word(cause),
            }
            for place, amount, cause in losses.places
        ],
    }


def _cause_json(losses: Losses, cause: Cause | JobTime, amount: Money) -> JsonValue:
    place, part = losses.most(cause)
    return {
        "cause": word(cause),
        "dollars": amount.decimal(),
        "known": _TOLD[cause].known,
        "mostIn": {
            "namespace": place.namespace or None,
            "class": place.job_class or None,
            "pool": place.pool or None,
            "dollars": part.decimal(),
        },
        "toDo": _TOLD[cause].remedy,
    }
