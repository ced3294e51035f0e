"""``charterer notify``: what is told, once, also after a crash; pages of weeks and months; webhooks that fail."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
import pytest

from charterer.cost_record import CostRecord
from charterer.domain.budget import Cause, JobTime, PastPeriod
from charterer.domain.money import Money
from charterer.domain.plan import ForecastVerdict
from charterer.domain.time import Calendar, Instant, Period, instant, month_bounds
from charterer.tools.commands.notify import (
    BudgetNotice,
    NotDelivered,
    Webhook,
    body_of,
    due_periods,
    money_notices,
    past_month,
    past_week,
    tell,
)
from tests import factory
from tests.factory.cost_rows import cost_row, payer
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World

BERLIN = "Europe/Berlin"
NOTICE = BudgetNotice("research", "threshold", "2026-11-80", "research has spent <80%> & more", {"spent": "4800.00"})


def when(text: str) -> Instant:
    return instant(datetime.fromisoformat(text).astimezone(UTC))


# --- periods ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "now", "week", "month"),
    [
        ("UTC", "2026-11-30T04:00Z", "2026-W48 2026-11-23 2026-11-30", "2026-10 2026-10-01 2026-11-01"),
        ("UTC", "2026-11-29T23:59Z", "2026-W47 2026-11-16 2026-11-23", "2026-10 2026-10-01 2026-11-01"),
        (BERLIN, "2026-11-30T23:30Z", "2026-W48 2026-11-23 2026-11-30", "2026-11 2026-11-01 2026-12-01"),
        ("UTC", "2027-01-04T00:00Z", "2026-W53 2026-12-28 2027-01-04", "2026-12 2026-12-01 2027-01-01"),
        (BERLIN, "2026-03-30T10:00Z", "2026-W13 2026-03-23 2026-03-30", "2026-02 2026-02-01 2026-03-01"),
    ],
)
def test_weeks_and_months_are_those_of_the_time_zone(zone: str, now: str, week: str, month: str) -> None:
    for found, said in ((past_week(zone, when(now)), week), (past_month(zone, when(now)), month)):
        name, first, end = said.split()
        assert found.name == name
        for at, day in ((found.start, first), (found.end, end)):
            assert at == instant(datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)))


@pytest.mark.parametrize(
    ("now", "kinds"),
    [
        ("2026-11-30T05:59:00+00:00", []),
        ("2026-11-30T06:00:00+00:00", ["week"]),
        ("2026-12-01T05:00:00+00:00", ["week"]),
        ("2026-12-01T06:00:00+00:00", ["week", "month"]),
        ("2026-12-08T00:00:00+00:00", ["week"]),
    ],
)
def test_pages_are_due_once_a_period_is_settled_and_no_longer_than_a_week(now: str, kinds: list[str]) -> None:
    old = factory.budget(created=when("2026-01-01T00:00:00+00:00"), calendar=Calendar("UTC"))
    assert [kind for kind, _ in due_periods(old, when(now), weekly=True, monthly=True)] == kinds
    young = replace(old, created=when("2026-12-08T00:00:00+00:00"))
    assert not list(due_periods(young, when(now), weekly=True, monthly=True))


# --- thresholds -------------------------------------------------------------------------------------------------------


def notices(spent: str, told: set[str] | None = None, forecast: str | None = None) -> list[str]:
    start = when("2026-11-01T00:00:00+00:00")
    books = factory.balance(period_start=start)
    budget = factory.budget(created=Instant(0), calendar=Calendar("UTC"), amount=Money.parse("6000"), balance=books)
    expected = None if forecast is None else Money.parse(forecast)
    verdict = None if expected is None else ForecastVerdict(expected, expected, expected)
    found = money_notices(
        budget,
        Money.parse(spent),
        verdict,
        when("2026-11-20T00:00:00+00:00"),
        (100, 50, 80),
        (told or set()).__contains__,
    )
    return [notice.name for notice in found]


@pytest.mark.parametrize(
    ("spent", "told", "forecast", "names"),
    [
        ("2999.999999", set(), None, []),
        ("3000", set(), None, ["2026-11-50"]),
        ("5000", set(), None, ["2026-11-80"]),
        ("9000", set(), "5000", ["2026-11-100"]),
        ("4700", {"2026-11-80"}, None, []),
        ("4700", {"2026-10-80"}, None, ["2026-11-50"]),
        ("100", set(), "6000.000001", ["2026-11-forecast"]),
        ("100", set(), "6000", []),
    ],
)
def test_the_highest_threshold_that_was_passed_is_told_and_a_forecast_above_the_amount(
    spent: str, told: set[str], forecast: str | None, names: list[str]
) -> None:
    assert notices(spent, told, forecast) == names


def test_a_threshold_is_told_once_in_each_week_of_a_weekly_budget() -> None:
    week = Calendar("UTC", Period.WEEK)
    books = factory.balance(period_start=when("2026-11-16T00:00:00+00:00"))
    budget = factory.budget(created=Instant(0), calendar=week, amount=Money.parse("6000"), balance=books)
    spent, now = Money.parse("4800"), when("2026-11-20T00:00:00+00:00")
    (notice,) = money_notices(budget, spent, None, now, (50, 80), set().__contains__)
    assert notice.name == "2026-11-16-80"
    assert "(80%) in its week from 2026-11-16, with 3.0 days to go" in notice.text


# --- once, also after a crash -----------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends."""


