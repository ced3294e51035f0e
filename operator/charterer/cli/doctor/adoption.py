"""The checks of objects of teams that are to be adopted."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from charterer.cli.doctor.finding import Finding
from charterer.cli.shared.leader import LeaderSeen
from charterer.domain.jobs.target import Target
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.lifecycle.runs.adopted import not_adopted_because
from charterer.sentences import count

_ADOPTED_SECONDS = 30.0
"""Seconds after which an object that is held should have its record."""


def check_adoption(snapshot: Snapshot, leader: LeaderSeen | None) -> Iterable[Finding]:
    """Each labelled object that is not adopted, and what is held while nobody leads."""
    adopted = [job.adopted for job in snapshot.jobs.values() if job.adopted is not None and job.finish is None]
    waiting = [each for each in snapshot.candidates if each.target.ended is None and not _let_through(each.target)]
    for each in waiting:
        subject = f"{each.target.ref.kind} {each.target.namespace}/{each.target.ref.name}"
        why = not_adopted_because(each, snapshot)
        if why:
            remedy = "correct that, or take the label charterer.dev/adopt off and set spec.suspend as you want it"
            yield Finding("adoption", subject, f"is not adopted: {why}", remedy)
        else:
            yield from check_held((each.target,), frozenset(), snapshot.now)
    held = [target for target in (*adopted, *[each.target for each in waiting]) if target.suspended]
    if held and leader is not None and leader.trouble:
        first = f"{held[0].ref.kind} {held[0].namespace}/{held[0].ref.name}"
        subject = f"{first} and {count(len(held) - 1, 'other object')}" if len(held) > 1 else first
        remedy = "start the operator, or take their labels charterer.dev/adopt off and set spec.suspend to false"
        yield Finding("adoption", subject, "is held, and nobody leads who would start it", remedy)
    if adopted:
        yield Finding("adoption", count(len(adopted), "object"), "adopted")


def check_held(targets: Iterable[Target], recorded: AbstractSet[str], now: Instant) -> Iterable[Finding]:
    """Objects that are held and have no record, so that nobody starts them. ``recorded``: uids of those that have."""
    for target in targets:
        waits = seconds_between(target.created, now) > _ADOPTED_SECONDS and target.ref.uid not in recorded
        if target.held and target.ended is None and waits:
            kind, name = target.ref.kind, target.ref.name
            remedy = f"kubectl -n {target.namespace} describe {kind.lower()} {name}: its Events say why"
            text = "is held, and no TrainingJob was made for it"
            yield Finding("adoption", f"{kind} {target.namespace}/{name}", text, remedy)


def _let_through(target: Target) -> bool:
    """Whether it waits in a queue of Kueue that needs no GPUs for it, or has started it."""
    return target.queued and (not target.pods or not target.suspended)
