"""``charterer costs`` over a record in a folder and a world that goes on."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from charterer.cli.main import main
from charterer.cost_record import CostRecord
from charterer.domain.billing import spent
from charterer.domain.budget import NOTHING, Cause, Costs, DayCosts, JobTime, PastPeriod
from charterer.domain.cost_row import CostRow
from charterer.domain.ids import BudgetId
from charterer.domain.money import Money, total
from charterer.domain.time import Calendar, Instant, Period, after, month_bounds, parse_instant, seconds_between
from tests import factory
from tests.factory.cost_rows import cost_row, payer
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World, one_job_runs

Command = Callable[..., Result]
JUNE: dict[str, Any] = {"budget": "archive", "start": "2026-06-03T10:00:00Z", "end": "2026-06-03T11:00:00Z"}


def june() -> list[CostRow]:
    """A pool with waste of three kinds and another without, of two namespaces."""
    return [
        cost_row("30.000001", payer("vision/vit", {"team": "west"}), **JUNE),
        cost_row("10", payer("vision/=cmd", {"team": "west"}, user="+bob"), **JUNE),
        cost_row("20", payer("nlp/bert", {}, job_class="", user=""), **JUNE, part=1),
        cost_row("4", cause=Cause.IDLE, **JUNE, part=2),
        cost_row("1.000001", cause=Cause.STARTING, **JUNE, part=3),
        cost_row("2", cause=Cause.ENDING, **JUNE, part=4, pool="h100"),
    ]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    asyncio.run(CostRecord(str(tmp_path)).write(june()))
    return tmp_path


@pytest.fixture
def world() -> World:
    """One job runs, and has for some hours."""
    found = one_job_runs()
    found.passes(7_200)
    found.rentals = dict(factory.with_uses(found.snapshot()).rentals)
    return found


@pytest.fixture
def costs(world: World, record: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command, over both."""
    charterer = charterer_over(world, monkeypatch)
    return lambda *arguments: charterer("costs", "--record", str(record), *arguments)


def answer(result: Result) -> dict[str, list[dict[str, Any]]]:
    assert result.exit_code == 0, result.output
    found: dict[str, list[dict[str, Any]]] = json.loads(result.stdout)
    return found


def test_what_is_open_comes_from_the_cluster_and_the_sum_is_the_ledgers(costs: Command, world: World) -> None:
    (name, budget), *_ = world.budgets.items()
    found = answer(costs("--budget", name, "-o", "json"))
    [month] = found["budgets"]
    whole = spent(budget, world.rentals.values(), world.now)
    assert whole > Money(0)
    assert (month["spent"], month["stillOpen"], month["notOnRecord"]) == (whole.decimal(), whole.decimal(), "0.00")
    assert month["open"] is True
    assert total(Money.parse(row["dollars"]) for row in found["costs"]) == whole
    assert {row["namespace"] for row in found["costs"] if row["purpose"] == "job"} == {"team"}


def test_waste_is_rows_of_its_own(costs: Command) -> None:
    found = answer(costs("--budget", "archive", "--month", "2026-06", "-o", "json"))
    rows = [(row["namespace"], row["purpose"], row["dollars"]) for row in found["costs"]]
    assert rows == [
        ("vision", "job", "40.000001"),
        ("nlp", "job", "20.00"),
        (None, "idle", "4.00"),
        (None, "ending", "2.00"),
        (None, "starting", "1.000001"),
    ]


def test_waste_is_shared_out_by_cost_in_its_pool_only_if_asked(costs: Command) -> None:
    found = answer(costs("--budget", "archive", "--month", "2026-06", "-o", "json", "--share-waste"))
    rows = [(row["namespace"], row["purpose"], row["own"], row["waste"]) for row in found["costs"]]
    assert rows == [
        ("vision", "job", "40.000001", "3.333334"),
        ("nlp", "job", "20.00", "1.666667"),
        (None, "ending", "2.00", "0.00"),
    ]
    assert total(Money.parse(row["dollars"]) for row in found["costs"]) == total(row.cost for row in june())


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("pool", [("a100", "65.000002"), ("h100", "2.00")]),
        ("purpose", [("job", "60.000001"), ("idle", "4.00"), ("ending", "2.00"), ("starting", "1.000001")]),
        ("job", [("vision/vit", "30.000001"), ("nlp/bert", "20.00"), ("vision/=cmd", "10.00"), (None, "4.00")]),
        ("class", [("vision/large", "40.000001"), ("", "20.00"), (None, "4.00"), (None, "2.00")]),
        ("label:team", [("west", "40.000001"), ("", "20.00"), (None, "4.00"), (None, "2.00")]),
        ("user", [("ada", "30.000001"), ("", "20.00"), ("+bob", "10.00"), (None, "4.00")]),
    ],
)
def test_sums_by_what_is_asked_for(costs: Command, by: str, rows: list[tuple[str | None, str]]) -> None:
    found = answer(costs("--budget", "archive", "--month", "2026-06", "-o", "json", "--by", by))
    assert [(row[by], row["dollars"]) for row in found["costs"]][: len(rows)] == rows
    assert total(Money.parse(row["dollars"]) for row in found["costs"]) == total(row.cost for row in june())


