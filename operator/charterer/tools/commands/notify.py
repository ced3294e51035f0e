"""``charterer notify`` sends each budget notice once to a webhook, and writes weekly and monthly pages for finance."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from html import escape
from typing import Final, Protocol
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import click

from charterer import __version__
from charterer.cost_record import CostRecord, RecordUnavailable
from charterer.domain.billing import spent
from charterer.domain.budget import Budget, JobTime
from charterer.domain.cost_row import CostRow
from charterer.domain.money import ZERO, Money, total
from charterer.domain.plan import ForecastVerdict
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, Period, after, day_bounds, format_instant, instant, moment, seconds_between
from charterer.policy.planner import plan
from charterer.sentences import visible
from charterer.tools.commands.costs.answer import month_rows, open_rows
from charterer.tools.commands.shared.cluster import ClusterOptions, cluster_options, read
from charterer.tools.commands.shared.lost import Losses, losses_json, lost_blocks
from charterer.tools.commands.shared.options import record_option
from charterer.tools.commands.shared.output import JsonValue, percent, whole
from charterer.tools.documents.document import (
    Block,
    Document,
    DocumentTable,
    Heading,
    Paragraph,
    Picture,
    TableColumn,
    Tone,
    row,
)
from charterer.tools.documents.html import page
from charterer.tools.documents.pictures import BLUE, GREY, VERMILION

# Weeks and months in a budget's time zone.


_DAY = 86_400.0
_SETTLED_SECONDS: Final = 6 * 3600.0
"""Seconds between the end of a week or month and the writing of its page. By then the last day is usually on record."""
_LATE_SECONDS: Final = 7 * _DAY
"""Seconds after the end of a week or month after which its page is no longer written.

