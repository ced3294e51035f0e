"""The actions of ``charterer plan`` as a list: what would be done, on what, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from charterer.cli.shared.plan_report import Action, ActionKind
from charterer.report.document import Block, Heading, Item, Items, Paragraph, Tone

_SIGNS: Mapping[ActionKind, tuple[str, Tone]] = {
    ActionKind.RENT: ("+", Tone.GOOD),
    ActionKind.RELEASE: ("-", Tone.BAD),
    ActionKind.START: ("+", Tone.GOOD),
    ActionKind.MOVE: ("~", Tone.CHANGED),
    ActionKind.STOP: ("-", Tone.BAD),
}


def actions_now(actions: Sequence[Action]) -> list[Block]:
    enforced = [action for action in actions if not action.observed]
    observed = [action for action in actions if action.observed]
    if not actions:
        return [Paragraph("Nothing to do: nodes and jobs are as Charterer would have them.", Tone.STRONG)]
    blocks: list[Block] = []
    if enforced:
        blocks += [Heading("Charterer would do now"), action_items(enforced)]
    if observed:
        blocks += [Heading("Charterer would do this if its budget were not in mode Observe"), action_items(observed)]
    return [*blocks, Paragraph(summary(actions) + ".", Tone.STRONG)]


def action_items(actions: Iterable[Action]) -> Items:
    return Items(tuple(Item(_SIGNS[action.kind][0], _sentence(action), _SIGNS[action.kind][1]) for action in actions))


def _sentence(action: Action) -> str:
    what = f"{action.kind} {action.subject}" + (f" {action.what}" if action.what else "")
    return f"{what}: {action.why}" if action.why else what


def summary(actions: Iterable[Action]) -> str:
    """Counts by kind: ``Nodes: 2 to rent, 1 to release; jobs: 3 to start, 0 to move, 0 to stop``."""
    counts: Counter[ActionKind] = Counter()
    for action in actions:
        counts[action.kind] += action.count
    nodes, jobs = (
        ", ".join(f"{counts[kind]} to {kind}" for kind in kinds)
        for kinds in ((ActionKind.RENT, ActionKind.RELEASE), (ActionKind.START, ActionKind.MOVE, ActionKind.STOP))
    )
    return f"Nodes: {nodes}; jobs: {jobs}"
