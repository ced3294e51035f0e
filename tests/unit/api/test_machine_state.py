"""The opaque field of a status: read back as written, bounded in bytes, never a reason to crash or to count twice."""

from __future__ import annotations

import base64
import random
import zlib
from dataclasses import replace

import pytest

from charterer.api import decode
from charterer.api.models.base import dump, dump_json
from charterer.api.models.gpubudget_status import GPUBudgetRecord
from charterer.api.models.learned import ClassStatistics, StepTimesCell
from charterer.api.models.machine_state import MACHINE_STATE_BYTES, BudgetStatistics, PackedStatistics, packed
from charterer.domain.budget import Balance, ClassHistory
from charterer.domain.ids import ClassId
from charterer.domain.money import Money
from charterer.domain.time import Instant, after
from charterer.ledger.balance import UIDS_KEPT_SECONDS
from tests.unit.api import values

NOW = Instant(1_769_860_800_000_000)
HISTORY = ClassHistory(3.0, 30.0, 31.0, 33.5, NOW, NOW, 3.0, 2.5)
BALANCE = Balance(
    NOW,
    Money(5),
    Money(6),
    frozenset({"uid-of-a-rental"}),
    (),
    class_history={ClassId("research", "sft"): HISTORY},
    jobs_cost=Money(31_000_000),
    counted={"job-1": NOW},
    counted_through=after(NOW, -UIDS_KEPT_SECONDS),
)


def uids(count: int) -> list[str]:
    draw = random.Random(1)
    return [f"{draw.getrandbits(128):032x}" for _ in range(count)]


def cell(gpus: int, weight: float) -> StepTimesCell:
    return StepTimesCell(
        gpu_type="A",
        nodes=1,
        gpus=gpus,
        per_gpu=1,
        passes=1,
        seconds=random.Random(gpus).random(),
        weight=weight,
        reports=1,
    )


def read(status: dict[str, object]) -> Balance:
    balance = decode.budget(values.raw_budget(status)).balance
    assert balance is not None
    return balance


def test_what_is_packed_is_unpacked() -> None:
    content = BudgetStatistics(counted={"job-1": NOW})
    state, kept = packed(content)
    assert kept == content
    assert PackedStatistics.unpacked(state, BudgetStatistics) == content
    assert PackedStatistics.unpacked(None, BudgetStatistics) is None


def test_the_same_content_is_the_same_text() -> None:
    assert packed(BudgetStatistics(counted={"a": NOW})) == packed(BudgetStatistics(counted={"a": NOW}))


def test_data_that_would_fill_the_memory_is_refused() -> None:
    bomb = base64.b64encode(zlib.compress(b" " * 50_000_000, 9)).decode()
    with pytest.raises(ValueError, match=r"status\.machineState\.data: it is cut off, or longer than"):
        PackedStatistics.unpacked(PackedStatistics(version=1, data=bomb), BudgetStatistics)


def test_of_too_many_counted_jobs_the_oldest_go_and_none_of_them_is_counted_again() -> None:
    finishes = {uid: Instant(NOW + number) for number, uid in enumerate(uids(20_000))}
    balance = replace(BALANCE, counted=finishes)
    record = GPUBudgetRecord.from_domain(balance)
    assert record.machine_state is not None
    assert len(record.machine_state.data) <= MACHINE_STATE_BYTES
    back = read(dump(record))
    assert 0 < len(back.counted) < len(finishes)
    assert all(back.counts(uid, finished) for uid, finished in finishes.items())
    assert back.class_history == balance.class_history
    assert back.folded == balance.folded


def test_of_too_many_step_times_those_that_weigh_least_go() -> None:
    cells = tuple(cell(gpus, weight=1.0 + gpus % 7) for gpus in range(1, 801))
    smaller = ClassStatistics(step_times=cells).smaller()
    assert smaller is not None
    assert len(smaller.step_times) == 700
    assert [kept.weight for kept in smaller.step_times].count(1.0) == 14
    assert [kept for kept in cells if kept in smaller.step_times] == list(smaller.step_times)


def test_content_gets_smaller_until_nothing_is_left() -> None:
    statistics = BudgetStatistics(counted={"a": NOW, "b": NOW})
    sizes = []
    while (smaller := statistics.smaller()) is not None:
        statistics = smaller
        sizes.append(len(dump_json(statistics)))
    assert sizes == sorted(sizes, reverse=True)
    assert statistics == BudgetStatistics()


@pytest.mark.parametrize("state", [{"version": 7, "data": ""}, {"version": 1, "data": "???"}, None])
def test_a_budget_whose_statistics_cannot_be_read_keeps_its_money_and_counts_no_job_twice(state: object) -> None:
    status = {**dump(GPUBudgetRecord.from_domain(BALANCE)), "machineState": state}
    back = read({key: value for key, value in status.items() if value is not None})
    assert (back.settled, back.lifetime, back.folded) == (BALANCE.settled, BALANCE.lifetime, BALANCE.folded)
    assert back.jobs_cost == BALANCE.jobs_cost
    assert back.class_history == {}
    assert all(back.counts(uid, finished) for uid, finished in BALANCE.counted.items())
    assert read(dump(GPUBudgetRecord.from_domain(back))) == back


def test_an_unknown_version_is_named_on_the_budget() -> None:
    status = {**dump(GPUBudgetRecord.from_domain(BALANCE)), "machineState": {"version": 7, "data": ""}}
    unreadable = decode.budget(values.raw_budget(status)).unreadable
    assert unreadable == "status.machineState.version: this operator reads version 1, not 7"
