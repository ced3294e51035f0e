"""Which job people mean by what they type."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import pytest

from charterer.cluster.client import Listing, RawObject
from charterer.cluster.errors import NotFound
from charterer.tools.commands.shared.one_namespace import JobName, job_name, record_of


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("sft", JobName("", "sft")),
        ("tj/sft", JobName("", "sft")),
        ("TrainingJobs.charterer.dev/sft", JobName("", "sft")),
        ("job/sft", JobName("Job", "sft")),
        ("jobs.batch/sft", JobName("Job", "sft")),
        ("trainjob/sft", JobName("TrainJob", "sft")),
        ("rayjobs/sft", JobName("RayJob", "sft")),
    ],
)
def test_a_job_is_named_by_itself_or_by_the_object_that_it_was_made_for(given: str, meant: JobName) -> None:
    assert job_name(given) == meant


@pytest.mark.parametrize("given", ["pod/sft", "tj/", ""])
def test_other_kinds_and_no_name_are_refused(given: str) -> None:
    with pytest.raises(click.BadParameter):
        job_name(given)


class _Cluster:
    def __init__(self, *jobs: RawObject) -> None:
        self.jobs = jobs

    async def get(self, path: str) -> RawObject:
        for raw in self.jobs:
            if path.endswith(f"/{raw['metadata']['name']}"):
                return raw
        raise NotFound("GET", path, 404, "NotFound", "")

    async def list(self, path: str, *, fields: str = "") -> Listing:
        if fields:
            assert fields == "reason=NotAdopted,regarding.kind=Job,regarding.name=other"
            days = ("2026-11-02", "2026-11-01")
            return Listing(tuple([{"metadata": {"creationTimestamp": day}, "note": day} for day in days]), 1)
        return Listing(self.jobs, 1)


def test_the_record_of_an_object_is_found_whatever_its_own_name() -> None:
    target = {"apiVersion": "batch/v1", "kind": "Job", "name": "whisper", "uid": "u"}
    record = {"metadata": {"name": "whisper-3f2"}, "spec": {"targetRef": target}}
    plain: RawObject = {"metadata": {"name": "whisper"}, "spec": {}}
    cluster: Any = _Cluster(plain, record)
    assert asyncio.run(record_of(cluster, JobName("Job", "whisper"), "speech")) is record
    assert asyncio.run(record_of(cluster, JobName("", "whisper"), "speech")) is plain
    with pytest.raises(
        click.ClickException, match=r"no TrainingJob was made for Job 'other'.*The operator said: 2026-11-02"
    ):
        asyncio.run(record_of(cluster, JobName("Job", "other"), "speech"))
    with pytest.raises(click.ClickException, match=r"no TrainingJob 'whispr'.*whisper"):
        asyncio.run(record_of(cluster, JobName("", "whispr"), "speech"))
