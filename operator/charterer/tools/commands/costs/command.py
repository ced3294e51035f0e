"""``charterer costs`` reports a month's spending from the record of costs and the cluster's present state."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

import click

from charterer.cost_record import CostRecord, RecordUnavailable
from charterer.domain.cost_row import CostRow
from charterer.domain.ids import BudgetId
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, moment
from charterer.sentences import names, similar_names
from charterer.tools.commands.costs.answer import (
    CAUSE,
    LABEL,
    NAMESPACE,
    PURPOSE,
    BudgetMonth,
    CostsAnswer,
    CostSums,
    KeysType,
    LedgerMonth,
    ledger_month,
    month_rows,
    open_rows,
)
from charterer.tools.commands.costs.document import COLUMNS, costs_csv, costs_document, costs_json, focus_csv
from charterer.tools.commands.shared.cluster import ClusterOptions, cluster_options, read, wall_clock
from charterer.tools.commands.shared.completion import budget_names
from charterer.tools.commands.shared.lost import Losses
from charterer.tools.commands.shared.options import MonthType, bounds, option_group, record_option
from charterer.tools.commands.shared.output import announce_when_slow, emit

_FORMATS: Final = ("table", "csv", "json")


@dataclass(frozen=True, slots=True)
class CostQuestion:
    """The user's question. If ``month`` is None, the question is about the present month. If ``budgets`` is empty, it
    is about all budgets.

    ``by`` has the keys to sum by.
    """

    month: str | None
    record: str
    budgets: tuple[str, ...]
    by: tuple[str, ...]
    share_waste: bool
    recorded_only: bool


question_options = option_group(
    "question",
    CostQuestion,
    click.option("--month", type=MonthType(), help="Such as 2026-11, in each budget's time zone. Default: this one."),
    record_option(default=""),
    click.option(
        "--budget", "budgets", multiple=True, shell_complete=budget_names, help="Only this GPUBudget; may be repeated."
    ),
    click.option(
        "--by",
        type=KeysType(),
        default="namespace",
        show_default=True,
        metavar="KEY,...",
        help="Sum by namespace, class, user, label:KEY, pool, job, purpose or cause; several with commas.",
    ),
    click.option("--share-waste", is_flag=True, help="Share out what no job held to the jobs of its pool, by cost."),
    click.option("--recorded-only", is_flag=True, help="Only what is on record: the cluster is not read."),
)


@click.command()
@question_options
@click.option("-o", "--output", type=click.Choice(_FORMATS), default="table", show_default=True, help="Format.")
@click.option(
    "--focus",
    type=click.Choice(tuple(COLUMNS)),
    is_flag=False,
    flag_value="1.2",
    help="Each charge as a line of CSV by FOCUS, for tools that take it. Alone: by FOCUS 1.2.",
)
@cluster_options
@click.pass_context
def costs(ctx: click.Context, question: CostQuestion, output: str, focus: str | None, cluster: ClusterOptions) -> None:
    """Show who spent what in a month. Changes nothing.

    The sums are those of the ledger, to the micro-dollar. What no job held (nodes that start, idle GPUs, nodes that
    end, incomplete gangs) has rows of its own. Rows come from the record of costs, and what is not on record yet from
    the cluster's present state. Without a record, budgets' statuses have namespaces and purposes of their last 62
    days.

    \b
    By namespace, by team and user, by job:
      charterer costs --record s3://acme-costs/gpus
      charterer costs --month 2026-11 --by label:team,user
      charterer costs --month 2026-11 --by job,purpose
    \b
    What was lost, by cause, by team and class:
      charterer costs --by cause
      charterer costs --by namespace,class,cause
    \b
    For a spreadsheet, for finance:
      charterer costs --month 2026-11 --by namespace -o csv > november.csv
      charterer costs --month 2026-11 --focus 1.4 > focus.csv
    """
    if focus:
        _check_focus(ctx)
    _check(question, "--focus" if focus else "")
    with announce_when_slow("reading the record of costs"):
        if focus:
            _print_focus(question, focus, cluster)
            return
        answer = found_costs(question, cluster)
    if output == "csv":
        costs_csv(answer, sys.stdout)
    else:
        emit(costs_document(answer), costs_json(answer), output)


def question_of(
    month: str | None,
    record: str,
    budgets: Sequence[str],
    by: Sequence[str],
    *,
    share_waste: bool = False,
    recorded_only: bool = False,
) -> CostQuestion:
    """The question that the options ask. Raises ClickException for an invalid month or key."""
    asked = None if month is None else MonthType().convert(month, None, None)
    keys = KeysType().convert(",".join(by), None, None)
    question = CostQuestion(asked, record, tuple(budgets), keys, share_waste, recorded_only)
    _check(question, "")
    return question


def _check_focus(ctx: click.Context) -> None:
    given = {"--by": "by", "--output": "output", "--share-waste": "share_waste"}
    for option, name in given.items():
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--focus prints every charge: leave {option} away")


def _check(question: CostQuestion, asked: str) -> None:
    """Raise ClickException if options contradict each other, or if a record is needed and not named.

    ``asked``: the option that needs a record, or empty.
    """
    if question.share_waste:
        for key in (PURPOSE, CAUSE):
            if key in question.by:
                raise click.UsageError(f"with --share-waste no {key} is left to sum by: leave it away in --by")
        if question.by == ("pool",):
            raise click.UsageError("a pool's sum has its waste already: leave --share-waste away, or add a key to --by")
    if not question.record:
        known = (CAUSE, PURPOSE) if CAUSE in question.by else (NAMESPACE, PURPOSE)
        lacking = [key for key in question.by if key not in known]
        needs = asked or ("--recorded-only" if question.recorded_only else "")
        if needs or lacking:
            raise click.UsageError(
                f"{needs or f'--by {lacking[0]}'} needs a record of costs, named by --record (the chart's "
                "costRecord.place): without one a budget's status has namespaces and purposes of its last 62 days "
                "only, and causes of all namespaces together"
            )


def found_costs(question: CostQuestion, cluster: ClusterOptions) -> CostsAnswer:
    """The answer, from the record and the cluster. Raises ClickException."""
    with _on_record():
        return costs_answer(question, *_seen(question, cluster))


def _print_focus(question: CostQuestion, focus: str, cluster: ClusterOptions) -> None:
    with _on_record():
        snapshot, now = _seen(question, cluster)
        record = CostRecord(question.record)
        budgets, _, month = _asked(question, snapshot, record, now)
        focus_csv(month, month_rows(month, record.read([month], budgets), _open(snapshot, budgets)), sys.stdout, focus)


@contextmanager
def _on_record() -> Iterator[None]:
    """Turn the error of a record that cannot be read into a ClickException."""
    try:
        yield
    except RecordUnavailable as error:
        raise click.ClickException(str(error)) from error


def _seen(question: CostQuestion, cluster: ClusterOptions) -> tuple[Snapshot | None, Instant]:
    """The cluster as it is. If the question is only about what is on record, the cluster is not read."""
    if question.recorded_only:
        return None, wall_clock()
    # this import is as slow as the imports for reading a cluster
    from charterer.controller.snapshot.offline import snapshot_of

    reading = read(cluster)
    return snapshot_of(reading.state, reading.now), reading.now


def costs_answer(question: CostQuestion, snapshot: Snapshot | None, now: Instant) -> CostsAnswer:
    """Sum the month. ``snapshot`` is the cluster at ``now``, or None if the cluster was not read.

    Raises ClickException for a budget or label that does not exist, and RecordUnavailable.
    """
    record = CostRecord(question.record) if question.record else None
    budgets, zones, month = _asked(question, snapshot, record, now)
    sums = CostSums(question.by)
    losses: dict[str, Losses] | None = defaultdict(Losses) if CAUSE in question.by else None
    if record is None:
        _add_days(sums, losses, month, budgets, snapshot)
    else:
        found_rows = month_rows(month, record.read([month], budgets), _open(snapshot, budgets))
        sums.add(found_rows if losses is None else _lost_too(found_rows, losses))
        _check_labels(question.by, sums)
    if question.share_waste:
        sums.share_waste()
    found = sums.sums()
    return CostsAnswer(
        month,
        question.by,
        sums.with_cause and CAUSE not in question.by,
        question.share_waste,
        question.record,
        [
            BudgetMonth(
                name,
                zones.get(name, "UTC"),
                _ledger(name, month, snapshot),
                [each for each in found if each[0].budget == name],
                None if losses is None else losses.get(name, Losses()),
            )
            for name in budgets
        ],
    )


def _asked(
    question: CostQuestion, snapshot: Snapshot | None, record: CostRecord | None, now: Instant
) -> tuple[list[str], Mapping[str, str], str]:
    """Return the budgets, their time zones and the month."""
    budgets = _budgets(question, snapshot, {} if record is None else record.months())
    zones = {} if snapshot is None else {str(name): each.calendar.time_zone for name, each in snapshot.budgets.items()}
    return budgets, zones, question.month or _this_month(zones.values(), now)


def _this_month(zones: Collection[str], now: Instant) -> str:
    """Return the month of ``now`` in the budgets' common time zone. If they have no common time zone, the month is in
    UTC.
    """
    zone = next(iter(zones)) if len(set(zones)) == 1 else "UTC"
    return f"{moment(now).astimezone(ZoneInfo(zone)):%Y-%m}"


def _lost_too(rows: Iterable[tuple[CostRow, bool]], losses: dict[str, Losses]) -> Iterator[tuple[CostRow, bool]]:
    """Pass the rows through and add each to the losses of its budget."""
    for row, is_open in rows:
        losses[row.budget].add_row(row)
        yield row, is_open


def _add_days(
    sums: CostSums, losses: dict[str, Losses] | None, month: str, budgets: Sequence[str], snapshot: Snapshot | None
) -> None:
    """Add the month's days from the budgets' statuses."""
    for name, budget in ({} if snapshot is None else snapshot.budgets).items():
        if name in budgets and budget.balance is not None:
            start, end = bounds(month, budget.calendar.time_zone)
            days = [day for day in budget.balance.costs.days if start <= day.start < end]
            sums.add_days(name, days)
            if losses is not None:
                for day in days:
                    losses[name].add_day(day)


def _open(snapshot: Snapshot | None, budgets: Sequence[str]) -> list[CostRow]:
    found = {} if snapshot is None else snapshot.budgets
    return [
        row for name, budget in found.items() if name in budgets and snapshot for row in open_rows(snapshot, budget)
    ]


def _ledger(name: str, month: str, snapshot: Snapshot | None) -> LedgerMonth | None:
    budget = None if snapshot is None else snapshot.budgets.get(BudgetId(name))
    if snapshot is None or budget is None:
        return None
    rentals = [rental for rental in snapshot.rentals.values() if rental.budget == budget.id]
    return ledger_month(budget, rentals, bounds(month, budget.calendar.time_zone), snapshot.now)


def _budgets(question: CostQuestion, snapshot: Snapshot | None, on_record: Mapping[str, object]) -> list[str]:
    """Return the named budgets, or all budgets of the cluster and the record if none is named."""
    known = {*on_record, *(() if snapshot is None else map(str, snapshot.budgets))}
    for name in question.budgets:
        if name not in known:
            raise click.UsageError(f"no GPUBudget {name} in the cluster or on record: {similar_names(name, known)}")
    return sorted(question.budgets or known)


def _check_labels(keys: Sequence[str], sums: CostSums) -> None:
    """Raise ClickException for a label that no row of a job has. Such a label was not recorded or is misspelt."""
    for key in keys:
        label = key.removeprefix(LABEL)
        if key.startswith(LABEL) and sums.jobs and label not in sums.labels:
            recorded = f"recorded are {names(sums.labels, 8)}" if sums.labels else "no label was recorded"
            raise click.ClickException(
                f"no job of the month has label {label} on record: {recorded}; what is to be recorded is in the "
                "chart's costRecord.labels, and counts from then on"
            )
