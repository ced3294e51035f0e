"""What a queue of Kueue asks beside Charterer's check, as far as it matters to what waits there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from charterer.api.decode import MULTIKUEUE, DecodedCheck
from charterer.cluster.store import ObjectKey
from charterer.domain.jobs.target import Target
from charterer.workloads.adopted.kueue_status import beside_multikueue


def of_multikueue(checks: Mapping[ObjectKey, DecodedCheck]) -> Mapping[str, str]:
    """The AdmissionChecks by which jobs run in other clusters: who answers each, by its name."""
    return {check.name: check.controller for check in checks.values() if check.controller == MULTIKUEUE}


def in_its_queue(target: Target, elsewhere: Mapping[str, str]) -> Target:
    """The object with what is wrong with its queue; the same one where nothing is. ``elsewhere``: ``of_multikueue``."""
    check = next((check for check in target.checks if check in elsewhere), "")
    return target if not check or target.problem else replace(target, problem=beside_multikueue(check))
