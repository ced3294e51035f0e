"""When a view is made, when it is written, and what happens when that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from charterer.api.models.base import InvalidObjectView
from charterer.api.models.gpupool import GPUPoolView, PoolState
from charterer.api.models.trainingjob_status import ComparedOption, TrainingJobView
from charterer.api.names import ConditionType
from charterer.cluster import kinds
from charterer.cluster.client import Client
from charterer.cluster.errors import Conflict, Invalid, TooManyRequests, Unreachable
from charterer.cluster.store import ObjectKey, Store
from charterer.controller.status.conditions import condition
from charterer.controller.status.view_writer import Urgency, ViewedObject, ViewWriter
from charterer.domain.ids import StepKey, StepKind
from charterer.domain.money import Money
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from tests.virtual_time import advance, clock, run_for, run_in_virtual_time
from tests.worlds import World

KEY = ObjectKey("", "team")
STEP = StepKey(StepKind.BUDGET, "team")
NOW = World().snapshot()


class Api:
    """The API server and its one object; ``failures`` are raised by the next writes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.uid = "uid-1"
        self.version = 1
        self.status: Mapping[str, Any] = {}
        self.writes: list[float] = []
        self.failures: list[Exception] = []
        store.put(kinds.GPU_BUDGETS, self.raw())

    def raw(self) -> dict[str, Any]:
        metadata = {
            "name": KEY.name,
            "uid": self.uid,
            "resourceVersion": str(self.version),
            "generation": 1,
            "creationTimestamp": "2026-06-01T00:00:00Z",
        }
        return {"kind": "GPUBudget", "metadata": metadata, "spec": {"amount": "1"}, "status": self.status}

    async def get(self, path: str) -> Mapping[str, Any]:
        return self.raw()

    async def apply(self, path: str, body: Mapping[str, Any], manager: str) -> Mapping[str, Any]:
        self.writes.append(clock())
        if self.failures:
            raise self.failures.pop()
        self.version += 1
        self.status = body["status"]
        return self.raw()

    def made_anew(self) -> None:
        """The object is deleted and made again under its name."""
        self.store.remove(kinds.GPU_BUDGETS, self.raw())
        self.uid, self.status = f"{self.uid}-again", {}
        self.version += 1
        self.store.put(kinds.GPU_BUDGETS, self.raw())


class Desk:
    """A writer, and the object that is shown: a word, a sentence that drifts, and what they follow from."""

    def __init__(self) -> None:
        self.in_flight: set[StepKey] = set()
        self.heard: list[tuple[str, str | None, Any]] = []
        self.specs: list[Mapping[str, Any]] = []
        store = Store(kinds.COMMON)
        self.api = Api(store)
        self.writer = ViewWriter(cast(Client, self.api), store, self.in_flight, self.told)
        self.word, self.sentence, self.drifts = "Waits", "for $1", False
        self.estimate: object = object()
        self.viewed_uid: str | None = None
        self.made = 0
        self.generation = 0
        self.cost: Money | None = None
        self.option: ComparedOption | None = None
        self.nodes: int | None = None

    def told(self, kind: str, before: Mapping[str, Any], written: Mapping[str, Any]) -> None:
        conditions = written["status"].get("conditions")
        self.heard.append((kind, before.get("conditions", [{}])[0].get("reason"), conditions))
        self.specs.append(written["spec"])

    def shown(self) -> ViewedObject:
        facts = None if self.nodes is not None else (self.word, self.generation)
        return ViewedObject(
            kinds.GPU_BUDGETS, KEY, self.viewed_uid, Urgency.WAITS, STEP, facts, self.estimate, self.drifts, self.make
        )

    def make(self, snapshot: Snapshot) -> InvalidObjectView | TrainingJobView | GPUPoolView:
        self.made += 1
        if self.nodes is not None:
            return GPUPoolView(state=PoolState.READY if self.nodes < 400 else PoolState.FULL, nodes=self.nodes)
        if self.cost is not None:
            options = () if self.option is None else (self.option,)
            at = None if self.option is None else Instant(round(clock()) * 1_000_000)
            return TrainingJobView(observed_generation=0, gpus=8, cost=self.cost, options=options, options_as_of=at)
        ready = condition(ConditionType.READY, True, self.word, self.sentence, Instant(0), self.generation)
        return InvalidObjectView(observed_generation=self.generation, state="Invalid", conditions=(ready,))

    async def turns(self, *, after: float = 0.0, word: str = "", sentence: str = "") -> int:
        """Time passes and a turn shows the object; how many writes there were so far."""
        advance(after)
        self.word = word or self.word
        if sentence:
            self.sentence, self.estimate = sentence, object()
        self.writer.show([self.shown()], NOW)
        await self.writer.write_due()
        return len(self.api.writes)