def test_csv_has_no_cell_that_a_spreadsheet_executes(costs: Command) -> None:
    result = costs("--budget", "archive", "--month", "2026-06", "-o", "csv", "--by", "user,job,label:team")
    lines = list(csv.DictReader(io.StringIO(result.stdout)))
    assert lines[0] == {
        "month": "2026-06",
        "budget": "archive",
        "user": "ada",
        "job": "vision/vit",
        "label:team": "west",
        "purpose": "job",
        "dollars": "30.000001",
        "still_open_dollars": "0.000000",
        "gpu_hours": "1.000000",
    }
    assert [line["user"] for line in lines] == ["ada", "", "'+bob", "", "", ""]


def test_a_table_says_what_is_open_and_what_the_ledger_has(costs: Command, world: World) -> None:
    text = costs().stdout
    (name, budget), *_ = world.budgets.items()
    assert f"{name}, 2026-06 (open: it ends on 2026-07-01 00:00 UTC)" in text
    whole = spent(budget, world.rentals.values(), world.now)
    assert "of machines that run, or whose last hours are not on record yet" in text
    assert f"of {budget.amount}" in text
    assert f"{whole.dollars:.6f}" in text
    assert "the ledger was not asked, or has no such budget" in text  # of the budget that is only on record


def test_what_the_ledger_has_and_no_row_has_is_said(costs: Command, world: World) -> None:
    (name, budget), *_ = world.budgets.items()
    start = month_bounds("UTC", world.now)[0]
    books = factory.balance(period_start=start, settled=Money.parse("5"), lifetime=Money.parse("5"))
    world.budgets[name] = replace(budget, balance=books, opening_spend=Money.parse("3"), created=start)
    [month] = answer(costs("--budget", name, "-o", "json"))["budgets"]
    assert (month["opening"], month["notOnRecord"]) == ("3.00", "5.00")
    text = costs("--budget", name).stdout
    assert re.search(r"not on record +5\.000000 +from before the record began, or from files that are gone", text)
    assert re.search(r"opening +3\.000000 +spec\.openingSpend", text)


def test_a_first_month_is_compared_with_what_counts_of_the_amount(costs: Command, world: World) -> None:
    (name, budget), *_ = world.budgets.items()
    start, end = month_bounds("UTC", world.now)
    books = factory.balance(period_start=start, settled=Money.parse("5"), lifetime=Money.parse("5"))
    late = after(end, -seconds_between(start, end) / 10)
    world.budgets[name] = replace(budget, balance=books, opening_spend=None, created=late)
    assert f"of {Money(budget.amount.micros // 10)}" in costs("--budget", name).stdout


def test_a_budget_above_others_says_what_it_keeps_and_all_of_them_have_a_sum(costs: Command, world: World) -> None:
    (name, budget), *_ = world.budgets.items()
    world.budgets[name] = replace(budget, amount=Money.parse("100000"))
    below = replace(budget, id=BudgetId("below"), uid="below", parent=name, amount=Money.parse("90000"), balance=None)
    world.budgets[below.id] = replace(below, selector=NOTHING)
    text = costs("--budget", name, "--budget", "below").stdout
    assert "of $10,000.00, which it keeps of $100,000.00 for its own namespaces" in text
    whole = spent(budget, world.rentals.values(), world.now)
    assert text.splitlines()[-1] == f"All 2 budgets: {whole.dollars:.6f} dollars spent."


def test_a_past_month_is_compared_with_the_ledgers_history(costs: Command, world: World) -> None:
    (name, budget), *_ = world.budgets.items()
    past = PastPeriod(parse_instant("2026-05-01T00:00:00Z"), Money.parse("7"), Money.parse("28"))
    start = month_bounds("UTC", world.now)[0]
    world.budgets[name] = replace(budget, balance=factory.balance(period_start=start, history=(past,)))
    text = costs("--budget", name, "--month", "2026-05").stdout
    assert f"{name}, 2026-05\n" in text
    assert re.search(r"spent +7\.000000 +25% of \$28\.00", text)


