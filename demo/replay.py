"""Simulates the training containers, because kwok's pods run no containers.

The replay submits the jobs at their times and follows their pods. While all pods of a run are running, the job advances
at the speed measured for its number of GPUs. The replay reports progress, writes simulated checkpoints, and ends the
pods when the work is done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import aiohttp

from demo import pods, scenario
from demo.kube import RETRIABLE, Json, Kube, KubeError
from demo.pods import RunningRun
from demo.progress import Reporter
from demo.scenario import NAMESPACE, ReplayJob, Scenario
from demo.training import Training

JOBS = f"/apis/charterer.dev/v1alpha1/namespaces/{NAMESPACE}/trainingjobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job whose pods have the labels that `demo.pods` reads.

    ``path`` is the API path for creation. ``record`` is the API path of the objects with the job's state, which have
    the job's name. ``ended`` reads a record: None while the job runs or waits, "" if complete, else the cause of its
    failure. ``placed`` reads a record: the job's run and its pool. ``reports`` says whether its pods report progress to
    the operator.
    """

    path: str
    record: str
    manifest: Callable[[Scenario, ReplayJob], Json]
    ended: Callable[[Json], str | None]
    placed: Callable[[Json], tuple[int, str] | None]
    reports: bool


def _ended(training_job: Json) -> str | None:
    finish = training_job.get("status", {}).get("finish")
    if finish is None:
        return None
    return "" if finish["kind"] == "Complete" else f"{finish.get('reason', '')}: {finish.get('message', '')}"


def _placed(training_job: Json) -> tuple[int, str] | None:
    allocation = training_job.get("status", {}).get("allocation")
    return None if allocation is None else (allocation["run"], allocation["option"]["pool"])


TRAINING_JOBS = Kind(JOBS, JOBS, scenario.training_job, _ended, _placed, reports=True)

_TICK_SECONDS = 0.2
_REPORT_SECONDS = 1.0
_PATIENCE_SECONDS = 0.5


