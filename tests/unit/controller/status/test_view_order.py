"""Of many views that are due, which is written first, how often their numbers are, and by how many requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from charterer.api.models.base import InvalidObjectView
from charterer.api.names import ConditionType
from charterer.cluster.client import Client
from charterer.cluster.paths import TRAINING_JOBS
from charterer.cluster.store import ObjectKey, Store, WatchedKind
from charterer.controller.status.conditions import condition
from charterer.controller.status.view_writer import ViewedObject, ViewWriter
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from tests.virtual_time import advance, clock, run_for, run_in_virtual_time
from tests.worlds import World

NOW = World().snapshot()
JOBS: WatchedKind[str] = WatchedKind("TrainingJob", TRAINING_JOBS, lambda raw: str(raw["metadata"]["name"]))


class Api:
    """An API server that takes a second for each write of a status. ``written`` has the names in the order of that."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.objects: dict[str, dict[str, Any]] = {}
        self.written: list[str] = []
        self.read: list[str] = []

    def add(self, name: str, status: Mapping[str, Any]) -> None:
        """An object of that name is there, with this status."""
        metadata = {"namespace": "research", "name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
        self.objects[name] = {"kind": "TrainingJob", "metadata": metadata, "status": status}
        self.store.put(JOBS, self.objects[name])

    async def get(self, path: str) -> Mapping[str, Any]:
        name = path.split("/")[-1]
        self.read.append(name)
        return self.objects[name]

    async def apply(self, path: str, body: Mapping[str, Any], manager: str) -> Mapping[str, Any]:
        await asyncio.sleep(1.0)
        name = path.split("/")[-2]
        before = self.objects[name]["metadata"]
        assert body["metadata"]["resourceVersion"] == before["resourceVersion"]
        version = str(int(before["resourceVersion"]) + 1)
        self.objects[name] = {
            **self.objects[name],
            "metadata": {**before, "resourceVersion": version},
            "status": body["status"],
        }
        self.written.append(name)
        return self.objects[name]


class Desk:
    """A writer of the views of jobs; each view is one word and one sentence."""

    def __init__(self) -> None:
        store = Store([JOBS])
        self.api = Api(store)
        self.told: list[tuple[str, list[str]]] = []
        self.writer = ViewWriter(cast(Client, self.api), store, set(), self._told)

    def _told(self, kind: str, before: Mapping[str, Any], written: Mapping[str, Any]) -> None:
        shown = [condition["reason"] for condition in before.get("conditions", ())]
        self.told.append((written["metadata"]["name"], shown))

    def add(self, names: Sequence[str], status: Mapping[str, Any] | None = None) -> None:
        """Jobs of these names are there; nobody has written their status, unless it is given."""
        for name in names:
            self.api.add(name, status or {})

    def show(self, *groups: tuple[Sequence[str], str, bool], sentence: str = "") -> None:
        """Jobs of these names are to show this word; the flag: they run or have run."""
        self.writer.show(
            [shown(name, word, sentence, soon=soon) for names, word, soon in groups for name in names], NOW
        )


def shown(name: str, word: str, sentence: str, *, soon: bool) -> ViewedObject:
    def make(snapshot: Snapshot) -> InvalidObjectView:
        ready = condition(ConditionType.ADMITTED, True, word, sentence, Instant(0), 0)
        return InvalidObjectView(observed_generation=0, state="Invalid", conditions=(ready,))

    key = ObjectKey("research", name)
    return ViewedObject(JOBS, key, f"uid-{name}", soon, None, (word,), object(), False, make)


def names(prefix: str, number: int) -> list[str]:
    return [f"{prefix}-{count}" for count in range(number)]


def test_what_ran_is_shown_before_thousands_that_wait() -> None:
    async def main() -> None:
        desk, waiting = Desk(), names("waits", 1000)
        desk.add([*waiting, "ran"])
        desk.show((waiting, "Queued", False), (["ran"], "Complete", True))
        await run_for(10.0, desk.writer.run())
        assert "ran" in desk.api.written[:8]

    run_in_virtual_time(main())


def test_what_ends_while_thousands_are_being_shown_is_the_next_but_a_few() -> None:
    async def main() -> None:
        desk, waiting = Desk(), names("waits", 1000)
        desk.add([*waiting, "runs"])
        desk.show((waiting, "Queued", False), (["runs"], "Running", True))
        writing = asyncio.create_task(desk.writer.run())
        await asyncio.sleep(100.0)
        so_far = len(desk.api.written)
        desk.show((waiting, "Queued", False), (["runs"], "Complete", True))
        await asyncio.sleep(20.0)
        assert "runs" in desk.api.written[so_far : so_far + 100]
        writing.cancel()

    run_in_virtual_time(main())


def test_what_runs_and_changes_without_end_does_not_keep_back_what_shows_nothing_yet() -> None:
    async def main() -> None:
        desk, running, waiting = Desk(), names("runs", 400), names("waits", 400)
        desk.add(running, {"state": "Running"})
        desk.show((running, "Running", True))
        await desk.writer.write_due()
        desk.add(waiting)
        writing = asyncio.create_task(desk.writer.run())
        for turn in range(12):  # in each the words of all that runs are others; 64 are written meanwhile
            desk.show((running, f"Running{turn}", True), (waiting, "Queued", False))
            await asyncio.sleep(9.0)
        assert set(waiting) <= {*desk.api.written}
        writing.cancel()

    run_in_virtual_time(main())


def test_words_come_before_numbers() -> None:
    async def main() -> None:
        desk, old, new = Desk(), names("old", 100), names("new", 100)
        desk.add([*old, *new])
        desk.show((old, "Queued", False))
        await desk.writer.write_due()
        advance(60.0)
        desk.api.written.clear()
        desk.show((old, "Queued", False), (new, "Queued", False), sentence="in an hour")
        await desk.writer.write_due()
        assert set(desk.api.written[:90]) <= set(new)
        assert set(desk.api.written) == {*old, *new}

    run_in_virtual_time(main())


def test_of_thousands_the_numbers_are_written_twenty_a_second_at_most() -> None:
    async def main() -> None:
        desk, waiting = Desk(), names("waits", 900)
        desk.add(waiting)
        desk.show((waiting, "Queued", False))
        await desk.writer.write_due()
        began, so_far = clock(), len(desk.api.written)
        writing = asyncio.create_task(desk.writer.run())
        for hour in range(10):
            desk.show((waiting, "Queued", False), sentence=f"in {hour} hours")
            await asyncio.sleep(30.0)
        assert len(desk.api.written) - so_far <= 20 * (clock() - began)
        assert set(desk.api.written[so_far:]) == set(waiting)
        writing.cancel()

    run_in_virtual_time(main())


def test_a_new_job_is_written_and_later_changed_by_one_request_each() -> None:
    async def main() -> None:
        desk = Desk()
        desk.add(["new"])
        for word in ("Queued", "Running", "Complete"):
            desk.show((["new"], word, True))
            await desk.writer.write_due()
        assert desk.api.written == ["new"] * 3
        assert desk.api.read == []
        assert desk.told == [("new", []), ("new", ["Queued"]), ("new", ["Running"])]

    run_in_virtual_time(main())


def test_what_a_former_process_has_shown_is_read_before_it_is_written() -> None:
    async def main() -> None:
        desk = Desk()
        former = {
            "type": "Admitted",
            "status": "True",
            "reason": "Queued",
            "message": "",
            "lastTransitionTime": "2026-06-01T00:00:00Z",
        }
        desk.add(["old"], {"conditions": [former]})
        desk.show((["old"], "Running", True))
        await desk.writer.write_due()
        assert desk.api.read == ["old"]
        now = desk.api.objects["old"]["status"]["conditions"][0]
        assert (now["reason"], now["lastTransitionTime"]) == ("Running", "2026-06-01T00:00:00.000000Z")

    run_in_virtual_time(main())