def test_a_word_is_written_at_once_and_what_stays_is_neither_made_nor_written() -> None:
    async def main() -> None:
        desk = Desk()
        assert await desk.turns() == 1
        assert await desk.turns(word="Runs") == 2
        assert desk.specs == [{"amount": "1"}] * 2, "who is told of a write sees the whole object"
        assert desk.api.status["conditions"][0]["reason"] == "Runs"
        made = desk.made
        for _ in range(10):
            assert await desk.turns(after=60.0) == 2
        assert desk.made == made

    run_in_virtual_time(main())


def test_that_an_edit_was_seen_is_written_at_once_although_nothing_else_follows_from_it() -> None:
    async def main() -> None:
        desk = Desk()
        assert await desk.turns() == 1
        desk.generation = 1
        assert await desk.turns() == 2
        assert desk.api.status["conditions"][0]["observedGeneration"] == 1
        assert await desk.turns(after=60.0) == 2

    run_in_virtual_time(main())


def test_a_sentence_that_changes_is_written_once_half_a_minute_has_passed() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.turns()
        made = desk.made
        for second in range(2, 30):
            assert await desk.turns(after=1.0, sentence=f"for ${second}") == 1
        assert desk.made == made
        assert await desk.turns(after=2.0) == 2
        assert desk.api.status["conditions"][0]["message"] == "for $29"

    run_in_virtual_time(main())


def test_a_word_does_not_wait_for_the_half_minute_of_a_sentence() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.turns()
        assert await desk.turns(after=1.0, sentence="for $2") == 1
        assert await desk.turns(after=1.0, word="Runs") == 2
        assert await desk.turns(after=29.0, sentence="for $3") == 2
        assert await desk.turns(after=1.0) == 3

    run_in_virtual_time(main())


def test_what_drifts_is_made_anew_every_half_minute_and_written_only_if_it_moved() -> None:
    async def main() -> None:
        desk = Desk()
        desk.drifts = True
        await desk.turns()
        made = desk.made
        for _ in range(60):
            assert await desk.turns(after=1.0) == 1
        assert desk.made == made + 2
        desk.sentence = "for $9"
        assert await desk.turns(after=31.0) == 2

    run_in_virtual_time(main())


def test_the_first_dollars_are_written_at_once_and_later_ones_when_they_are_half_a_minute_old() -> None:
    async def main() -> None:
        desk = Desk()
        desk.drifts, desk.cost = True, Money(0)
        assert await desk.turns() == 1
        assert await desk.turns(after=3.0) == 1
        desk.cost = Money.parse("0.21")
        assert await desk.turns(after=1.0) == 2
        assert desk.api.status["cost"] == "0.21"
        for second in range(1, 120):
            desk.cost = Money.parse(f"{0.21 + 0.01 * second:.2f}")
            await desk.turns(after=1.0)
            assert float(desk.cost.decimal()) - float(desk.api.status["cost"]) <= 0.01 * 30
        assert len(desk.api.writes) <= 6

    run_in_virtual_time(main())


def test_counts_are_written_every_five_seconds_to_the_last_node_and_with_a_word_at_once() -> None:
    async def main() -> None:
        desk = Desk()
        desk.drifts, desk.nodes = True, 200
        assert await desk.turns() == 1
        for second in range(1, 5):
            desk.nodes = 200 + second
            assert await desk.turns(after=1.0) == 1
        assert await desk.turns(after=1.0) == 2
        assert desk.api.status["nodes"] == 204
        desk.nodes = 205
        assert await desk.turns(after=5.0) == 3
        desk.nodes = 400
        assert await desk.turns(after=1.0) == 4

    run_in_virtual_time(main())


