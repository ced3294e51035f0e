"""The rows of the record of costs are the ledger: by rental, by month, whatever happens and whenever it is recorded."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import example, given
from hypothesis import strategies as st

from charterer.domain.billing import accrued, accrued_in, cost
from charterer.domain.budget import Balance, Cause, JobTime
from charterer.domain.cost_row import WHOLE, CostRow, Parts, Payer, Spell, Use
from charterer.domain.money import ZERO, Money, Price, total
from charterer.domain.pool import PriceSegment
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.steps import Fold, OpenPeriod
from charterer.domain.time import Calendar, Grant, Instant, Period, day_bounds, instant, moment, month_bounds
from charterer.ledger.balance import apply_fold, apply_open_period
from charterer.ledger.cost_rows import next_part, rows
from charterer.tools.commands.shared.lost import Losses
from tests.factory import TEAM, budget, pool, rental

MINUTE = 60_000_000
HOUR, DAY = 60 * MINUTE, 1_440 * MINUTE
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Beirut", "Pacific/Apia")
BEGINNINGS = {
    "UTC": datetime(2026, 1, 28, 3, tzinfo=ZoneInfo("UTC")),
    "Europe/Berlin": datetime(2026, 3, 27, 12, tzinfo=ZoneInfo("UTC")),
    "America/New_York": datetime(2025, 10, 29, 20, tzinfo=ZoneInfo("UTC")),
    "America/Sao_Paulo": datetime(2018, 10, 30, tzinfo=ZoneInfo("UTC")),  # midnight does not exist on November 4
    "Asia/Beirut": datetime(2026, 3, 28, tzinfo=ZoneInfo("UTC")),  # nor here, on March 29
    "Pacific/Apia": datetime(2011, 12, 27, tzinfo=ZoneInfo("UTC")),  # nor does December 30 at all
}


@st.composite
def parts(draw: st.DrawFn) -> Parts:
    """What GPUs do: nothing that is known, or up to three things."""
    kinds = draw(st.lists(st.sampled_from(JobTime), unique=True, max_size=3))
    left, found = WHOLE, []
    for kind in kinds:
        part = draw(st.integers(1, max(left - len(kinds), 1)))
        left -= part
        found.append((kind, part))
    return tuple(found)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Rental, str]:
    """A rental of some days with spot prices, a billing minimum and jobs, and the time zone of its budget."""
    zone = draw(st.sampled_from(ZONES))
    launched = Instant(instant(BEGINNINGS[zone]) + draw(st.integers(0, 2 * DAY)))
    lasts = draw(st.integers(1, 6 * DAY))
    offsets = sorted(draw(st.sets(st.integers(2 * HOUR, 6 * DAY), max_size=3)))
    since = [launched, *(Instant(launched + offset) for offset in offsets)]
    prices = draw(st.lists(st.integers(0, 99_999_999), min_size=4, max_size=4))
    segments = tuple(PriceSegment(at, Price(price)) for at, price in zip(since, prices, strict=False))
    uses = []
    for number in range(draw(st.integers(0, 4))):
        begins = Instant(launched + draw(st.integers(0, 6 * DAY)))
        lasted = draw(st.none() | st.integers(1, 3 * DAY))
        ends = None if lasted is None else Instant(begins + lasted)
        payer = Payer("a", f"job{number % 2}", f"uid{number % 2}", number, "a/sft", "ann", {"team": "x"})
        offsets = sorted(draw(st.sets(st.integers(0, 3 * DAY), max_size=4)))
        spells = tuple(Spell(Instant(begins + offset), draw(parts())) for offset in offsets)
        uses.append(Use(payer, draw(st.integers(1, 4)), begins, ends, spells))
    minimum = draw(st.sampled_from([0, 60, 3_600]))
    ended = Instant(launched + lasts)
    rented = rental(
        phase=RentalPhase.ENDED,
        created=launched,
        launched=launched,
        ready=Instant(launched + draw(st.integers(0, DAY))),
        ended=ended,
        cost=cost(segments, minimum, launched, ended),
        segments=segments,
        billing_minimum_seconds=minimum,
        uses=tuple(sorted(uses, key=lambda use: use.since)),
        resource_version="7",
    )
    return rented, zone


def recorded(rented: Rental, zone: str) -> tuple[Rental, list[CostRow]]:
    """The next part put on record; no rows where there is none."""
    part = next_part(rented, zone)
    if part is None:
        return rented, []
    made = rows(part, rented, budget(calendar=Calendar(zone)), pool(), 4, in_vain=False)
    assert total(row.cost for row in made) == part.after.cost - (
        ZERO if rented.recorded is None else rented.recorded.cost
    )
    return replace(rented, recorded=part.after), made


def _month(row: CostRow, zone: str) -> Instant:
    return month_bounds(zone, row.start)[0]


@given(histories())
def test_rows_add_up_to_the_rentals_cost_and_each_lies_in_one_day(history: tuple[Rental, str]) -> None:
    rented, zone = history
    found: list[CostRow] = []
    parts = 0
    while next_part(rented, zone) is not None:
        rented, made = recorded(rented, zone)
        assert {row.part for row in made} <= {parts}
        found, parts = [*found, *made], parts + 1
    assert total(row.cost for row in found) == rented.cost
    for row in found:
        first, following = day_bounds(zone, row.start)
        assert first <= row.start <= row.end <= following
        assert (row.payer is not None) == (row.cause is Cause.JOB)
        assert row.cost >= ZERO or row.correction
        assert all(part > ZERO for part in row.went_to.values())
        assert total(row.went_to.values()) <= max(row.cost, ZERO), "no micro-dollar is in two causes"
        assert row.cause is Cause.JOB or not row.went_to
        assert month_bounds(zone, first)[0] == _month(row, zone), "a day lies in one month"


@given(histories())
def test_useful_lost_and_not_known_add_up_to_what_the_rental_cost(history: tuple[Rental, str]) -> None:
    rented, zone = history
    losses = Losses()
    while next_part(rented, zone) is not None:
        rented, made = recorded(rented, zone)
        for row in made:
            losses.add_row(row)
    assert losses.of(JobTime.TRAINED) + losses.lost + losses.of(None) == losses.spent == rented.cost
    assert losses.lost == total(amount for _, amount in losses.causes)


@st.composite
def calendars(draw: st.DrawFn, zone: str) -> Calendar:
    """Of any period; a grant begins and ends while rentals of ``zone`` live, or about then."""
    period = draw(st.sampled_from(Period))
    first = BEGINNINGS[zone].date() + timedelta(days=draw(st.integers(-3, 9)))
    grant = Grant(first, first + timedelta(days=draw(st.integers(0, 4))))
    return Calendar(zone, period, grant if period is Period.GRANT else None)


@given(histories(), st.data())
def test_the_rows_of_each_period_are_the_budgets_history_of_that_period(
    history: tuple[Rental, str], data: st.DataObject
) -> None:
    rented, zone = history
    calendar = data.draw(calendars(zone))
    assert rented.launched is not None
    assert rented.ended is not None
    assert rented.cost is not None
    start = calendar.bounds(rented.launched)[0]
    books = Balance(start, ZERO, ZERO, frozenset(), ())
    while (end := calendar.end(books.period_start)) < rented.ended:
        spent = accrued_in(rented, books.period_start, end)
        books = apply_open_period(books, OpenPeriod(TEAM, end, spent, books.period_start))
    in_period = accrued_in(rented, books.period_start, rented.ended)
    books = apply_fold(books, Fold(rented.id, rented.uid, TEAM, in_period, rented.cost, books.period_start))
    periods: dict[Instant, Money] = defaultdict(lambda: ZERO)
    while next_part(rented, zone) is not None:
        rented, made = recorded(rented, zone)
        for row in made:
            periods[calendar.bounds(row.start)[0]] += row.cost
    history_of = {past.start: past.spent for past in books.history} | {books.period_start: books.settled}
    paid = {start: amount for start, amount in periods.items() if amount != ZERO}
    assert paid == {start: amount for start, amount in history_of.items() if amount != ZERO}
    assert total(periods.values()) == total(history_of.values()) == books.lifetime


@given(histories(), st.integers(0, 6), st.integers(0, 3 * DAY), st.integers(0, 10_000_000))
def test_what_the_cloud_says_too_late_is_made_up_for(
    history: tuple[Rental, str], days: int, too_long: int, other_price: int
) -> None:
    """Days were recorded of a machine that had ended, or at a price that was another."""
    truth, zone = history
    assert truth.ended is not None
    wrong = replace(truth.segments[0], price=Price(other_price))
    believed = replace(
        truth,
        phase=RentalPhase.READY,
        ended=None,
        cost=None,
        segments=(wrong, *truth.segments[1:]),
        released_because="",
    )
    found: list[CostRow] = []
    for _ in range(days):
        part = next_part(believed, zone)
        if part is None or part.end > truth.ended + too_long:
            break
        believed, made = recorded(believed, zone)
        found += made
    known = replace(truth, recorded=believed.recorded)
    while next_part(known, zone) is not None:
        known, made = recorded(known, zone)
        found += made
    assert total(row.cost for row in found) == truth.cost
    assert known.recorded is None or known.recorded.cost == truth.cost


@given(st.sampled_from(ZONES), st.integers(0, 400 * DAY))
@example("Asia/Beirut", 0)
def test_days_follow_each_other_without_a_gap(zone: str, offset: int) -> None:
    at = Instant(instant(BEGINNINGS[zone]) + offset)
    first, following = day_bounds(zone, at)
    assert first <= at < following
    assert day_bounds(zone, following)[0] == following
    assert day_bounds(zone, Instant(following - 1)) == (first, following)
    assert moment(first).astimezone(ZoneInfo(zone)).date() <= moment(at).astimezone(ZoneInfo(zone)).date()


def gone(segments: tuple[PriceSegment, ...], launched: Instant, ended: Instant, minimum: int = 0) -> Rental:
    """A rental that has ended, at the cost that its prices and its billing minimum (seconds) come to."""
    return rental(
        phase=RentalPhase.ENDED,
        created=launched,
        launched=launched,
        ended=ended,
        segments=segments,
        billing_minimum_seconds=minimum,
        cost=cost(segments, minimum, launched, ended),
    )


def test_a_price_that_falls_within_a_billing_minimum_at_midnight_is_made_up_for() -> None:
    launched = instant(datetime(2026, 5, 1, 23, 50, tzinfo=ZoneInfo("UTC")))
    segments = (PriceSegment(launched, Price(3_600)), PriceSegment(Instant(launched + 11 * MINUTE), Price(0)))
    ended = Instant(launched + HOUR)
    rented = gone(segments, launched, ended, minimum=3_600)
    known, first = recorded(rented, "UTC")
    _, second = recorded(known, "UTC")
    assert [row.cost.micros for row in first] == [3_600]
    assert [(row.cost.micros, row.correction) for row in second if row.cost != ZERO] == [(-2_940, True)]


def test_a_rental_that_is_not_launched_has_no_part() -> None:
    assert next_part(rental(), "UTC") is None
    closed = rental(phase=RentalPhase.ENDED, cost=ZERO)
    assert next_part(closed, "UTC") is None


def test_a_machine_of_which_nothing_was_read_was_starting_on_the_day_on_which_it_was_gone() -> None:
    created = instant(datetime(2026, 5, 1, 23, 59, tzinfo=ZoneInfo("UTC")))
    vanished = rental(phase=RentalPhase.ENDED, created=created, ended=Instant(created + HOUR), cost=Money(17))
    known, made = recorded(vanished, "UTC")
    assert [(row.cause, row.cost, row.end - row.start) for row in made] == [(Cause.STARTING, Money(17), 59 * MINUTE)]
    assert next_part(known, "UTC") is None
    assert accrued(known, vanished.ended or created) == Money(17)


def test_what_is_not_known_of_a_jobs_time_is_in_no_cause() -> None:
    launched = instant(datetime(2026, 5, 1, 10, tzinfo=ZoneInfo("UTC")))
    half, ended = Instant(launched + HOUR // 2), Instant(launched + HOUR)
    spells = (Spell(half, ((JobTime.TRAINED, 500), (JobTime.STARVED, 250))),)
    use = Use(Payer("a", "job", "uid", 1, "a/sft", "", {}), 4, launched, ended, spells)
    segments = (PriceSegment(launched, Price.parse("8")),)
    rented = replace(gone(segments, launched, ended), ready=launched, uses=(use,))
    assert rented.cost == Money.parse("8")
    _, (row,) = recorded(rented, "UTC")
    assert row.went_to == {JobTime.TRAINED: Money.parse("2"), JobTime.STARVED: Money.parse("1")}


def test_a_correction_beside_a_jobs_row_went_to_nothing_of_the_jobs() -> None:
    launched = instant(datetime(2026, 5, 1, 23, 50, tzinfo=ZoneInfo("UTC")))
    ended = Instant(launched + HOUR)
    segments = (PriceSegment(launched, Price(3_600)), PriceSegment(Instant(launched + 11 * MINUTE), Price(1)))
    spells = (Spell(launched, ((JobTime.TRAINED, WHOLE),)),)
    use = Use(Payer("a", "job", "uid", 1, "", "", {}), 4, launched, ended, spells)
    known, _ = recorded(replace(gone(segments, launched, ended), ready=launched, uses=(use,)), "UTC")
    assert known.recorded is not None
    wrong = replace(known, recorded=replace(known.recorded, cost=known.recorded.cost + Money(7)))
    _, made = recorded(wrong, "UTC")
    assert [(row.correction, row.went_to) for row in made if row.correction] == [(True, {})]
