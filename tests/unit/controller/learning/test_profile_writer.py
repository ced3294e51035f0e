"""When what was learned is written, into which object, and what becomes of it when writing fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from charterer.api.models.speedupprofile import SpeedupProfileRecord
from charterer.cluster import kinds
from charterer.cluster.client import Client
from charterer.cluster.errors import AlreadyExists, Forbidden, NotFound
from charterer.cluster.events import Recorder
from charterer.cluster.store import ObjectKey, Store
from charterer.controller.learning.profile_writer import ProfileWriter, WriteIntervals
from charterer.domain.job import Finish, FinishKind
from charterer.domain.time import after
from tests.unit.controller.learning.classroom import CLASS, Classroom

KEY = ObjectKey("team", "resnet")


class Api:
    """An API server of one profile, which counts writes and refuses what it is told to."""

    def __init__(self) -> None:
        self.raw: dict[str, Any] | None = None
        self.version = 1
        self.writes: list[dict[str, Any]] = []
        self.refuses: Exception | None = None

    async def get(self, path: str) -> dict[str, Any]:
        if self.raw is None:
            raise NotFound("GET", path, 404, "NotFound", "no such profile")
        return self.raw

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.raw is not None:
            raise AlreadyExists("POST", path, 409, "AlreadyExists", "there is one")
        self.make(body)
        assert self.raw is not None
        return self.raw

    async def apply(self, path: str, body: dict[str, Any], manager: str) -> dict[str, Any]:
        if self.refuses is not None:
            raise self.refuses
        assert self.raw is not None
        assert body["metadata"]["resourceVersion"] == self.raw["metadata"]["resourceVersion"]
        self.version += 1
        self.writes.append(body["status"]["learned"])
        metadata = {**self.raw["metadata"], "resourceVersion": str(self.version)}
        self.raw = {**self.raw, "metadata": metadata, "status": body["status"]}
        return self.raw

    def make(self, body: dict[str, Any]) -> None:
        """The object as it is after somebody created it."""
        self.version += 1
        metadata = {
            **body["metadata"],
            "uid": f"uid-{self.version}",
            "resourceVersion": str(self.version),
            "generation": 1,
            "creationTimestamp": "2026-06-01T00:00:00Z",
        }
        self.raw = {**body, "metadata": metadata}


class Desk:
    """A profile writer at work: the room's jobs report, time passes, and it looks."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.room, self.api, self.store = Classroom(), Api(), Store(kinds.COMMON)
        client, recorder = cast(Client, self.api), cast(Recorder, None)
        self.writer = ProfileWriter(
            self.room.collector, client, self.store, recorder, WriteIntervals(), lambda: self.seconds
        )
        self.job = self.room.runs()

    async def looks(self, seconds: float = 0.0) -> int:
        """Time passes, what stands is seen, and it looks; how many writes there were so far."""
        self.seconds += seconds
        held = self.store.get(kinds.SPEEDUP_PROFILES, KEY.name, KEY.namespace)
        if held is not None:
            self.room.world.profiles[CLASS] = held
        await self.writer.write_due(self.room.world.snapshot())
        return len(self.api.writes)


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_a_profile_is_made_and_written_at_once_and_then_only_when_it_says_something_else(desk: Desk) -> None:
    desk.room.says(desk.job)
    assert await desk.looks() == 1
    assert desk.api.raw is not None
    assert desk.api.raw["spec"] == {}
    desk.room.says(desk.job, times=100)
    assert await desk.looks(100.0) == 2  # surer by far
    for _ in range(19):
        desk.room.says(desk.job)
        assert await desk.looks(30.0) == 2
    desk.room.says(desk.job)
    assert await desk.looks(30.0) == 3  # the same numbers, but ten minutes of reports
    assert await desk.looks(10_000.0) == 3  # nothing new


async def test_numbers_that_move_are_written_once_a_minute(desk: Desk) -> None:
    desk.room.says(desk.job, times=4)
    await desk.looks()
    desk.room.says(desk.job, times=40, step_seconds=0.7)
    assert await desk.looks(30.0) == 1
    assert await desk.looks(31.0) == 2


