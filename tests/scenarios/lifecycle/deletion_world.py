"""The operator in a world of runs that are deleted and kept: what it plans, its steps, and what they change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from charterer.domain.ids import NodeName
from charterer.domain.job import Run
from charterer.domain.plan import Allocate, Command
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.snapshot import LOST_AFTER_SECONDS, Snapshot
from charterer.domain.steps import (
    AnnotatePod,
    CreateRun,
    CreateService,
    DeletePod,
    DeleteRun,
    FailPod,
    GiveBack,
    LabelNode,
    LetGo,
    RecordRun,
    Step,
    StopOrphan,
    StopRun,
    Terminate,
    Unsuspend,
)
from charterer.domain.time import after
from charterer.lifecycle import next_steps
from charterer.policy import plan
from tests import factory as make
from tests.property.lifecycle.rented_cloud import Refused
from tests.property.lifecycle.rented_world import Stale
from tests.scenarios.lifecycle.kubernetes import Kubernetes

_STEPS_OF_A_TURN = 60


@dataclass
class DeletionWorld(Kubernetes):
    """The planner, the life cycles, and an executor without a network."""

    def passes(self, seconds: int, pause: int = 5, until: Callable[[], bool] = lambda: False) -> None:
        """Time, in which everybody works."""
        for _ in range(0, seconds, pause):
            if until():
                return
            self.kubernetes_works()
            self.look()
            for command in plan(self.snapshot()).commands:
                self._write_intent(command)
            self._take_steps()
            self.cloud.advance(pause)

    def _take_steps(self) -> None:
        for _ in range(_STEPS_OF_A_TURN):
            snapshot = self.snapshot()
            steps = list(next_steps(snapshot)[0].values())
            refused = 0
            for step in steps:
                try:
                    self.execute(step, snapshot)
                except (Stale, Refused):
                    refused += 1
            if refused == len(steps):
                return
            self.look()
        raise AssertionError(f"a step that changes nothing is named again and again: {steps}")

    def _write_intent(self, command: Command) -> None:
        if not isinstance(command, Allocate):
            super()._write_intent(command)
            return
        job = self.jobs[command.job]
        former, now = job.allocation, command.allocation
        moved = former is not None and (now is None or now.run != former.run)
        replaced = (*job.replaced, *((former,) if moved and former is not None else ()))
        last = job.last_run if now is None else now.run
        self.jobs[job.id] = replace(job, allocation=now, last_run=last, replaced=replaced)

    def execute(self, step: Step, decided: Snapshot) -> None:
        match step:
            case CreateRun() | Unsuspend() | StopRun() | DeleteRun():
                self._change_own(step, decided)
            case StopOrphan():
                self._stop(step.orphan.run)
            case LetGo():
                for pod in step.pods:
                    self.tell_to_end(pod.uid)
            case GiveBack() if step.record is None:
                self.delete_job(step.job)
                self.collect()
            case GiveBack(record=RecordRun() as record):
                self._record(record)
            case RecordRun():
                self._record(step)
            case CreateService():
                self.jobs[step.job] = replace(self.jobs[step.job], has_service=True)
            case _:
                self._change_nodes_and_pods(step, decided)

    def _change_nodes_and_pods(self, step: Step, decided: Snapshot) -> None:
        match step:
            case LabelNode():
                labels = self.labels.setdefault(step.node, {})
                labels.pop(step.key, None)
                if step.value is not None:
                    labels[step.key] = step.value
            case AnnotatePod():
                run, pod = self.pods[step.pod.uid]
                self.pods[pod.uid] = run, replace(pod, allocation=step.allocation)
            case FailPod():
                run, pod = self.pods[step.pod.uid]
                self.pods[pod.uid] = run, replace(pod, disrupted=True)
                self.pod_ends(pod.uid, PodPhase.FAILED, None)
            case DeletePod():
                if step.pod.deleting and step.pod.uid in self.kept:
                    raise Stale
                self.tell_to_end(step.pod.uid)
                self.collect()
            case Terminate():
                self._see_whether_empty(step)
                super().execute(step, decided)
            case _:
                super().execute(step, decided)

    def _see_whether_empty(self, step: Terminate) -> None:
        """As the executor does, by a list of its own."""
        node = None if step.node is None else self.nodes().get(step.node)
        since = None if node is None else node.not_ready_since
        lost = node is None or (since is not None and self.cloud.now >= after(since, LOST_AFTER_SECONDS))
        patient = step.patience_until is None or self.now() < step.patience_until
        if patient and not lost and any(pod.live and pod.node == step.node for _, pod in self.pods.values()):
            raise Stale

    def _unrecorded_on(self, node: NodeName | None) -> list[Pod]:
        return []

    def _change_own(self, step: CreateRun | Unsuspend | StopRun | DeleteRun, decided: Snapshot) -> None:
        job = self.jobs.get(step.job)
        if job is None:
            raise Stale
        carried = None if job.target is None else self.targets.get(job.target.uid)
        run = next((run for run in decided.jobs[job.id].runs if run.number == step.run), None)
        match step:
            case CreateRun() if carried is not None:
                self.targets[carried.ref.uid] = replace(carried, job=job.id, run=step.run, pods=1)
            case CreateRun():
                uid = f"{job.name}-r{step.run}"
                self.owners[uid] = job.id
                self.runs[uid] = make.run(step.run, job=job.name, uid=uid, suspended=True, created=self.cloud.now)
            case Unsuspend() if carried is not None:
                self.targets[carried.ref.uid] = replace(carried, suspended=False, started=self.cloud.now)
            case Unsuspend():
                assert run is not None
                self.runs[run.uid] = replace(self.runs[run.uid], suspended=False, started=self.cloud.now)
            case StopRun():
                assert run is not None
                self._stop(run)
            case DeleteRun():
                self.collected_at[step.uid] = self.cloud.now
                self.delete_run(step.uid)

    def _stop(self, run: Run) -> None:
        """A Job in deletion takes the patch, and nobody does anything about it."""
        if run.deleting:
            for pod in run.pods:
                self.tell_to_end(pod.uid)
        elif run.uid in self.targets:
            self.targets[run.uid] = replace(self.targets[run.uid], suspended=True)
        else:
            self.runs[run.uid] = replace(self.runs[run.uid], suspended=True)

    def _record(self, step: RecordRun) -> None:
        job, record = self.jobs.get(step.job), step.record
        if job is None:
            raise Stale
        own = job.allocation is not None and job.allocation.run == record.number
        self.jobs[job.id] = replace(
            job,
            allocation=None if own else job.allocation,
            replaced=tuple(item for item in job.replaced if item.run != record.number),
            records=(*job.records, record),
            finish=step.finish or job.finish,
        )