JULY: dict[str, Any] = {"budget": "archive", "start": "2026-07-03T10:00:00Z", "end": "2026-07-03T11:00:00Z"}


def july() -> list[CostRow]:
    """A month of which something is known: of two classes, one of which reports nothing, and of waste in two pools."""
    known = {
        JobTime.TRAINED: Money.parse("20"),
        JobTime.REDONE: Money.parse("6"),
        JobTime.STARVED: Money.parse("3.999999"),
    }
    return [
        cost_row("30", payer("vision/vit"), **JULY, went_to=known),
        cost_row("7", payer("nlp/bert"), **JULY, part=1, went_to={JobTime.REDONE: Money.parse("1")}),
        cost_row("4", cause=Cause.IDLE, **JULY, part=2),
        cost_row("5", cause=Cause.IDLE, **JULY, part=3, pool="h100"),
        cost_row("1.000001", cause=Cause.STARTING, **JULY, part=4),
    ]


def test_causes_divide_jobs_dollars_by_what_is_known_of_them(costs: Command, record: Path) -> None:
    asyncio.run(CostRecord(str(record)).write(july()))
    asked = ("--budget", "archive", "--month", "2026-07", "-o", "json", "--by")
    found = answer(costs(*asked, "cause"))
    assert [(row["cause"], row["dollars"]) for row in found["costs"]] == [
        ("trained", "20.00"),
        ("idle", "9.00"),
        ("redone", "7.00"),
        ("not reported", "6.000001"),
        ("starved", "3.999999"),
        ("starting", "1.000001"),
    ]
    by_team = answer(costs(*asked, "namespace,class,cause"))["costs"]
    assert [(row["namespace"], row["class"], row["cause"], row["dollars"]) for row in by_team[:3]] == [
        ("vision", "vision/large", "trained", "20.00"),
        ("nlp", "nlp/large", "not reported", "6.00"),
        ("vision", "vision/large", "redone", "6.00"),
    ]
    whole = total(row.cost for row in july())
    for rows in (found["costs"], by_team):
        assert total(Money.parse(row["dollars"]) for row in rows) == whole
        assert sum(row["gpuHours"] for row in rows) == pytest.approx(5.0)
    [month] = found["budgets"]
    losses = month["losses"]
    assert (losses["spent"], losses["trained"], losses["notReported"], losses["lost"]) == (
        whole.decimal(),
        "20.00",
        "6.000001",
        "21.00",
    )
    assert [each["cause"] for each in losses["causes"]] == ["idle", "redone", "starved", "starting"]
    assert losses["causes"][0]["mostIn"] == {"namespace": None, "class": None, "pool": "h100", "dollars": "5.00"}


def test_the_three_largest_causes_say_where_most_of_it_is_and_what_to_do(costs: Command, record: Path) -> None:
    asyncio.run(CostRecord(str(record)).write(july()))
    text = costs("--budget", "archive", "--month", "2026-07", "--by", "cause").stdout
    assert "Lost: $21.00, 45% of the $47.00 that machines cost. Of $6.00 (13%) it is not known" in text
    assert re.search(r"1\. +idle, \$9\.00 \(counted\); most in pool h100 \(\$5\.00\)\. To do: ", text)
    assert re.search(
        r"2\. +redone, \$7\.00 \(reported\); most in namespace vision, class vision/large \(\$6\.00\)", text
    )
    assert re.search(r"3\. +starved, \$4\.00 \(estimated\); .* To do: more loader processes", text)
    assert "4." not in re.findall(r"^ *(\d\.)", text, re.MULTILINE)
    assert re.search(r"^vision +vision/large +\$10\.00 +redone$", text, re.MULTILINE)
    assert "Lost" not in costs("--budget", "archive", "--month", "2026-07").stdout


def test_a_month_of_a_weekly_budget_is_compared_with_nothing(costs: Command, world: World) -> None:
    (name, budget), *_ = world.budgets.items()
    world.budgets[name] = replace(budget, calendar=Calendar("UTC", Period.WEEK))
    text = costs("--budget", name).stdout
    assert "the ledger counts by the budget's period (Week), not by months" in text
    assert str(budget.amount) not in text
    [month] = answer(costs("--budget", name, "-o", "json"))["budgets"]
    assert month["notOnRecord"] is None


def test_only_what_is_on_record_needs_no_cluster(record: Path) -> None:
    result = CliRunner().invoke(
        main, ["costs", "--record", str(record), "--recorded-only", "--month", "2026-06", "-o", "json"]
    )
    [month] = answer(result)["budgets"]
    assert (month["name"], month["onRecord"], month["spent"]) == ("archive", "67.000002", None)


