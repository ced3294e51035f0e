"""A small world for runs: the Job controller, a scheduler, kubelets and machines that die, and one TrainingJob.

What really happened is kept beside what Kubernetes shows, so that a record can be held against the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from charterer.domain.ids import NodeName
from charterer.domain.job import Allocation, Job, Run, RunOutcome
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.pool import Instance
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.steps import (
    AnnotatePod,
    CreateRun,
    CreateService,
    DeleteRun,
    LabelNode,
    RecordRun,
    Step,
    StopRun,
    Unsuspend,
)
from charterer.domain.time import Instant, after
from tests import factory as make

MACHINES = ("m1", "m2", "m3")
LIVE = (PodPhase.PENDING, PodPhase.RUNNING)


class Stale(Exception):
    """The object a step was decided on has changed."""


@dataclass
class Truth:
    """What really happened in one run: ranks that ended their work, ranks that failed by themselves, lost machines."""

    done: set[int] = field(default_factory=set)
    broken: bool = False
    lost: bool = False


@dataclass
class RunWorld:
    """One TrainingJob on up to three machines of 4 GPUs. ``execute`` is an executor without a network."""

    now: Instant = field(default_factory=lambda: make.at(0))
    job: Job | None = field(default_factory=lambda: make.job(has_service=False, backoff_limit=2, max_restarts=1_000))
    runs: dict[int, Run] = field(default_factory=dict)
    labels: dict[str, dict[str, str]] = field(default_factory=lambda: {name: {} for name in MACHINES})
    dead: dict[str, Instant] = field(default_factory=dict)
    seen: tuple[Instance, ...] = ()
    asked: Instant = field(default_factory=lambda: make.at(0))
    truth: dict[int, Truth] = field(default_factory=dict)
    uids: int = 0

    # --- seeing ---------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Survey the cloud; what it says of a machine may be as old as its lag."""
        then = after(self.now, -make.LAG)
        machines = [make.instance(name) for name in MACHINES]
        self.seen = tuple(
            make.ended(item, self.dead[item.id]) if self.dead.get(item.id, self.now) < then else item
            for item in machines
        )
        self.asked = self.now

    def rentals(self) -> list[Rental]:
        """The rental's life cycle, shortened: an instance seen to have ended is an ended rental."""
        told = {item.id: item.ended for item in self.seen}
        return [
            make.rental(f"r-{name}", make.instance(name))
            if told.get(make.instance(name).id) is None
            else make.rental(f"r-{name}", make.instance(name), phase=RentalPhase.ENDED, ended=self.dead[name])
            for name in MACHINES
        ]

    def snapshot(self) -> Snapshot:
        told = {item.id for item in self.seen if item.ended is not None}  # Kubernetes knows no sooner than the cloud
        nodes = [make.node(name, run_labels=dict(self.labels[name]), ready=name not in told) for name in MACHINES]
        survey = replace(make.survey(*self.seen), asked=self.asked)
        things: list[Rental | Node | Job] = [*self.rentals(), *nodes]
        if self.job is not None:
            things.append(replace(self.job, runs=tuple(self.runs.values())))
        return make.snapshot(survey, *things, now=self.now)

    def live(self, number: int) -> list[Pod]:
        return [] if number not in self.runs else [pod for pod in self.runs[number].pods if pod.phase in LIVE]

    # --- the planner ----------------------------------------------------------------------------------------------

    def allocate(self, machines: list[str] | None) -> None:
        """A new run on these machines, or none."""
        if self.job is None or self.job.finish is not None:
            return
        job, intent = self.job, None
        if machines:
            names = [f"r-{name}" for name in machines]
            intent = make.allocation(*names, run=job.last_run + 1, since=self.now)
        former = () if job.allocation is None else (job.allocation,)
        self.job = replace(
            job,
            allocation=intent,
            last_run=job.last_run if intent is None else intent.run,
            replaced=(*job.replaced, *former),
        )

    # --- Kubernetes -----------------------------------------------------------------------------------------------

    def _change(self, number: int, **changes: Any) -> None:
        run = self.runs[number]
        version = str(int(run.resource_version) + 1)
        self.runs[number] = replace(run, resource_version=version, **changes)

    def change_pod(self, number: int, uid: str, **changes: Any) -> None:
        pods = self.runs[number].pods
        self._change(number, pods=tuple(replace(p, **changes) if p.uid == uid else p for p in pods))

    def control(self) -> None:
        """One pass of the Job controller, the scheduler and the garbage collector."""
        for number in sorted(self.runs):
            run = self.runs[number]
            if run.deleting:
                self._delete_pods(number)
                if not self.runs[number].pods:
                    del self.runs[number]
            elif run.complete is None and run.failed is None:
                if run.suspended:
                    self._delete_pods(number)
                else:
                    self._advance(number)
            elif run.failed is not None:
                self._delete_pods(number, only_live=True)
        self._schedule()

    def _delete_pods(self, number: int, *, only_live: bool = False) -> None:
        """Live pods get SIGTERM, finished ones of a suspended or deleted Job are collected."""
        kept = []
        for pod in self.runs[number].pods:
            if pod.phase in LIVE and pod.node is not None:
                kept.append(replace(pod, deleting=True))
            elif only_live and pod.phase not in LIVE:
                kept.append(pod)
        self._change(number, pods=tuple(kept))

    def _advance(self, number: int) -> None:
        run = self.runs[number]
        if any(pod.phase is PodPhase.FAILED for pod in run.pods):
            self._delete_pods(number, only_live=True)
            if not self.live(number):
                disrupted = any(pod.disrupted for pod in run.pods)
                message = "matched DisruptionTarget" if disrupted else "backoff limit"
                self._change(number, failed=self.now, failed_message=message, failed_by_disruption=disrupted)
            return
        counted = {pod.index for pod in run.pods}
        for index in sorted(set(range(run.completions)) - counted):
            self.uids += 1
            pod = make.pod(index, number, uid=f"p{self.uids}", node=None, phase=PodPhase.PENDING, ready=False)
            self._change(number, pods=(*self.runs[number].pods, pod))
        succeeded = {pod.index for pod in self.runs[number].pods if pod.phase is PodPhase.SUCCEEDED}
        if len(succeeded) == run.completions:
            # Evicted pods that exited 0 were counted, and are collected.
            kept = tuple(pod for pod in self.runs[number].pods if not pod.deleting)
            self._change(number, complete=self.now, pods=kept)

    def _schedule(self) -> None:
        for number in self.runs:
            for pod in self.live(number):
                if pod.node is None and (name := self._room(number)) is not None:
                    node = NodeName(f"n-{name}")
                    self.change_pod(number, pod.uid, node=node, phase=PodPhase.RUNNING, ready=True)

    def _room(self, number: int) -> str | None:
        taken = {pod.node for run in self.runs.values() for pod in run.pods if pod.phase in LIVE}
        key = make.job().run_label
        fits = (
            name
            for name in MACHINES
            if self.labels[name].get(key) == f"r{number}" and name not in self.dead and f"n-{name}" not in taken
        )
        return next(fits, None)

    # --- pods and machines ----------------------------------------------------------------------------------------

    def end_pod(self, number: int, pod: Pod, code: int) -> None:
        """A rank's process ends; what a pod does that is told to stop proves nothing."""
        truth = self.truth.setdefault(number, Truth())
        if not pod.deleting and code == 0:
            truth.done.add(pod.index)
        truth.broken |= not pod.deleting and code != 0
        phase = PodPhase.SUCCEEDED if code == 0 else PodPhase.FAILED
        self.change_pod(number, pod.uid, phase=phase, exit_code=code, finished=self.now, ready=False)

    def evict(self, number: int, pod: Pod) -> None:
        """Somebody drains the node: SIGTERM, with a DisruptionTarget condition."""
        self.change_pod(number, pod.uid, deleting=True, disrupted=True)

    def kill(self, name: str) -> None:
        """The machine dies. Its pods stay Running until somebody says otherwise, its peers exit with 1."""
        self.dead[name] = self.now
        for number in list(self.runs):
            pods = self.live(number)
            if any(pod.node == f"n-{name}" for pod in pods):
                self.truth.setdefault(number, Truth()).lost = True

    def clear(self) -> None:
        """What the rental's life cycle does to the pods of a machine that is seen to have ended."""
        for item in self.seen:
            if item.ended is not None:
                for number in list(self.runs):
                    for pod in self.live(number):
                        if pod.node == f"n-{item.id}":
                            told = {"phase": PodPhase.FAILED, "disrupted": True, "finished": self.now}
                            self.change_pod(number, pod.uid, **told)

    def replace_machine(self, name: str) -> None:
        """A new machine under the old name, so that the story needs no more than three; once nothing names the old."""
        if self.job is not None:
            intents = (*self.job.replaced, self.job.allocation)
            if any(f"r-{name}" == place.rental for item in intents if item for place in item.placements):
                return
        if any(pod.node == f"n-{name}" for number in self.runs for pod in self.live(number)):
            return
        self.dead.pop(name, None)
        self.labels[name] = {}
        self.look()

    # --- the executor ---------------------------------------------------------------------------------------------

    def execute(self, step: Step, decided: Snapshot) -> None:
        """Carry out a step that was decided on ``decided``; Stale when the world has moved on."""
        _sound(step, decided)
        match step:
            case LabelNode():
                labels = self.labels[step.node.removeprefix("n-")]
                labels.pop(step.key, None)
                if step.value is not None:
                    labels[step.key] = step.value
            case CreateService() | CreateRun() | RecordRun() | AnnotatePod():
                self._write(step, self._fresh_job(step.job, decided))
            case StopRun() | Unsuspend() | DeleteRun():
                self._patch_run(step, decided)
            case _:
                raise AssertionError(f"not expected here: {step}")

    def _fresh_job(self, uid: str, decided: Snapshot) -> Job:
        before = next((job for job in decided.jobs.values() if job.id == uid), None)
        if self.job is None or before is None or replace(before, runs=()) != self.job:
            raise Stale
        return self.job

    def _write(self, step: CreateService | CreateRun | RecordRun | AnnotatePod, job: Job) -> None:
        match step:
            case CreateService():
                self.job = replace(job, has_service=True)
            case CreateRun():
                if job.allocation is None or job.allocation.run != step.run:
                    raise Stale
                self.create_run(step.run, len(job.allocation.placements))
            case AnnotatePod():
                self.change_pod(step.pod.run, step.pod.uid, allocation=step.allocation)
            case RecordRun():
                self._record(job, step)

    def create_run(self, number: int, pods: int) -> None:
        """POST under a deterministic name: done twice is done."""
        if number not in self.runs:
            self.uids += 1
            self.runs[number] = make.run(number, uid=f"u{self.uids}", completions=pods, suspended=True, started=None)

    def _record(self, job: Job, step: RecordRun) -> None:
        number, outcome = step.record.number, step.record.outcome
        if self.live(number):
            raise Stale
        self._hold_against_truth(job, number, outcome)
        own = job.allocation is not None and job.allocation.run == number
        self.job = replace(
            job,
            allocation=None if own else job.allocation,
            replaced=tuple(item for item in job.replaced if item.run != number),
            records=(*job.records, step.record),
            failures=job.failures + (outcome is RunOutcome.FAILED),
            restarts=job.restarts + (outcome is RunOutcome.INTERRUPTED),
            finish=step.finish or job.finish,
        )

    def _hold_against_truth(self, job: Job, number: int, outcome: RunOutcome) -> None:
        assert number not in {record.number for record in job.records}, "recorded twice"
        truth = self.truth.get(number, Truth())
        allocations: list[Allocation] = [*job.replaced, *([job.allocation] if job.allocation else [])]
        ranks = len(next(item for item in allocations if item.run == number).placements)
        if outcome is RunOutcome.COMPLETE:
            assert truth.done == set(range(ranks)), "recorded COMPLETE, but did not complete"
        if outcome is RunOutcome.FAILED:
            assert truth.broken, "recorded FAILED, but no rank failed by itself"
            assert not truth.lost, "a lost machine was counted against the job"

    def _patch_run(self, step: StopRun | Unsuspend | DeleteRun, decided: Snapshot) -> None:
        before = next((run for job in decided.jobs.values() for run in job.runs if run.number == step.run), None)
        run = self.runs.get(step.run)
        if run is None or before is None or run.uid != before.uid:
            raise Stale
        if isinstance(step, DeleteRun):
            self._change(step.run, deleting=True)
            return
        if run.deleting and isinstance(step, StopRun):
            for pod in run.pods:
                if pod.phase in LIVE:
                    self.change_pod(step.run, pod.uid, deleting=True)
            return
        if run.resource_version != before.resource_version:
            raise Stale
        if isinstance(step, Unsuspend):
            if any(self.live(number) for number in self.runs if number != step.run):
                raise Stale
            self._change(step.run, suspended=False, started=self.now)
        else:
            self._change(step.run, suspended=True, started=None)

    def labelled(self) -> list[str]:
        return [name for name, labels in self.labels.items() if labels]

    def give_up_lost(self) -> None:
        """What the planner does about a run whose machine has ended: it withdraws the intent."""
        job = self.job
        if job is None or job.allocation is None:
            return
        ended = {rental.id for rental in self.rentals() if rental.phase is RentalPhase.ENDED}
        if any(place.rental in ended for place in job.allocation.placements):
            self.allocate(None)


def _sound(step: Step, decided: Snapshot) -> None:
    """What must be so where a step is decided, whatever the executor looks at again."""
    for job in decided.jobs.values():
        live = {run.number for run in job.runs if any(pod.live for pod in run.pods)}
        if isinstance(step, Unsuspend):
            assert not live - {step.run}, "another run's pods were in sight"
            assert not job.replaced, "a run before it was not recorded"
        if isinstance(step, RecordRun):
            assert step.record.number not in live, "the run's pods were in sight"