@dataclass
class Receiver:
    """A webhook that takes what is sent; ``again``: what each delivery said of itself."""

    again: list[bool] = field(default_factory=list)

    async def send(self, notice: BudgetNotice, *, again: bool, place: str) -> None:
        self.again.append(again)


@dataclass
class Dying:
    """Files and a webhook of a process that ends at its ``steps``-th action, before it or after it took effect."""

    files: CostRecord
    receiver: Receiver
    steps: int
    after: bool

    def report_files(self, budget: str) -> frozenset[str]:
        return self.files.report_files(budget)

    def write_report(self, budget: str, name: str, content: bytes) -> None:
        self._act(lambda: self.files.write_report(budget, name, content))

    async def send(self, notice: BudgetNotice, *, again: bool, place: str) -> None:
        self._act(lambda: self.receiver.again.append(again))

    def _act(self, take: Callable[[], None]) -> None:
        self.steps -= 1
        if self.steps == 0 and not self.after:
            raise Killed
        take()
        if self.steps == 0:
            raise Killed


@pytest.mark.parametrize("after_it", [False, True])
@pytest.mark.parametrize("step", range(1, 6))
def test_a_process_that_dies_anywhere_loses_no_notice_and_repeats_none_without_saying_so(
    tmp_path: Path, step: int, after_it: bool
) -> None:
    files, receiver = CostRecord(str(tmp_path)), Receiver()
    notice = replace(NOTICE, name="2026-11", kind="month", page=b"<html>")
    dying = Dying(files, receiver, step, after_it)
    try:
        asyncio.run(tell(notice, dying, dying, "record"))
    except Killed:
        assert step <= 4, "a page, a mark, the delivery, a mark"
    for _ in range(2):
        asyncio.run(tell(notice, files, receiver, "record"))
    assert 1 <= len(receiver.again) <= 2
    assert receiver.again[1:] == [True] * (len(receiver.again) - 1), "what comes a second time says so"
    assert len([name for name in files.report_files("research") if name.endswith(".html")]) == 1


def test_marks_and_pages_are_no_part_of_the_record(tmp_path: Path) -> None:
    files = CostRecord(str(tmp_path))
    asyncio.run(tell(NOTICE, files, Receiver(), "record"))
    assert files.months() == {}
    assert list(files.read(["2026-11"])) == []


# --- the webhook ------------------------------------------------------------------------------------------------------


