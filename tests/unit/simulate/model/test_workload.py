"""Reading a workload: the rows as they are, and one clear error for the first bad one."""

from __future__ import annotations

import pytest

from charterer.tools.simulator.model.workload import BadRow, Submission, read_workload

HEADER = "name,time,application,num_replicas,batch_size"
APPLICATIONS = ("bert", "cifar10")


def read(*rows: str, header: str = HEADER) -> tuple[Submission, ...]:
    return read_workload([header, *rows], "w.csv", APPLICATIONS)


def test_rows_come_in_order_of_time() -> None:
    assert read("b,20,bert,4,48", "a,10,cifar10,2,") == (
        Submission("a", 10.0, "cifar10", 2, 0),
        Submission("b", 20.0, "bert", 4, 48),
    )


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("a,soon,bert,4,48", "w.csv line 2: time 'soon' is no number"),
        (
            "a,-3,bert,4,48",
            "w.csv line 2: time -3 is negative or too large: give seconds",
        ),
        ("a,1e300,bert,4,48", "w.csv line 2: time 1e+300 is negative or too large: give seconds"),
        ("a,1,bert,1e9,48", "w.csv line 2: num_replicas 1e+09 is no number of GPUs: give a whole number from 1 to"),
        ("a,inf,bert,4,48", "w.csv line 2: time 'inf' is no finite number"),
        ("a,1,bert,0,48", "w.csv line 2: num_replicas 0 is no number of GPUs: give a whole number from 1 to"),
        (
            "a,1,bert,1.5,48",
            "w.csv line 2: num_replicas 1.5 is no number of GPUs: give a whole number from 1 to",
        ),
        ("a,1,gpt,1,48", "w.csv line 2: application 'gpt' is not known: use one of bert, cifar10"),
        ("a,1,bert", "w.csv line 2: num_replicas None is no number"),
    ],
)
def test_a_bad_row_is_named_with_its_field_and_value(row: str, told: str) -> None:
    with pytest.raises(BadRow) as bad:
        read(row)
    assert str(bad.value).startswith(told.removesuffix(" is no number"))


def test_a_name_that_occurs_twice_is_refused() -> None:
    with pytest.raises(BadRow, match="line 3: name 'a' occurs twice"):
        read("a,1,bert,1,48", "a,2,bert,1,48")


def test_a_column_that_occurs_twice_is_refused_where_it_is_used() -> None:
    with pytest.raises(BadRow, match=r"^w.csv: column 'time' occurs twice in its first line: leave one out$"):
        read("a,1,2,bert,4", header="name,time,time,application,num_replicas")
    assert read("a,1,bert,4,x,y", header="name,time,application,num_replicas,note,note")[0].at == 1.0


def test_a_file_without_a_column_says_which() -> None:
    with pytest.raises(BadRow, match="no column application"):
        read("a,1,1", header="name,time,num_replicas")


def test_a_file_without_rows_is_refused() -> None:
    with pytest.raises(BadRow, match="has no row"):
        read()
