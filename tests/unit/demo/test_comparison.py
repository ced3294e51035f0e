"""The rows of the comparison: against today's practice, in a terminal and in README.md."""

from __future__ import annotations

import io
import json

from rich.console import Console

from demo.columns import Column, Parts
from demo.comparison import Simulated, markdown, table
from demo.scenario import Scenario, workload
from tests.unit.demo import samples


def simulated(of: Scenario | None = None) -> Simulated:
    """Without spot 18 min for $70; as today 21 min for $60, and for today's money 20 min."""
    of = of or samples.scenario()
    parts = Parts(samples.column(of, 1_080, 70.0), samples.column(of, 1_260, 60.0), samples.column(of, 1_200, 80.0))
    return Simulated(of, samples.columns(of), parts)


def test_each_row_is_against_todays_practice_and_tells_what_is_worse_as_well() -> None:
    told = [(row.words.strip(), row.cost, row.completion) for row in simulated().rows]
    assert told == [
        ("today: T4 on demand, as asked for", "", ""),
        ("Charterer, with A100 and spot too", "25% less", "15% earlier"),
        ("the same, for no more money", "1% less", "20% earlier"),
        ("Charterer without spot", "12% less", "10% earlier"),
        ("Charterer with T4 on demand only", "25% less", "5% later"),
        ("the same, for no more money", "0% less", "0% earlier"),
    ]


def test_the_tables_have_no_more_than_80_columns_and_the_same_ones() -> None:
    console = Console(file=io.StringIO(), width=80, record=True)
    rows = simulated().rows
    console.print(table(rows[:3], "simulated"))
    console.print(table(rows[3:], "where less is sold, simulated"))
    lines = console.export_text().splitlines()
    assert len(lines) == len(rows) + 2
    assert "…" not in "".join(lines)
    assert {line.index("min") for line in lines if "min" in line} == {lines[1].index("min")}


def test_readme_has_a_table_of_all_rows() -> None:
    lines = markdown(simulated().rows).splitlines()
    assert {line.count("|") for line in lines} == {6}
    assert lines[2] == "| today: T4 on demand, as asked for | $80.00 | | 20.0 min | |"
    assert lines[6] == "| Charterer with T4 on demand only | $60.00 | 25% less | 21.0 min | 5% later |"


def test_where_no_more_is_sold_than_was_asked_for_the_headline_does_not_speak_of_it() -> None:
    of = workload(30, cloud="karpenter")
    assert Simulated(of, samples.columns(of)).headline.startswith("Jobs cost 25% less than today")
    assert [row.words.strip() for row in Simulated(of, samples.columns(of)).rows][1] == "Charterer"


def test_today_that_was_really_run_is_no_simulated_row() -> None:
    of = workload(30, cloud="karpenter")
    columns = samples.columns(of)
    measured = Column(columns.autoscaler.jobs, 80.0, 20, columns.autoscaler.spent, measured="2026-11-22")
    rows = Simulated(of, type(columns)(measured, columns.same_money, columns.budget)).rows
    assert [row.simulated for row in rows] == [False, True, True]
    assert rows[0].words == "today: Karpenter, as asked for"


def test_the_numbers_are_there_for_other_programs() -> None:
    told = json.loads(simulated().json())
    assert told["headline"] == simulated().headline
    assert [row["figures"]["dollars"] for row in told["rows"]] == [80.0, 60.0, 79.5, 70.0, 60.0, 80.0]
