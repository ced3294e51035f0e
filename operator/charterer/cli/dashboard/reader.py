"""Reads the cluster for all pages that are open, and only while one is: as often as reading it costs little."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, NoReturn

import click

from charterer.cli.dashboard.board import Board, encode
from charterer.cli.dashboard.decisions import read_events
from charterer.cli.dashboard.documents import MonthCosts, PageQuestion, Parts, Sighting, cluster_parts, own_parts
from charterer.cli.dashboard.prometheus import PrometheusHistory
from charterer.cli.shared.cluster import ROLE, ClusterOptions, explained, read_all, wall_clock
from charterer.cli.shared.own_jobs import read_own_jobs
from charterer.cli.shared.template_trials import with_trials
from charterer.cluster.client import Client
from charterer.cluster.errors import Forbidden
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.domain.ids import JobId

LEAST_SECONDS: Final = 5.0
"""Seconds between the end of a reading and the next one, at least."""
_IDLE_PART: Final = 4.0
"""Seconds of pause for each second that a reading took: a large cluster is read a fifth of the time at most."""
_MOST_SECONDS: Final = 60.0
"""Seconds between two tries while the cluster cannot be read, at most."""

Source = Callable[[], Awaitable[Parts]]
"""Makes the parts of the page anew. Raises ClickException."""


def pause_seconds(took: float, failures: int) -> float:
    """Seconds until the next reading, after one that took so long and ``failures`` that failed in a row."""
    if failures:
        return min(LEAST_SECONDS * 2.0 ** (failures - 1), _MOST_SECONDS)
    return max(LEAST_SECONDS, _IDLE_PART * took)


async def read_on(
    source: Source,
    board: Board,
    say: Callable[[str], None],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> NoReturn:
    """Read again and again while a page is connected. What fails is said once, and on the page until it works again."""
    failures, said, took = 0, "", 0.0
    while True:
        await sleep(pause_seconds(took, failures))
        await board.watched()
        began = clock()
        try:
            parts = await source()
        except click.ClickException as error:
            failures += 1
            board.show(encode({"problem": error.message}), whole=False)
            if error.message != said:
                said = error.message
                say(said)
        else:
            failures, said = 0, ""
            board.show(await asyncio.to_thread(encode, parts))
        took = clock() - began


class ClusterSource:
    """The parts from the cluster, with the rights of whoever asks. The client is closed by whoever opened it.

    ``namespace``: whose jobs are shown to an account that may not read the whole cluster; None: the context's.
    """

    def __init__(
        self,
        cluster: ClusterOptions,
        client: Client,
        question: PageQuestion,
        namespace: str | None,
        history: PrometheusHistory | None,
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._question = question
        self._namespace = namespace or client.access.namespace
        self._history = history
        self._month = MonthCosts(question)
        self._own = False
        self._refusals: dict[tuple[JobId, int], str] = {}

    async def __call__(self) -> Parts:
        """Read anew. ClickException where that fails; MayNotRead where not even the namespace may be read."""
        with explained(self._client.access):
            parts = await self._read_own() if self._own else await self._read()
        history = None if self._history is None else await self._history.latest()
        return {**parts, "history": history, "problem": None}

    async def _read(self) -> Parts:
        try:
            state, trouble = await read_all(self._client)
        except Forbidden:
            if self._question.budget is not None:
                raise
            self._own = True
            return await self._read_own()
        now = wall_clock()
        events, lacking = await read_events(self._client, None)
        seen = Sighting(state, now, trouble, events, [lacking] if lacking else [])
        return await asyncio.to_thread(self._planned, seen)

    def _planned(self, seen: Sighting) -> Parts:
        """In a thread of its own: a plan takes seconds where there are thousands of jobs."""
        tried = with_trials(self._cluster, self._with_known(seen.state), {})
        generations = {decoded.job.id: decoded.job.generation for decoded in tried.state.jobs.values()}
        self._refusals = {
            (job, generations[job]): refusal
            for job, refusal in tried.state.refusals.items()
            if refusal is not None and job in generations
        }
        warned = replace(seen, state=tried.state, warnings=[*seen.warnings, *tried.warnings])
        return cluster_parts(warned, self._question, self._month)

    def _with_known(self, state: ClusterState) -> ClusterState:
        """The state with what earlier dry runs told, so that no template is tried at every reading."""
        jobs = [decoded.job for decoded in state.jobs.values() if decoded.template_verdict is None]
        known = {
            job.id: self._refusals[job.id, job.generation] for job in jobs if (job.id, job.generation) in self._refusals
        }
        return replace(state, refusals={**state.refusals, **known})

    async def _read_own(self) -> Parts:
        own = await read_own_jobs(self._client, self._namespace)
        events, lacking = await read_events(self._client, self._namespace)
        limited = (
            f"your account may not read the whole cluster (ClusterRole {ROLE} allows it): these are the jobs of "
            f"namespace {self._namespace}"
        )
        return await asyncio.to_thread(own_parts, own, events, [limited, *([lacking] if lacking else [])])
