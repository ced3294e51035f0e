"""What Events say of runs that start late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from charterer.cluster.client import Client, Listing
from charterer.cluster.errors import Unreachable
from charterer.controller.run_warnings import RunWarnings
from charterer.domain.job import Job, Run
from charterer.domain.pod import PodPhase
from tests.factory import allocation, at, job, pod, run, snapshot
from tests.virtual_time import run_in_virtual_time

PENDING = pod(phase=PodPhase.PENDING, ready=False)


def event(reason: str, note: str, second: int) -> dict[str, Any]:
    metadata = {
        "name": f"{reason}-{second}",
        "uid": f"{reason}-{second}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-06-01T00:00:00Z",
    }
    return {
        "metadata": metadata,
        "reason": reason,
        "note": note,
        "deprecatedLastTimestamp": f"2026-06-01T00:00:{second:02}Z",
    }


class Api:
    """Events by the uid that they are about; ``asked`` about."""

    def __init__(self, events: dict[str, list[dict[str, Any]]]) -> None:
        self.events = events
        self.asked: list[str] = []
        self.down = False

    async def list(self, path: str, *, fields: str) -> Listing:
        if self.down:
            raise Unreachable("GET", path, 503, "", "no")
        uid = fields.removeprefix("regarding.uid=").removesuffix(",type=Warning")
        self.asked.append(uid)
        return Listing(tuple(self.events.get(uid, [])), 1)


def looked(api: Api, *runs: Run, now: float = 60, times: int = 1) -> tuple[dict[str, str], int]:
    """What is known after a look at a job with these runs, and how often a change was told."""
    changes: list[None] = []
    mine: Iterable[Job] = [job(allocation=allocation(), runs=runs)]

    async def main() -> dict[str, str]:
        warnings = RunWarnings(cast(Client, api), lambda: changes.append(None))
        for _ in range(times):
            await warnings.look(snapshot(*mine, now=at(now)))
        return dict(warnings.latest)

    return run_in_virtual_time(main()), len(changes)


def test_a_job_that_may_not_make_pods_is_told_by_its_last_warning() -> None:
    refused = [event("FailedCreate", "violates PodSecurity", 40), event("FailedCreate", "older", 10)]
    api = Api({"run-uid-sft-1": refused})
    assert looked(api, run(completions=1), times=3) == ({"run-uid-sft-1": "FailedCreate: violates PodSecurity"}, 1)


def test_a_pod_that_says_nothing_itself_is_asked_about_as_well() -> None:
    api = Api({PENDING.uid: [event("FailedMount", 'secret "data" not found', 30)]})
    assert looked(api, run(1, PENDING))[0] == {"run-uid-sft-1": 'FailedMount: secret "data" not found'}


@pytest.mark.parametrize(
    "one",
    [
        run(1, pod()),
        run(1, PENDING, started=at(55)),
        run(1, PENDING, suspended=True),
        run(1, PENDING, failed=at(50)),
        run(1, replace(PENDING, trouble="Unschedulable: no node")),
    ],
)
def test_nothing_is_asked_about_a_run_that_runs_or_is_young_or_says_itself_what_it_lacks(one: Run) -> None:
    api = Api({})
    assert looked(api, one) == ({}, 0)
    assert api.asked == []


def test_what_is_known_stays_while_the_api_server_does_not_answer() -> None:
    api = Api({"run-uid-sft-1": [event("FailedCreate", "no quota", 40)]})

    async def main() -> None:
        warnings = RunWarnings(cast(Client, api), lambda: None)
        late = snapshot(job(allocation=allocation(), runs=(run(completions=1),)), now=at(60))
        await warnings.look(late)
        api.down = True
        await warnings.look(late)
        assert warnings.latest == {"run-uid-sft-1": "FailedCreate: no quota"}
        await warnings.look(snapshot(job(), now=at(60)))
        assert warnings.latest == {}

    run_in_virtual_time(main())