So a new installation does not write pages for the past.
"""


@dataclass(frozen=True, slots=True)
class PagePeriod:
    """A week such as ``2026-W48``, or a month such as ``2026-11``, as the interval [start, end)."""

    name: str
    start: Instant
    end: Instant


def past_week(time_zone: str, now: Instant) -> PagePeriod:
    """Return the last complete week. Weeks begin on Monday."""
    today = moment(now).astimezone(ZoneInfo(time_zone)).replace(hour=12, minute=0, second=0, microsecond=0)
    monday = today - timedelta(days=today.weekday())
    before = monday - timedelta(days=7)
    year, week, _ = before.isocalendar()
    return PagePeriod(f"{year}-W{week:02d}", _midnight(time_zone, before), _midnight(time_zone, monday))


def past_month(time_zone: str, now: Instant) -> PagePeriod:
    """Return the last complete month."""
    first = moment(now).astimezone(ZoneInfo(time_zone)).replace(day=1, hour=12, minute=0, second=0, microsecond=0)
    before = (first - timedelta(days=1)).replace(day=1)
    return PagePeriod(f"{before:%Y-%m}", _midnight(time_zone, before), _midnight(time_zone, first))


def _midnight(time_zone: str, noon: datetime) -> Instant:
    return day_bounds(time_zone, instant(noon))[0]


def _months(period: PagePeriod, time_zone: str) -> list[str]:
    """Return the months that overlap the period."""
    ends = (period.start, Instant(period.end - 1))
    return sorted({f"{moment(at).astimezone(ZoneInfo(time_zone)):%Y-%m}" for at in ends})


# Notices: a threshold that was passed, a forecast above the amount, a page.


@dataclass(frozen=True, slots=True)
class BudgetNotice:
    """A notice that is sent once. ``name`` is unique within the budget. ``facts`` are the notice's data for programs.

    ``page`` is the content of the notice's page, or empty if the notice has no page.
    """

    budget: str
    kind: str
    name: str
    text: str
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    page: bytes = b""

    @property
    def id(self) -> str:
        """Identifier by which a receiver recognises duplicates."""
        return f"{self.budget}/{self.name}"

    @property
    def page_name(self) -> str:
        """File name of the page."""
        return f"{self.name}-{sha256(self.page).hexdigest()[:12]}.html"


def money_notices(
    budget: Budget,
    used: Money,
    forecast: ForecastVerdict | None,
    now: Instant,
    thresholds: Sequence[int],
    told: Callable[[str], bool],
) -> Iterator[BudgetNotice]:
    """Yield the highest threshold passed in the budget's present period, and a forecast above the amount.

    ``told`` returns whether the notice with this name was sent. A threshold below one that was sent yields no notice.
    """
    aim, (start, end) = budget.own_aim, budget.period
    if aim <= ZERO:
        return
    first, monthly = (
        moment(start).astimezone(ZoneInfo(budget.calendar.time_zone)),
        budget.calendar.period is Period.MONTH,
    )
    name = f"{first:%Y-%m}" if monthly else f"{first:%Y-%m-%d}"
    period = name if monthly else f"its {budget.calendar.word} from {name}"
    facts: dict[str, JsonValue] = {
        "period": name,
        "spent": used.decimal(),
        "amount": aim.decimal(),
        "forecast": None if forecast is None else forecast.expected.decimal(),
        "periodEndsAt": format_instant(end),
    }
    left = f"{max(seconds_between(now, end), 0.0) / _DAY:.1f} days to go"
    passed = [each for each in sorted(set(thresholds)) if used.micros * 100 >= aim.micros * each]
    above = [each for each in thresholds if passed and each > passed[-1] and told(f"{name}-{each}")]
    if passed and not above:
        expected = "" if forecast is None else f" By its forecast it ends at {whole(forecast.expected)}."
        text = (
            f"{budget.id} has spent {used} of {aim} ({percent(used.micros / aim.micros)}) in {period}, with {left}."
            f"{expected}"
        )
        yield BudgetNotice(budget.id, "threshold", f"{name}-{passed[-1]}", text, {**facts, "threshold": passed[-1]})
    if forecast is not None and forecast.expected > aim:
        text = (
            f"{budget.id} is forecast to spend {whole(forecast.expected)} in {period}, above its {aim}; 9 times in 10 "
            f"{whole(forecast.low)} to {whole(forecast.high)}. {used} is spent, with {left}."
        )
        yield BudgetNotice(budget.id, "forecast", f"{name}-forecast", text, facts)


def due_periods(budget: Budget, now: Instant, *, weekly: bool, monthly: bool) -> Iterator[tuple[str, PagePeriod]]:
    """Yield the kinds and periods of pages that are due."""
    found = [("week", past_week(budget.calendar.time_zone, now))] if weekly else []
    found += [("month", past_month(budget.calendar.time_zone, now))] if monthly else []
    for kind, period in found:
        settled = after(period.end, _SETTLED_SECONDS)
        if budget.created < period.end and settled <= now < after(period.end, _LATE_SECONDS):
            yield kind, period


def period_rows(record: CostRecord, budget: Budget, period: PagePeriod, snapshot: Snapshot) -> Iterator[CostRow]:
    """Yield the period's rows: those on record and those of the cluster's present state. Raises RecordUnavailable."""
    still_open = open_rows(snapshot, budget)
    for month in _months(period, budget.calendar.time_zone):
        for found, _ in month_rows(month, record.read([month], [budget.id]), still_open):
            if period.start <= found.start < period.end:
                yield found


def page_notice(kind: str, budget: Budget, period: PagePeriod, rows: Sequence[CostRow]) -> BudgetNotice:
    """Make the notice with the page of a week or month."""
    losses, days = Losses(), {day: Losses() for day in _days(period, budget.calendar.time_zone)}
    for found in rows:
        losses.add_row(found)
        days[day_bounds(budget.calendar.time_zone, found.start)[0]].add_row(found)
    text = _told_of(kind, budget, period, losses)
    document = _page(f"{budget.id}, {kind} {period.name}", text, losses, days, budget.calendar.time_zone)
    facts: dict[str, JsonValue] = {
        "period": period.name,
        "from": format_instant(period.start),
        "to": format_instant(period.end),
        "losses": losses_json(losses),
    }
    made = f"by charterer {__version__}, from the record of costs; US dollars, days of {budget.calendar.time_zone}"
    return BudgetNotice(budget.id, kind, period.name, text, facts, page(document, made).encode())


def _days(period: PagePeriod, time_zone: str) -> Iterator[Instant]:
    at = period.start
    while at < period.end:
        yield at
        at = day_bounds(time_zone, at)[1]


def _told_of(kind: str, budget: Budget, period: PagePeriod, losses: Losses) -> str:
    of = ""
    if kind == "month" and budget.calendar.period is Period.MONTH and budget.balance is not None:
        aims = [past.aim for past in budget.balance.history if period.start <= past.start < period.end and past.aim]
        of = f" of {aims[0]} ({percent(losses.spent.micros / aims[0].micros)})" if aims and aims[0] > ZERO else ""
    said = f"{budget.id} spent {losses.spent}{of} in {kind} {period.name}"
    if losses.spent <= ZERO:
        return f"{said}."
    largest = ", ".join(f"{cause.value.replace('_', ' ')} {amount}" for cause, amount in losses.causes[:3])
    said += f", and lost {losses.lost} of it ({percent(losses.lost.micros / losses.spent.micros)})"
    return f"{said}, most by {largest}." if largest else f"{said}."


# The page of a week or month.


_MOST_NAMESPACES: Final = 8


def _page(title: str, text: str, losses: Losses, days: Mapping[Instant, Losses], time_zone: str) -> Document:
    blocks: list[Block] = [Paragraph(text, Tone.STRONG)]
    if losses.spent > ZERO:
        blocks += [Picture(_days_svg(days, time_zone), _caption(losses)), Heading("Who spent what"), _who(losses)]
        blocks += [Heading("What was lost"), *lost_blocks(losses, causes=True)]
    return Document(title, tuple(blocks))


def _caption(losses: Losses) -> str:
    return (
        f"Dollars a day: trained {losses.of(JobTime.TRAINED)} (blue), lost {losses.lost} (red), not reported "
        f"{losses.of(None)} (grey)"
    )


def _who(losses: Losses) -> DocumentTable:
    """Make a table of dollars spent and lost: a row for each namespace, and one for GPUs that no job held."""
    spent_by: dict[str, Money] = {}
    lost_by: dict[str, Money] = {}
    for cause, places in losses.sums.items():
        for place, amount in places.items():
            name = place.namespace
            spent_by[name] = spent_by.get(name, ZERO) + amount
            if cause is not None and cause is not JobTime.TRAINED:
                lost_by[name] = lost_by.get(name, ZERO) + amount
    names = sorted(filter(None, spent_by), key=lambda name: (-spent_by[name].micros, name))
    shown, others = names[:_MOST_NAMESPACES], names[_MOST_NAMESPACES:]
    lines = [(name, spent_by[name], lost_by.get(name, ZERO)) for name in shown]
    if others:
        cost, lost = (total(of.get(name, ZERO) for name in others) for of in (spent_by, lost_by))
        lines.append((f"{len(others)} others", cost, lost))
    if "" in spent_by:
        lines.append(("no job", spent_by[""], lost_by.get("", ZERO)))
    columns = (
        TableColumn("NAMESPACE"),
        TableColumn("DOLLARS", right=True),
        TableColumn("SHARE", right=True),
        TableColumn("LOST", right=True),
    )
    of_all = losses.spent.micros
    rows = [row(name, str(cost), percent(cost.micros / of_all), str(lost)) for name, cost, lost in lines]
    return DocumentTable(columns, tuple(rows))


_WIDTH, _HEIGHT, _BASE = 720, 170, 150


def _days_svg(days: Mapping[Instant, Losses], time_zone: str) -> str:
    """Draw a bar for each day: trained, not reported and lost.

    The function writes SVG, as the operator's image has no matplotlib.
    """
    most = max((found.spent.dollars for found in days.values()), default=0.0) or 1.0
    step = _WIDTH / max(len(days), 1)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}">',
        f'<text x="0" y="10" font-size="10" fill="{GREY}">{escape(whole(Money.of(most)))} a day</text>',
        f'<line x1="0" y1="{_BASE}" x2="{_WIDTH}" y2="{_BASE}" stroke="{GREY}"/>',
    ]
    for number, (day, found) in enumerate(days.items()):
        left, top = number * step, float(_BASE)
        amounts = ((BLUE, found.of(JobTime.TRAINED)), (GREY, found.of(None)), (VERMILION, found.lost))
        for colour, amount in amounts:
            height = max(amount.dollars, 0.0) / most * (_BASE - 16)
            top -= height
            drawn.append(
                f'<rect x="{left + step * 0.1:.1f}" y="{top:.1f}" width="{step * 0.8:.1f}" height="{height:.1f}" '
                f'fill="{colour}"/>'
            )
        label = f"{moment(day).astimezone(ZoneInfo(time_zone)):%d}"
        drawn.append(
            f'<text x="{left + step / 2:.1f}" y="{_HEIGHT - 6}" font-size="10" text-anchor="middle">{label}</text>'
        )
    return "".join([*drawn, "</svg>"])


# Marks of sent notices are files in the record of costs, beside the pages, in ``_reports/<budget>/``.
#
# A notice is marked as tried before it is sent, and as sent afterwards. If a notice is marked only as tried, nobody
# knows whether it arrived. Such a notice is sent again, with a remark. So no notice is lost, and each duplicate has the
# remark.


class ReportFiles(Protocol):
    """Files about a budget in the record of costs. The methods raise RecordUnavailable."""

    def report_files(self, budget: str) -> frozenset[str]:
        """Return the names of the existing files."""

    def write_report(self, budget: str, name: str, content: bytes) -> None:
        """Write a file. An existing file of this name is kept or replaced."""


class NotDelivered(Exception):
    """The receiver did not accept a notice. The message is a sentence without secrets."""


class Channel(Protocol):
    """A receiver of notices."""

    async def send(self, notice: BudgetNotice, *, again: bool, place: str) -> None:
        """Send a notice. Raises NotDelivered. ``again``: it may have arrived before.

        ``place``: location of its page, or empty.
        """


_TRIED: Final = ".tried"
_SENT: Final = ".sent"


async def tell(notice: BudgetNotice, files: ReportFiles, channel: Channel | None, at: str) -> list[str]:
    """Write the notice's page, and send the notice unless it is marked as sent. Return sentences on what was done.

    ``at`` is the location of the record. Raises NotDelivered and RecordUnavailable.
    """
    said, place = [], ""
    known = files.report_files(notice.budget)
    if notice.page:
        written = page_of(notice.name, known)
        place = f"{at}/_reports/{notice.budget}/{written or notice.page_name}"
        if not written:
            files.write_report(notice.budget, notice.page_name, notice.page)
            said.append(f"wrote {place}")
    if channel is None or f"{notice.name}{_SENT}" in known:
        return said
    again = f"{notice.name}{_TRIED}" in known
    if not again:
        files.write_report(notice.budget, f"{notice.name}{_TRIED}", _mark(notice))
    await channel.send(notice, again=again, place=place)
    files.write_report(notice.budget, f"{notice.name}{_SENT}", _mark(notice))
    return [*said, f"sent {notice.id}: {notice.text}"]


def page_of(name: str, known: Iterable[str]) -> str:
    """Return the file of the page with this name, or an empty text if there is none."""
    pages = [file for file in known if file.endswith(".html") and file.rpartition("-")[0] == name]
    return min(pages, default="")


def _mark(notice: BudgetNotice) -> bytes:
    return f"{notice.text}\n".encode()


# The webhook.


FORMATS: Final = ("json", "slack", "teams")
_TRIES: Final = (0.0, 1.0, 4.0)
"""Seconds of pause before each attempt."""
_SECONDS: Final = 10.0
"""Time limit of one attempt in seconds."""
_TEAMS: Final = "application/vnd.microsoft.card.adaptive"


def body_of(notice: BudgetNotice, as_format: str, *, again: bool, place: str) -> JsonValue:
    """Return the body of the HTTP request in this format."""
    text = notice.text + (f" The page is {place}." if place else "")
    if again:
        text += " (Sent again: whether it arrived before is not known.)"
    if as_format == "slack":
        return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
    if as_format == "teams":
        block: JsonValue = {"type": "TextBlock", "text": text, "wrap": True}
        card: JsonValue = {
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": [block],
        }
        return {"type": "message", "attachments": [{"contentType": _TEAMS, "content": card}]}
    return {
        "id": notice.id,
        "again": again,
        "budget": notice.budget,
        "kind": notice.kind,
        "text": notice.text,
        "page": place or None,
        **notice.facts,
    }


class Webhook:
    """A URL that accepts JSON by POST. The URL is secret, so messages contain only its host."""

    def __init__(
        self, url: str, as_format: str, *, seconds: float = _SECONDS, tries: Sequence[float] | None = None
    ) -> None:
        """Raise ClickException if the URL is invalid."""
        try:
            parts = urlsplit(url)
            host, scheme = parts.hostname, parts.scheme
            _ = parts.port
        except ValueError:
            host, scheme = None, ""
        if not host or scheme not in ("http", "https") or any(character.isspace() for character in url):
            raise click.ClickException(
                "CHARTERER_WEBHOOK_URL is no address of a webhook: it begins with https:// and names a host; correct "
                "the Secret (its value is not shown, because it is secret)"
            )
        self._url, self._host, self._format = url, host, as_format
        self._seconds, self._tries = seconds, _TRIES if tries is None else tries

    async def send(self, notice: BudgetNotice, *, again: bool, place: str) -> None:
        """Send a notice as Channel.send describes. Any response but 2xx is a failure."""
        body = json.dumps(body_of(notice, self._format, again=again, place=place)).encode()
        trouble = ""
        for number, pause in enumerate(self._tries):
            await asyncio.sleep(pause)
            trouble = await self._post(body, notice.id)
            if not trouble:
                return
            if number == 0 and not again:
                body = json.dumps(body_of(notice, self._format, again=True, place=place)).encode()
        raise NotDelivered(f"{notice.id} was not delivered: the webhook at {self._host} {trouble}")

    async def _post(self, body: bytes, name: str) -> str:
        """Return why the request failed, or an empty text if it succeeded."""
        import aiohttp

        headers = {"Content-Type": "application/json", "Idempotency-Key": name}
        try:
            timeout = aiohttp.ClientTimeout(total=self._seconds)
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                return "" if 200 <= answer.status < 300 else f"answered {answer.status}"
        except TimeoutError:
            return f"did not answer within {self._seconds:g} seconds"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return f"cannot be reached ({type(error).__name__})"


# The command.


@click.command()
@record_option(required=True)
@click.option(
    "--threshold",
    "thresholds",
    type=click.IntRange(1, 1_000),
    multiple=True,
    default=(50, 80, 100),
    show_default="50, 80 and 100",
    help="Percent of the amount at which is told what is spent. Repeatable.",
)
@click.option("--weekly/--no-weekly", default=True, show_default=True, help="A page of each week.")
@click.option("--monthly/--no-monthly", default=True, show_default=True, help="A page of each month.")
@click.option(
    "--webhook-format", type=click.Choice(FORMATS), default="json", show_default=True, help="What the webhook takes."
)
@click.option(
    "--webhook-url",
    envvar="CHARTERER_WEBHOOK_URL",
    show_envvar=True,
    default="",
    help="Give it by the variable: it is a secret, and arguments can be seen. Without one, pages are only written.",
)
@cluster_options
def notify(
    record: str,
    thresholds: tuple[int, ...],
    weekly: bool,
    monthly: bool,
    webhook_format: str,
    webhook_url: str,
    cluster: ClusterOptions,
) -> None:
    """Send each notice about budgets once, and write pages for finance.

    A notice is sent when a budget has passed a threshold of its amount, or is forecast to spend more. After each week
    and month a page says who spent what, and what was lost. Pages are files of the record of costs, below _reports.
    Sent notices are marked there, so that each is sent once. Run it every few minutes, as the chart's CronJob does
    (reports.enabled).

    \b
      charterer notify --record s3://finance/charterer --no-weekly
      CHARTERER_WEBHOOK_URL=https://... charterer notify --record s3://finance/charterer --webhook-format slack

    It needs the rights of `charterer plan`, and those to list, read and create files of the record.
    """
    channel = Webhook(webhook_url, webhook_format) if webhook_url else None
    from charterer.controller.snapshot.offline import snapshot_of

    try:
        files = CostRecord(record)
    except RecordUnavailable as error:
        raise click.ClickException(str(error)) from error
    reading = read(cluster)
    snapshot = snapshot_of(reading.state, reading.now)
    told = Teller(files, channel, record.rstrip("/"))
    verdicts = plan(snapshot).budgets if snapshot.budgets and channel is not None else {}  # pages need no forecast
    for name, budget in sorted(snapshot.budgets.items()):
        verdict = verdicts.get(name)
        told.money(budget, snapshot, None if verdict is None else verdict.forecast, thresholds)
        for kind, period in due_periods(budget, snapshot.now, weekly=weekly, monthly=monthly):
            told.page(kind, budget, period, snapshot)
    if told.troubles:
        others = len(told.troubles) - 1
        raise click.ClickException(f"{told.troubles[0]}{f' ({others} more like it)' if others else ''}")


class Teller:
    """Sends the notices of each budget. A failure is appended to ``troubles``, and the other notices are still sent."""

    def __init__(self, files: CostRecord, channel: Channel | None, at: str) -> None:
        self._files, self._channel, self._at = files, channel, at
        self.troubles: list[str] = []

    def money(
        self, budget: Budget, snapshot: Snapshot, forecast: ForecastVerdict | None, thresholds: Sequence[int]
    ) -> None:
        """Send the notices about thresholds and forecast. Does nothing without a webhook."""
        if self._channel is None:
            return
        current = budget.in_period_of(snapshot.now)
        used = spent(current, snapshot.rentals.values(), snapshot.now)
        with self._explained():
            sent = {name.removesuffix(_SENT) for name in self._files.report_files(budget.id) if name.endswith(_SENT)}
            self._tell(money_notices(current, used, forecast, snapshot.now, thresholds, sent.__contains__))

    def page(self, kind: str, budget: Budget, period: PagePeriod, snapshot: Snapshot) -> None:
        """Write a page once and, with a webhook, send it once."""
        with self._explained():
            known = self._files.report_files(budget.id)
            sends = self._channel is not None and f"{period.name}{_SENT}" not in known
            if sends or not page_of(period.name, known):
                rows = list(period_rows(self._files, budget, period, snapshot))
                self._tell([page_notice(kind, budget, period, rows)])

    def _tell(self, notices: Iterable[BudgetNotice]) -> None:
        for notice in notices:
            for sentence in asyncio.run(tell(notice, self._files, self._channel, self._at)):
                click.echo(visible(sentence))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except RecordUnavailable as error:
            self.troubles.append(str(error))
        except NotDelivered as error:
            self.troubles.append(str(error))
            self._channel = None  # send no other notices this time; the next run, a few minutes later, sends them
