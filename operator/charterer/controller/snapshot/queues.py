"""What a queue of Kueue asks beside Charterer's check, as far as it matters to what waits there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from charterer.api.decode import MULTIKUEUE, DecodedCheck
from charterer.cluster.store import ObjectKey
from charterer.domain.jobs.target import Target
from charterer.workloads.adopted.kueue_status import beside_multikueue
from charterer.workloads.adopted.ray_job import WaitingRayJob


def of_multikueue(checks: Mapping[ObjectKey, DecodedCheck]) -> Mapping[str, str]:
    """The AdmissionChecks by which jobs run in other clusters: who answers each, by its name."""
    return {check.name: check.controller for check in checks.values() if check.controller == MULTIKUEUE}


def without_entrypoint(waiting: Mapping[ObjectKey, WaitingRayJob]) -> Mapping[str, str]:
    """What each RayJob waits for before its work can begin, by its uid."""
    return {each.uid: each.why for each in waiting.values()}


def in_its_queue(target: Target, elsewhere: Mapping[str, str], waiting: Mapping[str, str]) -> Target:
    """The object with what is wrong with its queue, or what it waits for; the same one where nothing is.

    ``elsewhere``: ``of_multikueue``; ``waiting``: ``without_entrypoint``.
    """
    check = next((check for check in target.checks if check in elsewhere), "")
    if check and not target.problem:
        return replace(target, problem=beside_multikueue(check))
    why = waiting.get(target.ref.uid, "") if target.queued else ""
    return replace(target, incomplete=why) if why and not target.incomplete else target
