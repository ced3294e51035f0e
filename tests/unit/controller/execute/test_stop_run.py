"""A run is stopped by its object; one in deletion, whose controller does nothing any more, by its pods."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from charterer.cluster.errors import NotFound
from charterer.cluster.store import ObjectKey
from charterer.controller.execute import ExecutionContext, Stale
from charterer.controller.execute.run_steps import stop_orphan, stop_run
from charterer.controller.execute.target_steps import let_go
from charterer.controller.outcome import Held
from charterer.domain.job import Run
from charterer.domain.pod import PodPhase
from charterer.domain.snapshot import Orphan
from charterer.domain.steps import LetGo, StopOrphan, StopRun
from charterer.domain.target import Target, TargetRef
from charterer.workloads.workload import INDEXED_JOB
from tests.factory import TEAM, at, job, pod, run

PODS = (pod(0), pod(1), pod(2, deleting=True), pod(3, phase=PodPhase.SUCCEEDED))
LIVING = {("pod-uid-sft-1-0", None), ("pod-uid-sft-1-1", None)}
REF = TargetRef("batch/v1", "Job", "sft", "object-1")
CARRIED = Target(REF, "research", "7", at(0), suspended=False, deleting=True, job=job().id, run=1)


class Recorder:
    """An API server that notes what is written. ``gone``: uids of pods that are not there any more. ``owner``: metadata
    of the object that a queued job is of; None if it does not exist.
    """

    def __init__(self, *gone: str, owner: dict[str, str] | None = None) -> None:
        self.deleted: set[tuple[str, int | None]] = set()
        self.patched: list[str] = []
        self._gone = gone
        self._owner = owner

    async def delete(self, kind: Any, key: ObjectKey, uid: str, *, grace: int | None = None) -> None:
        if uid in self._gone:
            raise Stale
        self.deleted.add((uid, grace))

    async def merge_patch(self, kind: Any, path: str, version: str, body: Any) -> None:
        self.patched.append(path.rpartition("/")[2])

    async def get(self, path: str) -> Any:
        if self._owner is not None:
            return {"metadata": self._owner}
        raise NotFound("GET", path, 404, "NotFound", "not found")

    def context(self, of: Run, **changes: Any) -> ExecutionContext:
        mine = job(runs=(of,), **changes)
        decided = SimpleNamespace(decided_job=lambda _: mine, run=lambda *_: (mine, of))
        return cast(ExecutionContext, SimpleNamespace(decided=decided, objects=self, client=self, workload=INDEXED_JOB))


@pytest.mark.parametrize("changes", [{}, {"target": REF, "adopted": CARRIED}], ids=["own", "adopted"])
async def test_the_living_pods_of_a_run_in_deletion_are_told_to_end_with_their_grace(changes: Any) -> None:
    server, going = Recorder(), run(1, *PODS, deleting=True)
    await stop_run(server.context(going, **changes), StopRun(job().id, 1))
    assert (server.deleted, server.patched) == (LIVING, [])


QUEUED = REF._replace(queued=True)


async def test_the_pods_of_a_queued_job_are_left_to_kueue_while_only_its_workload_is_being_deleted() -> None:
    """The Job would count them as failed, and could fail for good."""
    server, going = Recorder(owner={"uid": "object-1"}), run(1, *PODS, deleting=True)
    target = replace(CARRIED, ref=QUEUED)
    with pytest.raises(Held, match="Kueue has yet to stop Job sft"):
        await stop_run(server.context(going, target=QUEUED, adopted=target), StopRun(job().id, 1))
    with pytest.raises(Held):
        await let_go(server.context(going), LetGo(target, PODS))
    assert server.deleted == set()


@pytest.mark.parametrize("owner", [None, {"uid": "another"}, {"uid": "object-1", "deletionTimestamp": "t"}])
async def test_the_pods_of_a_queued_job_that_is_going_or_gone_are_ended(owner: dict[str, str] | None) -> None:
    server, going = Recorder(owner=owner), run(1, *PODS, deleting=True)
    await let_go(server.context(going), LetGo(replace(CARRIED, ref=QUEUED), PODS))
    assert server.deleted == LIVING


async def test_another_run_is_suspended() -> None:
    server = Recorder()
    await stop_run(server.context(run(1, *PODS)), StopRun(job().id, 1))
    assert (server.deleted, server.patched) == (set(), ["sft-r1"])


async def test_runs_and_objects_without_a_training_job_are_stopped_so_too_also_if_a_pod_went_meanwhile() -> None:
    server = Recorder("pod-uid-sft-1-0")
    going = run(1, *PODS, deleting=True)
    await stop_orphan(server.context(going), StopOrphan(Orphan(job().id, "research", TEAM, going)))
    await let_go(server.context(going), LetGo(CARRIED, PODS))
    assert (server.deleted, server.patched) == ({("pod-uid-sft-1-1", None)}, [])
