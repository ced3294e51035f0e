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
from charterer.controller.status.view_writer import Urgency, ViewedObject, ViewWriter
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from tests.virtual_time import advance, clock, run_in_virtual_time
from tests.worlds import World

NOW = World().snapshot()
FIRST, RUNS, WAITS = Urgency
SHOWN = {"state": "Running"}
"""The status of what shows a word already."""
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

    def show(self, *groups: tuple[Sequence[str], str, Urgency], sentence: str = "") -> None:
        """Jobs of these names are to show this word."""
        self.writer.show([shown(name, word, sentence, how) for names, word, how in groups for name in names], NOW)


def shown(name: str, word: str, sentence: str, urgency: Urgency) -> ViewedObject:
    def make(snapshot: Snapshot) -> InvalidObjectView:
        ready = condition(ConditionType.ADMITTED, True, word, sentence, Instant(0), 0)
        return InvalidObjectView(observed_generation=0, state="Invalid", conditions=(ready,))

    key = ObjectKey("research", name)
    return ViewedObject(JOBS, key, f"uid-{name}", urgency, None, (word,), object(), False, make)


def names(prefix: str, number: int) -> list[str]:
    return [f"{prefix}-{count}" for count in range(number)]


def test_money_and_what_needs_a_person_come_first_then_what_shows_nothing_then_what_runs_then_what_waits() -> None:
    async def main() -> None:
        desk = Desk()
        groups = {name: names(name, 200) for name in ("waits", "runs", "new", "first")}
        for name, members in groups.items():
            desk.add(members, None if name == "new" else SHOWN)
        urgencies = {"waits": WAITS, "runs": RUNS, "new": WAITS, "first": FIRST}
        desk.show(*((members, "Word", urgencies[name]) for name, members in groups.items()))
        await desk.writer.write_due()
        order = [name.split("-")[0] for name in desk.api.written]
        assert order == ["first"] * 200 + ["new"] * 200 + ["runs"] * 200 + ["waits"] * 200

    run_in_virtual_time(main())


def test_a_thousand_jobs_show_a_word_after_a_thousand_writes_whatever_the_others_do() -> None:
    """The words of 400 that run are others in each turn, and each is longer than a turn takes to be written."""

    async def main() -> None:
        desk, running, waiting = Desk(), names("runs", 400), names("waits", 1000)
        desk.add(running, SHOWN)
        desk.show((running, "Running", RUNS))
        await desk.writer.write_due()
        desk.add(waiting)
        so_far = len(desk.api.written)
        writing = asyncio.create_task(desk.writer.run())
        for turn in range(20):  # in each turn 64 are written
            desk.show((running, f"Running{turn}", RUNS), (waiting, "Queued", WAITS))
            await asyncio.sleep(9.0)
        assert set(desk.api.written[so_far : so_far + 1000]) == set(waiting)
        assert set(desk.api.written[so_far + 1000 :]) <= set(running)
        writing.cancel()

    run_in_virtual_time(main())


def test_what_ends_while_thousands_are_being_shown_is_the_next_but_a_few() -> None:
    async def main() -> None:
        desk, waiting = Desk(), names("waits", 1000)
        desk.add([*waiting, "runs"], SHOWN)
        desk.show((waiting, "Queued", WAITS), (["runs"], "Running", RUNS))
        writing = asyncio.create_task(desk.writer.run())
        await asyncio.sleep(100.0)
        so_far = len(desk.api.written)
        desk.show((waiting, "Queued", WAITS), (["runs"], "Complete", RUNS))
        await asyncio.sleep(20.0)
        assert "runs" in desk.api.written[so_far : so_far + 100]
        writing.cancel()

    run_in_virtual_time(main())


def test_words_come_before_numbers() -> None:
    async def main() -> None:
        desk, old, new = Desk(), names("old", 100), names("new", 100)
        desk.add([*old, *new])
        desk.show((old, "Queued", WAITS))
        await desk.writer.write_due()
        advance(60.0)
        desk.api.written.clear()
        desk.show((old, "Queued", WAITS), (new, "Queued", WAITS), sentence="in an hour")
        await desk.writer.write_due()
        assert set(desk.api.written[:90]) <= set(new)
        assert set(desk.api.written) == {*old, *new}

    run_in_virtual_time(main())


def test_of_thousands_the_numbers_are_written_twenty_a_second_at_most() -> None:
    async def main() -> None:
        desk, waiting = Desk(), names("waits", 900)
        desk.add(waiting)
        desk.show((waiting, "Queued", WAITS))
        await desk.writer.write_due()
        began, so_far = clock(), len(desk.api.written)
        writing = asyncio.create_task(desk.writer.run())
        for hour in range(10):
            desk.show((waiting, "Queued", WAITS), sentence=f"in {hour} hours")
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
            desk.show((["new"], word, RUNS))
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
        desk.add(["old"], {"state": "Queued", "conditions": [former]})
        desk.show((["old"], "Running", RUNS))
        await desk.writer.write_due()
        assert desk.api.read == ["old"]
        now = desk.api.objects["old"]["status"]["conditions"][0]
        assert (now["reason"], now["lastTransitionTime"]) == ("Running", "2026-06-01T00:00:00.000000Z")

    run_in_virtual_time(main())