def test_options_whose_numbers_drift_are_written_seldom_and_another_verdict_when_it_is_seen() -> None:
    def option(verdict: str, seconds: int) -> ComparedOption:
        cost = Money.of(seconds * 0.01)
        return ComparedOption(
            pool="a100", gpus=8, seconds_left=seconds, cost_left=cost, per_hour_saved=cost, verdict=verdict
        )

    async def main() -> None:
        desk = Desk()
        desk.drifts, desk.cost, desk.option = True, Money.parse("1.00"), option("chosen", 3000)
        assert await desk.turns() == 1
        desk.option = option("chosen", 2990)
        assert await desk.turns(after=31.0) == 1
        desk.option, desk.cost = option("chosen", 2000), Money.parse("1.001")
        assert await desk.turns(after=5.0) == 1
        assert await desk.turns(after=26.0) == 2
        desk.option = option("better", 2000)
        assert await desk.turns(after=31.0) == 3
        assert desk.api.status["options"][0]["verdict"] == "better"

    run_in_virtual_time(main())


def test_an_object_made_again_under_its_name_is_written_at_once() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.turns()
        desk.api.made_anew()
        assert await desk.turns() == 2

    run_in_virtual_time(main())


def test_the_view_of_an_object_is_not_written_to_another_that_has_taken_its_name() -> None:
    async def main() -> None:
        desk = Desk()
        desk.viewed_uid = desk.api.uid
        await desk.turns()
        desk.api.made_anew()
        assert await desk.turns(word="Runs") == 1
        desk.viewed_uid = desk.api.uid
        assert await desk.turns(after=1.0) == 2

    run_in_virtual_time(main())


def test_an_object_that_was_away_is_written_when_it_is_back() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.turns()
        desk.writer.show([], NOW)
        assert await desk.turns() == 2

    run_in_virtual_time(main())


def test_while_the_loop_changes_the_object_only_its_first_word_is_written() -> None:
    """A job whose steps follow each other without a pause would show nothing until it runs."""

    async def main() -> None:
        desk = Desk()
        desk.in_flight.add(STEP)
        assert await desk.turns() == 1
        assert await desk.turns(word="Starts") == 1
        desk.in_flight.clear()
        assert await desk.turns() == 2

    run_in_virtual_time(main())


def test_a_view_without_facts_is_made_once_a_turn_however_often_it_is_looked_what_is_due() -> None:
    async def main() -> None:
        desk = Desk()
        for _ in range(3):
            desk.writer.show([desk.shown()._replace(facts=None)], NOW)
            await desk.writer.write_due()
            await desk.writer.write_due()
        assert (desk.made, len(desk.api.writes)) == (3, 1)

    run_in_virtual_time(main())


def writes_after_failures(failures: Sequence[Exception], seconds: float) -> list[int]:
    """When an object's view is written whose first writes fail in this order."""

    async def main() -> list[int]:
        desk = Desk()
        desk.api.failures = list(reversed(failures))
        began = clock()
        desk.writer.show([desk.shown()], NOW)
        await run_for(seconds, desk.writer.run())
        return [round(at - began) for at in desk.api.writes]

    return run_in_virtual_time(main())


def test_a_view_that_is_refused_again_and_again_is_tried_less_and_less() -> None:
    refused = [Invalid("PATCH", "/x", 422, "Invalid", "no") for _ in range(20)]
    assert writes_after_failures(refused, 1200.0) == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111]


def test_while_the_api_server_is_away_a_view_is_tried_every_half_minute() -> None:
    away = [Unreachable("PATCH", "/x", 0, "Unreachable", "no answer") for _ in range(7)]
    assert writes_after_failures(away, 200.0) == [0, 1, 3, 7, 15, 31, 61, 91]


def test_a_view_waits_for_as_long_as_the_api_server_asks() -> None:
    throttled = [TooManyRequests("PATCH", "/x", 429, "TooManyRequests", "later", 5.0)]
    assert writes_after_failures(throttled, 60.0) == [0, 5]


def test_a_view_that_cannot_be_made_stops_no_other() -> None:
    async def main() -> None:
        desk = Desk()
        good, bad = desk.shown(), desk.shown()._replace(key=ObjectKey("", "broken"), make=broken)
        desk.writer.show([bad, good], NOW)
        await desk.writer.write_due()
        assert len(desk.api.writes) == 1

    def broken(snapshot: Snapshot) -> InvalidObjectView:
        raise ZeroDivisionError

    run_in_virtual_time(main())


def test_a_write_that_fails_is_tried_again_a_second_later_and_one_that_meets_another_at_once() -> None:
    conflict = Conflict("PATCH", "/x", 409, "Conflict", "changed")
    away = Unreachable("PATCH", "/x", 0, "Unreachable", "no answer")
    assert writes_after_failures([away, conflict], 10.0) == [0, 1, 1]
    assert writes_after_failures([conflict, conflict], 10.0) == [0, 0, 1]
