"""Kueue's AdmissionCheck ``charterer``: its condition Active, and its answers for Workloads that have no run.

Steps of the loop write the answers that start, stop or resize a run, through ``workloads.adopted``. This module sets
the check's condition Active, so that queues with the check begin to admit Workloads. The module also answers Ready for
Workloads that do not concern Charterer. It copies a job's reason to wait into the job's Workload, which Kueue's users
read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from charterer.api.names import KUEUE_CHECK, KUEUE_CONTROLLER, MANAGER_RECORD, ConditionType
from charterer.cluster import kinds
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError, Conflict, NotFound, Withheld
from charterer.cluster.paths import ADMISSION_CHECKS, WORKLOADS
from charterer.cluster.store import Store
from charterer.domain.budget import Mode
from charterer.domain.snapshot import AdoptionCandidate, Snapshot, Stop
from charterer.domain.target import Target
from charterer.domain.time import Instant, format_instant
from charterer.sentences import count
from charterer.workloads.adopted.kueue_workload import API_VERSION, KUEUE_WORKLOAD, answer

_log = logging.getLogger(__name__)

_WAITS_FOR: Final = (ConditionType.ADMITTED, ConditionType.CAPACITY_AVAILABLE, ConditionType.PODS_READY)
"""The conditions of a TrainingJob that explain its wait, in order of precedence."""
_LOOK_SECONDS: Final = 1.0
"""Seconds between two checks of the last snapshot."""
_WRITES_A_LOOK: Final = 20
"""Most Workloads written in one check. The remaining Workloads follow in the next check."""


class CheckAnswer(NamedTuple):
    """The answer to a Workload's check. If the answer is Ready, the Workload starts once its queue admits it. Otherwise
    the check stays Pending.
    """

    target: Target
    ready: bool
    message: str


class KueueChecks:
    """Keeps the check active and its answers current until ``run`` is cancelled. ``last`` returns the last snapshot."""

    def __init__(
        self, client: Client, store: Store, last: Callable[[], Snapshot | None], now: Callable[[], Instant]
    ) -> None:
        self._client = client
        self._store = store
        self._last = last
        self._now = now
        self._said: dict[str, str] = {}
        """The message in each job's status, by the job's uid."""

    def told(self, kind: str, written: RawObject) -> None:
        """Store the message of a TrainingJob whose view was written, so that its Workload gets the message too."""
        if kind == "TrainingJob":
            said = {item["type"]: item for item in written["status"].get("conditions") or ()}
            waits = [said[kind] for kind in _WAITS_FOR if kind in said and said[kind].get("status") != "True"]
            self._said[written["metadata"]["uid"]] = next(
                (item["message"] for item in waits if item.get("message")), ""
            )

    async def run(self) -> None:
        """Check at regular intervals, forever."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Write the answers that differ, as far as the API server accepts them."""
        check = self._store.get(kinds.ADMISSION_CHECKS, KUEUE_CHECK)
        snapshot = self._last()
        if check is None or check.controller != KUEUE_CONTROLLER or snapshot is None:
            return
        if not check.active:
            await self._try(self._activate(check.resource_version), KUEUE_CHECK)
        self._said = {job: said for job, said in self._said.items() if job in snapshot.jobs}
        wrong = [item for item in answers(snapshot, self._said) if item.ready or item.message != item.target.message]
        for item in wrong[:_WRITES_A_LOOK]:
            await self._try(self._write(item), f"{item.target.namespace}/{item.target.workload}")

    async def _try(self, write: Any, about: str) -> None:
        try:
            await write
        except (Conflict, NotFound, Withheld):
            return
        except ApiError as error:
            _log.warning("AdmissionCheck %s: %s not answered, again soon: %s", KUEUE_CHECK, about, error)

    async def _activate(self, version: str) -> None:
        condition = {
            "type": "Active",
            "status": "True",
            "reason": "Active",
            "message": "Charterer's operator leads and answers this check",
            "lastTransitionTime": format_instant(self._now()),
        }
        body = {
            "apiVersion": API_VERSION,
            "kind": "AdmissionCheck",
            "metadata": {"name": KUEUE_CHECK, "resourceVersion": version},
            "status": {"conditions": [condition]},
        }
        raw = await self._client.apply(ADMISSION_CHECKS.status(KUEUE_CHECK), body, MANAGER_RECORD)
        self._store.put(kinds.ADMISSION_CHECKS, raw)

    async def _write(self, item: CheckAnswer) -> None:
        name, namespace = item.target.workload, item.target.namespace
        raw = await self._client.get(WORKLOADS.one(name, namespace))
        for write in answer(raw, item.message, self._now(), ready=item.ready):
            self._store.put(KUEUE_WORKLOAD.kind, await self._client.json_patch(write.path, write.operations))


def answers(snapshot: Snapshot, said: Mapping[str, str]) -> Iterator[CheckAnswer]:
    """The answers for the Workloads that have quota and wait or are given up, and for those that wait to grow."""
    for candidate in snapshot.candidates:
        if _asks(candidate.target) and (said_of_it := _of_candidate(candidate, snapshot)) is not None:
            yield said_of_it
    for job in snapshot.jobs.values():
        target = job.adopted
        if target is None:
            continue
        if _asks(target) and job.finish is not None:  # its conditions, which ``said`` has, say only that it has ended
            again = f"Delete the {target.ref.kind}, and create it again without that"
            yield CheckAnswer(target, ready=False, message=f"it is given up: {job.finish.message}. {again}")
        elif _asks(target) and said.get(job.id):
            yield CheckAnswer(target, ready=False, message=said[job.id])
        elif job.allocation is not None and target.grows_to > len(job.allocation.placements):
            has = count(len(job.allocation.placements), "pod")
            text = f"it asks for {target.grows_to} pods, and GPUBudget {job.budget} pays for {has}: those go on"
            yield CheckAnswer(target, ready=False, message=text)


def _asks(target: Target) -> bool:
    return target.queued and target.reserved and target.suspended and target.ended is None


def _of_candidate(candidate: AdoptionCandidate, snapshot: Snapshot) -> CheckAnswer | None:
    """The answer for a candidate, or None if its TrainingJob is about to be created and will answer."""
    target = candidate.target
    if not target.pods:
        return CheckAnswer(target, ready=True, message="it asks for no GPUs")
    if candidate.budget is None:
        text = f"no GPUBudget selects namespace {target.namespace}: nobody pays for what waits there"
        return CheckAnswer(target, ready=False, message=text)
    budget = snapshot.budgets.get(candidate.budget)
    if budget is not None and budget.mode is Mode.OBSERVE:
        return CheckAnswer(target, ready=True, message=f"GPUBudget {budget.id} observes, and holds nothing")
    if snapshot.stop is Stop.DRAIN:
        return CheckAnswer(target, ready=False, message="all that is rented is being ended")
    return CheckAnswer(target, ready=False, message=target.problem) if target.problem else None
