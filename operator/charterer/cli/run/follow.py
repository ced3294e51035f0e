"""Prints what the pods of a job print, run after run, until the job has ended."""

from __future__ import annotations

import asyncio
from typing import Final

import click

from charterer.api import decode
from charterer.cli.logs import note, pods_by_run, print_pod, waits
from charterer.cluster.client import Client
from charterer.cluster.errors import NotFound, Unreachable
from charterer.cluster.paths import TRAINING_JOBS
from charterer.domain.job import Job
from charterer.domain.jobs.finish import FinishKind
from charterer.sentences import count

_LOOK_SECONDS: Final = 1.0
_LAST_LINES_SECONDS: Final = 10.0
"""Until which a pod's stream should have ended after its job has."""


class Follower:
    """Follows one job; ``uid``: of the object that was created, and not of another one of its name."""

    def __init__(self, client: Client, namespace: str, name: str, uid: str) -> None:
        self._client, self._namespace, self._name, self._uid = client, namespace, name, uid
        self._prints: dict[str, asyncio.Task[None]] = {}
        self._runs: set[int] = set()
        self._told = ""

    async def until_it_ends(self) -> bool:
        """Whether the job is complete. ClickException when it was deleted."""
        try:
            while (job := await self._look()) is None or job.finish is None:  # noqa: ASYNC110 - the cluster tells
                await asyncio.sleep(_LOOK_SECONDS)
            if self._prints:
                await asyncio.wait(self._prints.values(), timeout=_LAST_LINES_SECONDS)
        finally:
            for task in self._prints.values():
                task.cancel()
        finish = job.finish
        said = f": {finish.message}" if finish.message else ""
        note(f"{self._namespace}/{self._name} has ended: {finish.reason or finish.kind.value}{said}")
        return finish.kind is FinishKind.COMPLETE

    async def _look(self) -> Job | None:
        """The job, after the printing of pods that have started has begun; None where the cluster does not answer."""
        try:
            raw = await self._client.get(TRAINING_JOBS.one(self._name, self._namespace))
            job = decode.training_job(raw).job
            runs = await pods_by_run(self._client, job)
        except NotFound as error:
            raise self._deleted() from error
        except Unreachable as error:
            self._tell(f"the API server does not answer, trying again: {error.message}")
            return None
        if job.id != self._uid:
            raise self._deleted()
        for number, pods in sorted(runs.items()):
            for pod in sorted(pods, key=lambda pod: pod.index):
                if pod.started and pod.uid not in self._prints:
                    if number not in self._runs:
                        self._runs.add(number)
                        self._tell(f"{job.run_title(number)}: {count(len(pods), 'pod')}")
                    prefix = f"[{pod.index}] " if len(pods) > 1 else ""
                    printing = print_pod(self._client, self._namespace, pod, {"follow": "true"}, prefix)
                    self._prints[pod.uid] = asyncio.create_task(printing)
        if not runs and job.finish is None:
            self._tell(f"{self._namespace}/{self._name} has no pods: {waits(job, raw)}")
        return job

    def _deleted(self) -> click.ClickException:
        return click.ClickException(f"TrainingJob {self._namespace}/{self._name} was deleted")

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            note(text)
