"""Templates are tried before money is spent: what is too large for its record is refused."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from charterer.cluster.client import Client
from charterer.controller.templates import Templates
from charterer.domain.job import Job, Widths
from charterer.workloads import INDEXED_JOB, RunEnvironment
from tests import factory


class Api:
    """An API server with one TrainingJob that takes every template."""

    def __init__(self, note: str) -> None:
        self.note = note
        self.tried = 0

    async def get(self, path: str) -> dict[str, Any]:
        spec = {"template": {"spec": {"containers": [{"name": "trainer"}]}}}
        return {"metadata": {"name": "sft", "annotations": {"note": self.note}}, "spec": spec}

    async def post(self, path: str, body: Any, **how: Any) -> dict[str, Any]:
        self.tried += 1
        return {}


def refused(job: Job, note: str) -> tuple[str | None, int]:
    """What a job is told whose object has this annotation, and how many dry runs there were."""
    api = Api(note)

    async def main() -> str | None:
        environment = RunEnvironment("https://progress", "")
        templates = Templates(cast(Client, api), INDEXED_JOB, environment, lambda: None)
        assert templates.refusals([job]) == {job.id: None}
        await asyncio.sleep(0.01)
        return templates.refusals([job]).get(job.id)

    return asyncio.run(main()), api.tried


def test_nothing_is_rented_for_a_job_whose_record_could_not_be_stored() -> None:
    said, tried = refused(factory.job(widths=Widths(1, 1, 8)), "x" * 900_000)
    assert said is not None
    assert "the TrainingJob takes 900," in said
    assert tried == 0


@pytest.mark.parametrize(("most", "accepted"), [(8, True), (100_000, False)])
def test_the_room_for_the_places_of_the_widest_run_counts(most: int, accepted: bool) -> None:
    said, tried = refused(factory.job(widths=Widths(1, 1, most)), "x" * 200_000)
    assert (said is None, tried) == (accepted, int(accepted))
