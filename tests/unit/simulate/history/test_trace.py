"""Histories as files: what was written is read back, traces in circulation are read, a bad row is named."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from charterer.domain.job import ResizePolicy, SpotPolicy
from charterer.domain.money import Price
from charterer.tools.simulator.history.history import History
from charterer.tools.simulator.history.trace import is_trace, read_history, write_history
from charterer.tools.simulator.model.workload import BadRow
from tests import lanes
from tests.unit.simulate.histories import POOL, curve, histories


def read(text: str, **changes: Any) -> History:
    return read_history(text.splitlines(), "t.csv", (POOL,), 30.0, **changes)


@given(histories())
@settings(max_examples=lanes.examples(60))
def test_a_history_that_was_written_is_read_back_as_it_was(history: History) -> None:
    file = io.StringIO()
    write_history(history, file)
    file.seek(0)
    assert is_trace(file.readline())
    file.seek(0)
    assert read_history(file, "h.csv", (POOL,), 30.0) == history


def test_published_names_of_columns_and_timestamps_are_understood() -> None:
    history = read(
        "job_id,user,gpu_num,state,submit_time,duration\n"
        "71,u1,4,COMPLETED,2020-04-01 00:01:40,600\n"
        "70,u2,12,COMPLETED,2020-04-01T00:00:00Z,3600\n"
    )
    late, early = history.jobs[1], history.jobs[0]
    assert (early.name, early.submitted, early.gpus, early.seconds) == ("70", 0.0, 16, 3600.0)
    assert (late.name, late.submitted, late.gpus, late.seconds) == ("71", 100.0, 4, 600.0)
    assert history.pools[0].pool == POOL
    assert history.jobs_with_curve == 0


def test_a_row_says_its_pool_and_its_curve() -> None:
    (fleet,) = read(
        "submitted,gpus,duration,class,curve,resize,pool,node_price,gpus_per_node\n"
        "0,4,100,sft,1:1 4:3 8:5,Restart,small,3.06,4\n"
        "5,8,100,sft,,,small,3.06,4\n"
    ).pools
    assert (fleet.pool.name, fleet.pool.hourly, fleet.pool.gpus_per_node) == ("small", Price.parse("3.06"), 4)
    assert fleet.curves == {"sft": (curve({1: 1, 4: 3, 8: 5}),)}
    assert [job.most for job in fleet.jobs] == [8, 8]
    assert [job.resize for job in fleet.jobs] == [ResizePolicy.RESTART, ResizePolicy.NEVER]


def test_speeds_of_the_class_serve_rows_without_a_curve() -> None:
    (fleet,) = read("submitted,gpus,duration,class\n0,4,100,sft\n", curves={"sft": (curve({1: 1, 8: 4}, ""),)}).pools
    assert fleet.application(fleet.jobs[0]).seconds_left(0.0, fleet.pool.gpu_type, 4) == pytest.approx(100.0)
    assert fleet.application(fleet.jobs[0]).seconds_left(0.0, fleet.pool.gpu_type, 8) == pytest.approx(
        100.0 * (1 + 3 * 3 / 7) / 4
    )


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("a,soon,4,100,,,", "submitted 'soon' is no time: seconds, or like 2026-01-31T12:00:00Z: correct it"),
        ("a,0,-1,100,,,", "gpus '-1' is no whole number from 1 to 1,000,000,000: correct it, or leave the row out"),
        ("a,0,,100,,,", "gpus '' is no whole number from 1 to"),
        ("a,0,4,-1,,,", "duration '-1' is no number of seconds above 0"),
        ("a,0,4,nan,,,", "duration 'nan' is no number of seconds above 0"),
        (
            "a,0,4,100,sft,1:2 4:1,",
            "curve '1:2 4:1' is no curve: write throughput by GPUs, rising, like 1:10 2:19 4:36",
        ),
        ("a,0,4,100,sft,0.5=1:1 4:3,", "curve '0.5=1:1 4:3' is no curve"),
        ("a,0,4,100,,1:1 4:3,", "class '' is empty though the row has a curve: name the class that has it"),
        ("a,0,8,100,sft,1:1 4:3,", "gpus '8' is outside the curve of class 'sft': extend the curve"),
        ("a,0,4000,100,,,", "gpus '4000' is more than pool 'a100' has (20 nodes of 8 GPUs)"),
        (
            "a,0,4,100,,,cheap",
            "node_price 'cheap' is no price of a node: dollars an hour like 19.80, up to",
        ),
        ("a,0,4,100,,,-3", "node_price '-3' is no price of a node"),
        ("a,0,4,1e300,,,", "duration '1e300' is no number of seconds above 0, up to 1,000,000,000"),
        ("a,1e12,4,100,,,", "submitted '1e12' is more than 1,000,000,000 s after t.csv line 2: correct one"),
        ("first,0,4,100,,,", "name 'first' occurs twice: give it another"),
        ("a,0,4,100,,,17", "pool '' is described otherwise than on t.csv line 2: a pool is one thing"),
        ("a,0,4,100,known,1:1 8:3,", "curve '1:1 8:3' is not that of class 'known' on t.csv line 2"),
    ],
)
def test_a_bad_row_is_named_with_its_field_its_value_and_what_to_do(row: str, told: str) -> None:
    header = "name,submitted,gpus,duration,class,curve,node_price"
    with pytest.raises(BadRow) as bad:
        read(f"{header}\nfirst,0,4,100,known,1:1 8:5,\n{row}\n")
    assert str(bad.value).startswith(f"t.csv line 3: {told}")


def test_a_column_that_occurs_twice_is_refused_where_it_is_used() -> None:
    with pytest.raises(BadRow, match=r"^t.csv: column 'duration' occurs twice"):
        read("submitted,gpus,duration,Duration\n0,1,100,5\n")


def test_a_file_that_lacks_a_column_or_rows_says_so() -> None:
    with pytest.raises(
        BadRow, match=r"t\.csv: no column gpus \(or gpu_num, .*its first line must name submitted, gpus"
    ):
        read("submitted,duration\n0,1\n")
    with pytest.raises(BadRow, match="has no row: add at least one job"):
        read("submitted,gpus,duration\n")


def test_curves_of_several_types_stand_in_one_cell_and_are_written_as_they_are_read() -> None:
    text = (
        "submitted,gpus,duration,class,curve,gpu_type,gpu_types,spot\n"
        "0,4,100,sft,1:1 4:3|A100@1:3 4:9|T4@1:0.5 4:1,V100,V100 A100,Allowed\n"
    )
    history = read_history(text.splitlines(), "t.csv", (POOL,), 30.0)
    ((fleet,), job) = history.pools, history.jobs[0]
    (phase,) = fleet.curves["sft"]
    assert [found.gpu_type for found in phase.curves] == ["V100", "A100", "T4"]
    assert (job.gpu_types, job.spot) == (("V100", "A100"), SpotPolicy.ALLOWED)
    assert fleet.types_of(job) == ("V100", "A100")
    file = io.StringIO()
    write_history(history, file)
    file.seek(0)
    assert read_history(file, "h.csv", (POOL,), 30.0) == history


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (
            "0,4,100,sft,1:1 4:3|A100@1:3000 4:9000,",
            "t.csv line 2: curve: on 1 GPU, V100 is 3,000 times as slow as",
        ),
        ("0,4,100,sft,1:1 4:3|1:3 4:9,", "t.csv line 2: curve '1:1 4:3|1:3 4:9' is no curve"),
        ("0,4,100,sft,1:1 4:3|V100@1:3 4:9,", "t.csv line 2: curve '1:1 4:3|V100@1:3 4:9' is no curve"),
        ("0,4,100,sft,1:1 4:3|A100@0.5=1:3;1=1:3,", "is no curve"),
        ("0,4,100,,,Spot", "t.csv line 2: capacity_type 'Spot' has no node_price: give the Spot price of a node of"),
    ],
)
def test_bad_curves_of_types_and_spot_nodes_without_a_price_are_one_line(row: str, told: str) -> None:
    text = "submitted,gpus,duration,class,curve,capacity_type,gpu_type\n" + row + ",V100\n"
    with pytest.raises(BadRow) as refused:
        read_history(text.splitlines(), "t.csv", (POOL,), 30.0)
    assert told in str(refused.value)


def test_rows_name_pools_of_a_file_and_those_without_jobs_are_on_sale_too() -> None:
    dear = replace(POOL, name="dear", hourly=Price.parse("40"))
    history = read_history(["submitted,gpus,duration,pool", "0,4,100,dear"], "t.csv", (POOL, dear), 30.0, on_sale=True)
    assert [past.pool for past in history.pools] == [dear]
    assert history.others == (POOL,)


def test_a_single_pool_of_a_file_is_on_sale_beside_those_that_rows_describe() -> None:
    rows = ["submitted,gpus,duration,pool,gpus_per_node,node_price", "0,4,100,own,4,9"]
    assert read_history(rows, "t.csv", (POOL,), 30.0).others == ()
    assert read_history(rows, "t.csv", (POOL,), 30.0, on_sale=True).others == (POOL,)
