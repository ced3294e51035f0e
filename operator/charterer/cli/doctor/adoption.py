"""The checks of objects of teams that are to be adopted."""

from __future__ import annotations

from collections.abc import Iterable

from charterer.cli.doctor.finding import Finding
from charterer.cli.shared.leader import LeaderSeen
from charterer.domain.jobs.target import Target
from charterer.domain.snapshot import Snapshot
from charterer.lifecycle.runs.adopted import not_adopted_because
from charterer.sentences import count


def check_adoption(snapshot: Snapshot, leader: LeaderSeen | None) -> Iterable[Finding]:
    """Each labelled object that is not adopted, or not as its author asks; and what is held while nobody leads."""
    adopted = [job.adopted for job in snapshot.jobs.values() if job.adopted is not None and job.finish is None]
    well = 0
    for target in adopted:
        text = target.problem or target.warning
        well += not text
        if text:
            subject = f"{target.ref.kind} {target.namespace}/{target.ref.name}"
            yield Finding("adoption", subject, f"is not granted all that it asks: {text}", "edit the object")
    waiting = [each for each in snapshot.candidates if each.target.ended is None and not _let_through(each.target)]
    for each in waiting:
        subject = f"{each.target.ref.kind} {each.target.namespace}/{each.target.ref.name}"
        why = not_adopted_because(each, snapshot)
        if why:
            remedy = "correct that, or take the label charterer.dev/adopt off and set spec.suspend as you want it"
            yield Finding("adoption", subject, f"is not adopted: {why}", remedy)
    held = [target for target in (*adopted, *[each.target for each in waiting]) if target.suspended]
    if held and leader is not None and leader.trouble:
        first = f"{held[0].ref.kind} {held[0].namespace}/{held[0].ref.name}"
        subject = f"{first} and {count(len(held) - 1, 'other object')}" if len(held) > 1 else first
        remedy = "start the operator, or take their labels charterer.dev/adopt off and set spec.suspend to false"
        yield Finding("adoption", subject, "is held, and nobody leads who would start it", remedy)
    if well:
        yield Finding("adoption", count(well, "object"), "adopted, as their authors ask")


def _let_through(target: Target) -> bool:
    """Whether it waits in a queue of Kueue that needs no GPUs for it, or has started it."""
    return bool(target.queued_for) and (not target.pods or not target.suspended)
