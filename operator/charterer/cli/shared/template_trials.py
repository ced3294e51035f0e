"""Trying the templates that the operator has not tried yet, as it would, with the rights of whoever asks.

What the conditions say already is believed. Nothing is changed by a dry run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from charterer.cli.shared.cluster import ClusterOptions, read_with
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError, Forbidden, NotFound, Unauthorized, Unreachable
from charterer.cluster.paths import TRAINING_JOBS
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.volumes import volumes_now
from charterer.controller.template_trial import (
    TRIALS_AT_ONCE,
    Unmet,
    lacks_right,
    may_run_again,
    needs_trial,
    template_refusal,
)
from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.domain.nodes.demands import AnyOf
from charterer.workloads import INDEXED_JOB, RunEnvironment

_NOWHERE: Final = RunEnvironment("", "")
"""No pod of a dry run reports its progress."""


@dataclass(frozen=True, slots=True)
class TriedState:
    """The state with the refusals that its conditions and dry runs tell, and with what jobs' volumes ask.

    ``warnings``: a sentence for each thing that a dry run could not tell, or that it told of a running job.
    """

    state: ClusterState
    warnings: tuple[str, ...] = ()


def with_trials(
    cluster: ClusterOptions, state: ClusterState, written: Mapping[ObjectKey, Mapping[str, Any]]
) -> TriedState:
    """Try the jobs of ``written``, whose objects are given, and those that wait and were never tried (``refusals``).

    ClickException where the API server does not answer.
    """
    known = {
        decoded.job.id: decoded.template_verdict
        for key, decoded in state.jobs.items()
        if decoded.template_verdict and key not in written and needs_trial(decoded.job)
    }
    untried = [
        decoded.job
        for key, decoded in state.jobs.items()
        if (
            may_run_again(decoded.job)
            if key in written
            else decoded.template_verdict is None and decoded.job.id not in state.refusals and needs_trial(decoded.job)
        )
    ]
    trials = _DryRuns(written)
    with_volumes = [each.job for each in state.jobs.values() if each.job.demands.claims or each.job.demands.classes]
    if untried or with_volumes:
        read_with(cluster, lambda client: trials.run(client, untried, with_volumes))
    refusals = {**state.refusals, **known, **trials.refusals}
    tried = replace(state, refusals=refusals, volumes={**state.volumes, **trials.volumes})
    return TriedState(tried, (*trials.warnings, *trials.untried()))


@dataclass(slots=True)
class _DryRuns:
    written: Mapping[ObjectKey, Mapping[str, Any]]
    refusals: dict[JobId, str | None] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    forbidden: Counter[str] = field(default_factory=Counter)
    """Jobs not tried, by the namespace in which whoever asks may not create Jobs."""
    new_namespaces: set[str] = field(default_factory=set)
    """Those of jobs of files that do not exist yet."""
    volumes: dict[JobId, tuple[AnyOf, ...]] = field(default_factory=dict)

    async def run(self, client: Client, jobs: Iterable[Job], with_volumes: Iterable[Job]) -> None:
        """Try all of the jobs, a few at once, and look up the volumes of some."""
        slots = asyncio.Semaphore(TRIALS_AT_ONCE)

        async def try_one(job: Job) -> None:
            async with slots:
                await self._try(client, job)

        await asyncio.gather(*map(try_one, jobs))
        self.volumes |= await volumes_now(client, with_volumes)

    async def _try(self, client: Client, job: Job) -> None:
        if self.forbidden[job.namespace]:
            self._taken_as_right(job)
            return
        try:
            refused = await template_refusal(client, INDEXED_JOB, job, await self._raw(client, job), _NOWHERE)
        except Unmet as unmet:
            refused = str(unmet)
        except NotFound:
            if ObjectKey(job.namespace, job.name) in self.written:
                self.refusals[job.id] = ""
                self.new_namespaces.add(job.namespace)
            return  # its namespace is only in a file, or the job is gone meanwhile
        except (Unreachable, Unauthorized):
            raise
        except ApiError as error:
            if isinstance(error, Forbidden) and lacks_right(error):
                self._taken_as_right(job)
            else:
                self.refusals[job.id] = None
                self.warnings.append(f"the template of {job.namespace}/{job.name} cannot be tried now: {error.message}")
            return
        if needs_trial(job):
            self.refusals[job.id] = refused
        elif refused:
            self.warnings.append(f"{job.namespace}/{job.name} runs on, but no further run could start: {refused}")

    def _taken_as_right(self, job: Job) -> None:
        self.forbidden[job.namespace] += 1
        self.refusals[job.id] = ""

    async def _raw(self, client: Client, job: Job) -> Mapping[str, Any]:
        written = self.written.get(ObjectKey(job.namespace, job.name))
        raw: Mapping[str, Any] | RawObject = (
            await client.get(TRAINING_JOBS.one(job.name, job.namespace)) if written is None else written
        )
        return raw

    def untried(self) -> Iterable[str]:
        """A sentence on all jobs that could not be tried, and one on those that whoever asks may not try."""
        if self.new_namespaces:
            where = ", ".join(sorted(self.new_namespaces))
            yield f"templates in namespace {where} are taken to be right without a dry run: it does not exist yet"
        if not self.forbidden:
            return
        jobs, where = self.forbidden.total(), ", ".join(sorted(self.forbidden))
        yield (
            f"you may not create Jobs in namespace{'s' if len(self.forbidden) > 1 else ''} {where}, so the template"
            f"{f's of {jobs} new jobs are' if jobs > 1 else ' of a new job is'} taken to be right without a dry run"
        )