@dataclass(slots=True)
class Replayed:
    """A job of the replay and its progress. Times are workload seconds since the start of the replay.

    ``submitted``, ``began`` (all pods ran for the first time) and ``completed`` are actual times, None before. ``held``
    has steps of (second, GPUs), with 0 GPUs unless all pods run. ``repeated`` is seconds of training lost because pods
    ended without a checkpoint. ``gpu_types`` is by run, as soon as known. ``types`` has steps of (second, type of its
    GPUs).
    """

    job: ReplayJob
    training: Training
    submitted: float | None = None
    began: float | None = None
    completed: float | None = None
    failed: str = ""
    gpus: int = 0
    widths: list[int] = field(default_factory=list)
    held: list[tuple[float, int]] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    ending: bool = False
    repeated: float = 0.0
    gpu_types: dict[int, str] = field(default_factory=dict)
    types: list[tuple[float, str]] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Whether the job is complete or failed according to Kubernetes."""
        return self.completed is not None or bool(self.failed)

    def gpu_seconds(self, at: float) -> float:
        """Return the GPU-seconds held up to ``at``."""
        points = [*self.held, (at, 0)]
        return sum(gpus * (end - since) for (since, gpus), (end, _) in pairwise(points))

    def follow(self, running: RunningRun | None, at: float, restart_seconds: float) -> None:
        """Update the training at ``at``. ``running`` is the run whose pods all run now, or None."""
        current = self.training.current
        if current is not None and (running is None or running.run != current.run):
            lost = any(pods.disrupted(pod) for pod in self.pods if pods.run_of(pod) == current.run)
            before, self.training = self.training, self.training.crash(at) if lost else self.training.stop(at)
            self.repeated += (before.advance(at).done - self.training.done) / current.speed
            self.gpus = 0
            self.held.append((at, 0))
        if running is not None and self.training.current is None and running.run in self.gpu_types:
            speed = self.job.application.speedup(running.gpus, self.gpu_types[running.run])
            self.training = self.training.begin(running.run, at, speed, restart_seconds)
            self.began = at if self.began is None else self.began
            self.gpus = running.gpus
            self.widths.append(running.gpus)
            self.types.append((at, self.gpu_types[running.run]))
            self.held.append((at, running.gpus))


class Replay:
    """The replay of a scenario on a cluster as jobs of one kind. ``clock`` is a monotonic clock in seconds."""

    def __init__(
        self, kube: Kube, of: Scenario, kind: Kind = TRAINING_JOBS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kube = kube
        self._scenario = of
        self._kind = kind
        self._clock = clock
        self._started = clock()
        self._all_finished = asyncio.Event()
        self.jobs = {job.name: Replayed(job, Training(job.work, of.checkpoint_seconds)) for job in of.jobs}
        self.answers: dict[int, int] = {}
        self._gpu_types = {pool.name: pool.gpu_type for pool in of.pools}

    @property
    def now(self) -> float:
        """Workload seconds since the replay began."""
        return self._scenario.pace.workload_seconds(self._clock() - self._started)

    async def run(self) -> None:
        """Replay until every job has ended. Calls are retried during outages of the API server and the operator."""
        self._started = self._clock()
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as tasks:
            reporter = Reporter(self._kube, session)
            self.answers = reporter.answers
            work = (self._follow_jobs(), self._follow_pods(), self._train(reporter))
            running = [tasks.create_task(coroutine) for coroutine in work]
            await self._submit()
            await self._all_finished.wait()
            for task in running:
                task.cancel()

    async def _submit(self) -> None:
        for replayed in sorted(self.jobs.values(), key=lambda replayed: replayed.job.submitted):
            wait = self._scenario.pace.demo_seconds(replayed.job.submitted - self.now)
            await asyncio.sleep(max(0.0, wait))
            replayed.submitted = self.now
            await self._insist("POST", self._kind.path, self._kind.manifest(self._scenario, replayed.job))

    async def _insist(self, method: str, path: str, body: Json) -> None:
        """Repeat a call until it succeeds or the server refuses it for good. "Already exists" counts as success."""
        while True:
            try:
                await self._kube.call(method, path, body)
                return
            except KubeError as refused:
                if refused.code == 409:
                    return
                if refused.code < 500 and refused.code != 429:
                    raise
            except RETRIABLE:
                pass
            await asyncio.sleep(_PATIENCE_SECONDS)

    async def _follow_jobs(self) -> None:
        async for objects in self._kube.watch(self._kind.record):
            for item in objects.values():
                replayed = self.jobs.get(item["metadata"]["name"])
                if replayed is None:
                    continue
                if (placed := self._kind.placed(item)) is not None:
                    run, pool = placed
                    replayed.gpu_types[run] = self._gpu_types[pool]
                    self._follow(replayed)
                failure = self._kind.ended(item)
                if failure is not None and not replayed.finished:
                    replayed.failed = failure
                    replayed.completed = None if failure else self.now
            if all(job.finished for job in self.jobs.values()):
                self._all_finished.set()

    async def _follow_pods(self) -> None:
        async for objects in self._kube.watch(PODS, labelSelector=pods.LABEL_JOB):
            by_job: dict[str, list[Json]] = {}
            for pod in objects.values():
                by_job.setdefault(pod["metadata"]["labels"][pods.LABEL_JOB], []).append(pod)
            for name, replayed in self.jobs.items():
                replayed.pods = by_job.get(name, [])
                self._follow(replayed)

    def _follow(self, replayed: Replayed) -> None:
        replayed.follow(pods.running_run(replayed.pods), self.now, self._scenario.restart_seconds)

    async def _train(self, reporter: Reporter) -> None:
        """Advance all trainings until cancelled."""
        async with asyncio.TaskGroup() as reports:
            reported: dict[str, float] = {}
            while True:
                self._advance(reporter, reports, reported)
                soonest = min(replayed.training.finishes_at for replayed in self.jobs.values())
                wait = self._scenario.pace.demo_seconds(soonest - self.now)
                await asyncio.sleep(wait if 0 < wait < _TICK_SECONDS else _TICK_SECONDS)

    def _advance(self, reporter: Reporter, reports: asyncio.TaskGroup, reported: dict[str, float]) -> None:
        at = self.now
        for name, replayed in self.jobs.items():
            if replayed.training.current is None:
                continue
            replayed.training = replayed.training.advance(at)
            if replayed.training.finished or self._clock() - reported.get(name, 0.0) >= _REPORT_SECONDS:
                reported[name] = self._clock()
                reports.create_task(self._report(replayed, reporter))

    async def _report(self, replayed: Replayed, reporter: Reporter) -> None:
        training = replayed.training
        if training.current is None or replayed.ending:
            return
        run_pods = [pod for pod in replayed.pods if pods.run_of(pod) == training.current.run and pods.running(pod)]
        if training.finished:
            await self._end(replayed, run_pods)
        first = next((pod for pod in run_pods if int(pod["metadata"]["labels"].get(pods.INDEX, 0)) == 0), None)
        if first is not None and self._kind.reports:
            await reporter.report(first, training.fraction, training.current.speed)

    async def _end(self, replayed: Replayed, run_pods: list[Json]) -> None:
        """Let the pods' containers exit with 0. Failed calls are repeated at the next tick."""
        replayed.ending = True
        try:
            for pod in run_pods:
                if pods.EXIT_CODE not in pod["metadata"].get("annotations", {}):
                    path = f"{PODS}/{pod['metadata']['name']}"
                    await self._kube.merge_patch(path, {"metadata": {"annotations": {pods.EXIT_CODE: "0"}}})
        except (*RETRIABLE, KubeError):
            return
        finally:
            replayed.ending = False
