"""Files of pools and of lifetimes, and speeds by GPU type: what they say, and what is refused in one line."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from charterer.domain.money import Price
from charterer.domain.pool import CapacityType
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.pools_file import Lifetimes, read_lifetimes, read_pools
from charterer.tools.simulator.model.workload import BadRow, read_speeds

DEFAULT = PoolModel("pool", 8, Price.parse("16"), start_seconds=120.0, max_nodes=1000)
LIFETIMES = "lifetime_seconds,censored\n3600,0\n7200,1\n"


def read(text: str, seed: int = 0) -> tuple[PoolModel, ...]:
    def lines_of(name: str) -> Iterable[str]:
        assert name == "lives.csv"
        return LIFETIMES.splitlines(keepends=True)

    return read_pools(text.splitlines(keepends=True), "pools.csv", DEFAULT, seed, lines_of)


def test_a_pool_has_its_own_type_size_price_and_times_and_the_options_fill_what_is_empty() -> None:
    fast, plain = read(
        "name,gpu_type,gpus_per_node,node_price,start_seconds,restart_seconds,max_nodes\n"
        "fast,A100,4,13.10,90,45,7\n"
        "plain,T4,,,,,\n"
    )
    assert (fast.gpu_type, fast.gpus_per_node, fast.hourly, fast.max_nodes) == ("A100", 4, Price.parse("13.10"), 7)
    assert (fast.start_seconds, fast.restart_seconds) == (90.0, 45.0)
    assert (plain.gpus_per_node, plain.hourly, plain.start_seconds, plain.restart_seconds) == (
        8,
        Price.parse("16"),
        120.0,
        None,
    )


def test_prices_stock_and_quota_change_at_the_seconds_that_are_given() -> None:
    (pool,) = read("name,gpu_type,prices,stock,quota\na,T4,0:4 3600:9.50,0:5 60:0 120:5,0:2\n")
    assert (pool.hourly, pool.later_prices) == (Price.parse("4"), ((3600.0, Price.parse("9.50")),))
    assert (pool.stock, pool.later_stock) == (5, ((60.0, 0), (120.0, 5)))
    assert (pool.quota, pool.later_quota, pool.most_nodes) == (2, (), 2)


def test_lifetimes_are_a_mean_or_a_file_and_differ_from_pool_to_pool_and_seed_to_seed() -> None:
    text = (
        "name,gpu_type,node_price,capacity_type,lifetimes,most_lifetime_seconds\n"
        "a,T4,1,Spot,3600,\nb,T4,1,Spot,3600,\nc,T4,1,Spot,lives.csv,86400\nd,T4,1,Spot,,600\ne,T4,1,Spot,,\n"
    )
    a, b, c, d, e = (pool.draw_lifetime for pool in read(text))
    again = read(text, seed=1)[0].draw_lifetime
    assert a is not None
    assert b is not None
    assert isinstance(c, Lifetimes)
    assert again is not None
    assert len({a(1), b(1), again(1)}) == 3
    assert (c.ages, c.most) == ((3600.0,), 86_400.0)
    assert d is not None
    assert d(1) == 600.0
    assert e is None
    assert read(text)[0].capacity_type is CapacityType.SPOT


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name\na\n", "pools.csv: no column gpu_type: its first line must name name, gpu_type"),
        ("name,gpu_type,zone\na,T4,b\n", "pools.csv: column 'zone' is not known: use any of name, gpu_type"),
        ("name,gpu_type\n", "pools.csv: has no row: add at least one pool"),
        ("name,gpu_type\n,T4\n", "pools.csv line 2: name '' is empty: name the pool"),
        ("name,gpu_type\na,\n", "pools.csv line 2: gpu_type '' is empty: name the GPU type"),
        ("name,gpu_type\na,T4\na,T4\n", "pools.csv line 3: name 'a' occurs twice: give it another"),
        ("name,gpu_type,node_price\na,T4,-3\n", "line 2: node_price '-3' is no price of a node: give dollars an hour"),
        ("name,gpu_type,gpus_per_node\na,T4,0\n", "line 2: gpus_per_node '0' is no number of GPUs: give 1 to 1000"),
        ("name,gpu_type,max_nodes\na,T4,none\n", "line 2: max_nodes 'none' is no number of nodes: give 1 to 100,000"),
        ("name,gpu_type,start_seconds\na,T4,nan\n", "line 2: start_seconds 'nan' is no number of seconds: give 0 to"),
        ("name,gpu_type,capacity_type\na,T4,Cheap\n", "'Cheap' is no capacity type: use one of OnDemand, Spot"),
        (
            "name,gpu_type,capacity_type\na,T4,Spot\n",
            "line 2: node_price '' is empty: give spot pool 'a' the price of a node, like 19.80",
        ),
        (
            "name,gpu_type,lifetimes\na,T4,3600\n",
            "line 2: lifetimes '3600' is about nodes that the cloud takes back: make capacity_type Spot, or leave it",
        ),
        ("name,gpu_type,stock\na,T4,5:1\n", "stock '5:1' is no steps: give second:nodes from second 0 on, like 0:4"),
        ("name,gpu_type,stock\na,T4,0:1 9:2 9:3\n", "stock '0:1 9:2 9:3' is no steps"),
        ("name,gpu_type,prices\na,T4,0:-1\n", "prices '0:-1' is no steps: give second:price from second 0 on"),
        ("name,gpu_type,node_price,prices\na,T4,1,0:1\n", "line 2: prices '0:1' stands beside node_price: leave one"),
        (
            "name,gpu_type,node_price,capacity_type,lifetimes\na,T4,1,Spot,long\n",
            "lifetimes 'long' is no mean lifetime in seconds and no .csv file of measured ones",
        ),
    ],
)
def test_what_is_no_pool_is_refused_in_one_line_that_says_what_to_do(text: str, told: str) -> None:
    with pytest.raises(BadRow) as refused:
        read(text)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("seconds\n5\n", "l.csv: no column lifetime_seconds: its first line must name lifetime_seconds, and may"),
        ("lifetime_seconds\n", "l.csv: has no row: add at least one lifetime"),
        ("lifetime_seconds\n60\nlong\n", "l.csv line 3: lifetime_seconds 'long' is no lifetime: give seconds above 0"),
        ("lifetime_seconds\n-60\n", "l.csv line 2: lifetime_seconds '-60' is no lifetime: give seconds above 0"),
        ("lifetime_seconds,censored\n,1\n", "l.csv line 2: lifetime_seconds '' is no lifetime"),
        ("lifetime_seconds,censored\n60,maybe\n", "censored 'maybe' is no 1 (it still lived) or 0 (it was taken back)"),
    ],
)
def test_a_bad_row_of_a_file_of_lifetimes_is_named(text: str, told: str) -> None:
    with pytest.raises(BadRow) as refused:
        read_lifetimes(text.splitlines(keepends=True), "l.csv")
    assert told in str(refused.value)


def test_speeds_of_two_types_stand_in_one_file() -> None:
    text = "application,gpu_type,gpus,seconds\nsft,T4,1,400\nsft,A100,1,100\nsft,A100,2,60\n"
    speeds = read_speeds(text.splitlines(keepends=True), "s.csv", ["T4", "A100"])
    assert speeds.seconds == {"sft": {"T4": {1: 400.0}, "A100": {1: 100.0, 2: 60.0}}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("application,gpus,seconds\nsft,1,9\n", "s.csv: no column gpu_type, and the pools have several: say of each"),
        (
            "application,gpu_type,gpus,seconds\nsft,H100,1,9\n",
            "s.csv line 2: gpu_type 'H100' is of no pool (they have A100, T4): correct it, name a ",
        ),
        (
            "application,gpu_type,gpus,seconds\nsft,T4,1,9\nsft,T4,1,8\n",
            "s.csv line 3: application 'sft' has two rows for 1 GPUs of type T4: leave one out",
        ),
        (
            "application,gpu_type,gpus,seconds\nsft,T4,2,36000\nsft,A100,2,3\n",
            "s.csv: application 'sft': on 2 GPUs, T4 is 12,000 times as slow as A100, and no GPU types differ 100 "
            "times: give both in the same unit",
        ),
    ],
)
def test_a_curve_that_no_pool_can_use_or_that_has_another_unit_is_refused(text: str, told: str) -> None:
    with pytest.raises(BadRow) as refused:
        read_speeds(text.splitlines(keepends=True), "s.csv", ["T4", "A100"])
    assert told in str(refused.value)


@pytest.mark.parametrize("header", ["name,gpu_type,node_price,node_price,max_nodes", "Name,gpu_type,name"])
def test_a_column_that_occurs_twice_is_refused(header: str) -> None:
    with pytest.raises(BadRow, match=r"^pools.csv: column '(node_price|name)' occurs twice"):
        read(f"{header}\na,T4,4,7,2\n")


def test_two_columns_of_lifetimes_or_speeds_are_refused() -> None:
    with pytest.raises(BadRow, match=r"^lives.csv: column 'lifetime_seconds' occurs twice"):
        read_lifetimes(["lifetime_seconds,lifetime_seconds", "3600,7"], "lives.csv")
    with pytest.raises(BadRow, match=r"^s.csv: column 'seconds' occurs twice"):
        read_speeds(["application,gpus,seconds,seconds", "a,1,1000,5"], "s.csv", ["T4"])