async def test_a_width_measured_for_the_first_time_is_written_soon(desk: Desk) -> None:
    desk.room.says(desk.job)
    await desk.looks()
    desk.room.says(desk.room.runs("wide", gpus=16))
    assert await desk.looks(5.0) == 1
    assert await desk.looks(6.0) == 2
    assert desk.api.writes[-1]["phases"][0]["widths"][-1]["gpus"] == 32


async def test_what_could_not_be_written_is_written_later(desk: Desk) -> None:
    desk.api.refuses = Forbidden("PATCH", "status", 403, "Forbidden", "not you")
    desk.room.says(desk.job)
    assert await desk.looks() == 0
    desk.api.refuses = None
    assert await desk.looks(1.0) == 0
    assert await desk.looks(31.0) == 1


async def test_a_profile_of_somebody_else_is_taken_as_it_is(desk: Desk) -> None:
    spec = {"restartSeconds": 90}
    body = {"apiVersion": "charterer.dev/v1alpha1", "kind": "SpeedupProfile", "spec": spec}
    desk.api.make({**body, "metadata": {"name": "resnet", "namespace": "team"}})
    desk.room.says(desk.job)
    assert await desk.looks() == 1
    assert desk.api.raw is not None
    assert desk.api.raw["spec"] == spec


async def test_nothing_is_written_into_another_profile_of_the_same_name(desk: Desk) -> None:
    desk.room.says(desk.job)
    await desk.looks()
    assert desk.api.raw is not None
    desk.api.make({**desk.api.raw, "status": {}})  # deleted and made anew; the watch has not told yet
    desk.room.says(desk.job, times=40, step_seconds=0.9)
    assert await desk.looks(700.0) == 1
    desk.store.put(kinds.SPEEDUP_PROFILES, desk.api.raw)
    assert await desk.looks(10.0) == 1
    assert CLASS not in desk.room.collector.classes


async def test_what_somebody_spoilt_while_it_works_is_written_again(desk: Desk) -> None:
    desk.room.says(desk.job)
    await desk.looks()
    assert desk.api.raw is not None
    metadata = {**desk.api.raw["metadata"], "resourceVersion": "77"}
    desk.api.raw = {**desk.api.raw, "metadata": metadata, "status": {"learned": {"reports": "many"}}}
    desk.store.put(kinds.SPEEDUP_PROFILES, desk.api.raw)
    desk.api.version = 77
    assert await desk.looks(1.0) == 2
    held = desk.store.get(kinds.SPEEDUP_PROFILES, KEY.name, KEY.namespace)
    assert held is not None
    assert (held.unreadable, held.reports) == ("", 2)


async def test_a_class_that_was_never_written_is_forgotten_with_its_last_job(desk: Desk) -> None:
    desk.room.says(desk.job)
    job = desk.room.world.jobs.pop(desk.job)
    desk.room.world.jobs[desk.job] = replace(job, finish=Finish(FinishKind.COMPLETE, desk.room.world.now, "", ""))
    assert await desk.looks() == 0
    assert CLASS in desk.room.collector.classes
    del desk.room.world.jobs[desk.job]
    desk.room.world.now = after(desk.room.world.now, 1.0)
    assert await desk.looks(10.0) == 0
    assert CLASS not in desk.room.collector.classes
    desk.job = desk.room.runs("next")
    desk.room.says(desk.job)
    assert await desk.looks(10.0) == 1


async def test_what_was_learned_last_is_written_after_the_last_job_has_gone(desk: Desk) -> None:
    desk.room.says(desk.job)
    await desk.looks()
    desk.room.says(desk.job)
    del desk.room.world.jobs[desk.job]
    desk.room.world.now = after(desk.room.world.now, 1.0)
    assert await desk.looks(601.0) == 2
    assert desk.api.raw is not None
    statistics = SpeedupProfileRecord.model_validate(desk.api.raw["status"]).statistics()
    assert statistics is not None
    assert statistics.step_times[0].reports == 5
    assert desk.api.writes[-1]["phases"] == desk.api.writes[0]["phases"]