@dataclass
class Asked:
    """What a server was sent: bodies and headers."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)


@contextmanager
def server(*statuses: int, hangs: bool = False) -> Iterator[Asked]:
    """A server that answers with these, the last one again and again; or never."""
    left, released = list(statuses), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            asked.headers.append(dict(self.headers))
            if hangs:
                released.wait()
                return
            status = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    asked = Asked(f"http://127.0.0.1:{made.server_port}/hook/s3cret")
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield asked
    finally:
        released.set()
        made.shutdown()
        made.server_close()


def send(url: str, seconds: float = 10.0) -> None:
    asyncio.run(Webhook(url, "json", seconds=seconds, tries=(0.0, 0.0, 0.0)).send(NOTICE, again=False, place=""))


def test_a_webhook_that_fails_at_first_is_asked_again_with_the_same_key() -> None:
    with server(500, 429, 204) as asked:
        send(asked.url)
    assert [body["again"] for body in asked.bodies] == [False, True, True]
    assert {headers["Idempotency-Key"] for headers in asked.headers} == {"research/2026-11-80"}
    assert asked.bodies[0] == {
        "id": "research/2026-11-80", "again": False, "budget": "research", "kind": "threshold",
        "text": NOTICE.text, "page": None, "spent": "4800.00",
    }  # fmt: skip


@pytest.mark.parametrize("status", [500, 404, 302])
def test_a_webhook_that_takes_nothing_is_one_sentence_without_its_address(status: int) -> None:
    with server(status) as asked, pytest.raises(NotDelivered) as error:
        send(asked.url)
    assert str(error.value) == f"research/2026-11-80 was not delivered: the webhook at 127.0.0.1 answered {status}"


def test_a_webhook_that_hangs_is_left_after_a_time() -> None:
    with server(hangs=True) as asked, pytest.raises(NotDelivered, match=r"did not answer within 0\.05 seconds"):
        send(asked.url, seconds=0.05)


def test_a_webhook_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(NotDelivered, match=r"the webhook at 127\.0\.0\.1 cannot be reached \(ClientConnectorError\)"):
        send("http://127.0.0.1:9/s3cret")


@pytest.mark.parametrize(
    "url", ["s3cret", "ftp://host/s3cret", "https:///s3cret", "https://a:b:s3cret/", "https://h/s3 cret"]
)
def test_what_is_no_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(click.ClickException) as error:
        Webhook(url, "json")
    assert "CHARTERER_WEBHOOK_URL is no address of a webhook" in error.value.message
    assert "cret" not in error.value.message.replace("Secret", "").replace("secret", "")


def test_slack_and_teams_get_text_that_they_do_not_take_for_markup() -> None:
    assert body_of(NOTICE, "slack", again=True, place="s3://x/_reports/a.html") == {
        "text": "research has spent &lt;80%&gt; &amp; more The page is s3://x/_reports/a.html. (Sent again: whether it "
        "arrived before is not known.)"
    }
    card: Any = body_of(NOTICE, "teams", again=False, place="")
    (attachment,) = card["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert attachment["content"]["body"] == [{"type": "TextBlock", "text": NOTICE.text, "wrap": True}]


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def world() -> World:
    world = World()
    world.now = when("2026-12-07T12:00:00+00:00")
    world.budget("research", amount="6000")
    start = month_bounds("UTC", world.now)[0]
    past = PastPeriod(when("2026-11-01T00:00:00+00:00"), Money.parse("47"), Money.parse("100"))
    books = factory.balance(
        period_start=start, settled=Money.parse("4800"), lifetime=Money.parse("4847"), history=(past,)
    )
    (name, budget), *_ = world.budgets.items()
    world.budgets[name] = replace(
        budget, balance=books, created=Instant(0), calendar=Calendar("UTC"), opening_spend=Money(0)
    )
    return world


@pytest.fixture
def record(tmp_path: Path) -> Path:
    hour: dict[str, Any] = {"start": "2026-12-01T10:00:00Z", "end": "2026-12-01T11:00:00Z"}
    known = {JobTime.TRAINED: Money.parse("20"), JobTime.REDONE: Money.parse("6")}
    rows = [
        cost_row("30", payer("vision/vit<script>"), **hour, went_to=known),
        cost_row("7", payer("nlp/bert"), **hour, part=1, went_to={JobTime.TRAINED: Money.parse("7")}),
        cost_row("10", cause=Cause.IDLE, **hour, part=2),
        cost_row("99", payer("nlp/bert"), part=3, start="2026-12-07T01:00:00Z", end="2026-12-07T02:00:00Z"),
    ]
    asyncio.run(CostRecord(str(tmp_path)).write(rows))
    return tmp_path


def test_a_budget_is_told_of_once_and_has_a_page_of_its_week(
    world: World, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charterer = charterer_over(world, monkeypatch)
    with server(204) as asked:
        monkeypatch.setenv("CHARTERER_WEBHOOK_URL", asked.url)
        first = charterer("notify", "--record", str(record), "--no-monthly")
        again = charterer("notify", "--record", str(record), "--no-monthly")
    assert (first.exit_code, again.exit_code, again.output) == (0, 0, ""), first.output + again.output
    threshold, week = asked.bodies
    assert threshold["text"].startswith(
        "research has spent $4,800.00 of $6,000.00 (80%) in 2026-12, with 24.5 days to go."
    )
    assert (threshold["id"], threshold["threshold"]) == ("research/2026-12-80", 80)
    assert week["text"] == (
        "research spent $47.00 in week 2026-W49, and lost $16.00 of it (34%), most by idle $10.00, redone $6.00."
    )
    assert (week["losses"]["spent"], week["losses"]["notReported"]) == ("47.00", "4.00")
    page = Path(week["page"]).read_text()
    assert "What was lost" in page
    assert "<svg" in page
    assert "s3cret" not in first.output


def test_without_a_webhook_pages_are_written_and_nobody_is_told(
    world: World, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charterer = charterer_over(world, monkeypatch)
    said = [charterer("notify", "--record", str(record), "--no-monthly").output for _ in range(2)]
    assert said[0].startswith(f"wrote {record}/_reports/research/2026-W49-")
    assert said[1] == ""
    assert not list(record.glob("_reports/*/*.sent"))


def test_a_webhook_that_fails_stops_no_page_and_is_tried_next_time(
    world: World, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("charterer.tools.commands.notify._TRIES", (0.0,))
    charterer = charterer_over(world, monkeypatch)
    with server(500, 204) as asked:
        monkeypatch.setenv("CHARTERER_WEBHOOK_URL", asked.url)
        failed = charterer("notify", "--record", str(record), "--no-monthly")
        assert failed.exit_code == 1
        assert "research/2026-12-80 was not delivered: the webhook at 127.0.0.1 answered 500" in failed.output
        assert len(list(record.glob("_reports/research/2026-W49-*.html"))) == 1
        assert charterer("notify", "--record", str(record), "--no-monthly").exit_code == 0
    assert [(body["id"], body["again"]) for body in asked.bodies] == [
        ("research/2026-12-80", False),
        ("research/2026-12-80", True),
        ("research/2026-W49", False),
    ]


def test_a_damaged_month_stops_no_notice(world: World, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = record.glob("research/2026-12/*.jsonl")
    file.write_bytes(file.read_bytes()[:-10])
    charterer = charterer_over(world, monkeypatch)
    with server(204) as asked:
        monkeypatch.setenv("CHARTERER_WEBHOOK_URL", asked.url)
        result = charterer("notify", "--record", str(record), "--no-monthly")
    assert [body["kind"] for body in asked.bodies] == ["threshold"]
    assert result.exit_code == 1
    assert "is not as it was written" in result.output


def test_a_month_is_compared_with_its_amount(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world.now = when("2026-12-02T12:00:00+00:00")
    row = cost_row("47", payer("vision/vit"), start="2026-11-03T10:00:00Z", end="2026-11-03T11:00:00Z")
    asyncio.run(CostRecord(str(tmp_path)).write([row]))
    charterer_over(world, monkeypatch)("notify", "--record", str(tmp_path), "--no-weekly")
    (file,) = tmp_path.glob("_reports/research/2026-11-*.html")
    assert "research spent $47.00 of $100.00 (47%) in month 2026-11, and lost $0.00 of it (0%)." in file.read_text()