def test_focus_has_every_charge(costs: Command) -> None:
    result = costs("--focus", "--month", "2026-06")
    charges = list(csv.DictReader(io.StringIO(result.stdout)))
    assert {charge["x_StillOpen"] for charge in charges} == {"true", "false"}
    assert sum(charge["x_Budget"] == "archive" for charge in charges) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--month", "2026-13"], "'2026-13' is no month: write year and month, like 2026-11"),
        (["--month", "june"], "'june' is no month"),
        (["--by", "teem"], "'teem' is nothing that costs can be summed by"),
        (["--by", "namespce"], "did you mean namespace?"),
        (["--by", "label:"], "label: has no key: write label:team for the label team"),
        (["--by", "label:tema"], "no job of the month has label tema on record: recorded are team"),
        (["--budget", "archiv"], "no GPUBudget archiv in the cluster or on record: did you mean archive or research?"),
        (["--focus", "--by", "user"], "--focus prints every charge: leave --by away"),
        (["--share-waste", "--by", "purpose"], "with --share-waste no purpose is left to sum by"),
        (["--share-waste", "--by", "cause"], "with --share-waste no cause is left to sum by"),
        (["--share-waste", "--by", "pool"], "a pool's sum has its waste already"),
        (["--record", "/nowhere"], "the record of costs in /nowhere cannot be read: No such file or directory"),
        (["--record", "ftp://costs"], "ftp://costs is no place for a record of costs"),
        (["--record", "", "--by", "user"], "--by user needs a record of costs, named by --record"),
        (["--record", "", "--by", "namespace,cause"], "--by namespace needs a record of costs"),
        (["--record", "", "--focus"], "--focus needs a record of costs"),
        (["--record", "", "--recorded-only"], "--recorded-only needs a record of costs"),
    ],
)
def test_a_wrong_question_is_one_line_that_says_what_to_do(costs: Command, arguments: list[str], message: str) -> None:
    result = costs(*arguments, *([] if "--month" in arguments else ["--month", "2026-06"]))
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output


def test_a_damaged_record_is_one_line(costs: Command, record: Path) -> None:
    [file] = record.glob("archive/2026-06/*.jsonl")
    file.write_bytes(file.read_bytes()[:-10])
    result = costs("--month", "2026-06")
    assert result.exit_code == 1
    assert f"line 6 of archive/2026-06/{file.name}" in result.output


def test_a_month_in_which_nothing_was_spent_says_so(costs: Command) -> None:
    assert "No machine cost anything." in costs("--budget", "archive", "--month", "2026-05").stdout


def test_without_a_record_the_budgets_status_has_namespaces_and_purposes(costs: Command, world: World) -> None:
    (name, budget), *_ = world.budgets.items()
    start = month_bounds("UTC", world.now)[0]
    amounts = {Cause.JOB: Money.parse("3"), Cause.IDLE: Money.parse("2")}
    days = (
        DayCosts(Instant(start - 1), {Cause.JOB: Money.parse("50")}, {"team": Money.parse("50")}),
        DayCosts(start, amounts, {"team": Money.parse("1"), "nlp": Money.parse("2")}),
    )
    books = factory.balance(period_start=start, settled=Money.parse("5"), costs=Costs(days=days))
    world.budgets[name], world.rentals = replace(budget, balance=books), {}
    found = answer(costs("--record", "", "-o", "json"))
    assert [(row["namespace"], row["purpose"], row["dollars"]) for row in found["costs"]] == [
        ("nlp", "job", "2.00"),
        ("team", "job", "1.00"),
        (None, "idle", "2.00"),
    ]
    known = {JobTime.REDONE: Money.parse("0.5"), JobTime.TRAINED: Money.parse("1")}
    told = replace(books, costs=Costs(days=(days[0], replace(days[1], went_to=known))))
    world.budgets[name] = replace(budget, balance=told)
    found = answer(costs("--record", "", "-o", "json", "--by", "cause"))
    assert [(row["cause"], row["dollars"]) for row in found["costs"]] == [
        ("idle", "2.00"),
        ("not reported", "1.50"),
        ("trained", "1.00"),
        ("redone", "0.50"),
    ]
    text = costs("--record", "", "--by", "purpose").stdout
    assert re.search(r"^job +3\.000000 +60%$", text, re.MULTILINE)
    assert "From the budgets' statuses, which have namespaces, purposes and causes of the last 62 days." in text
