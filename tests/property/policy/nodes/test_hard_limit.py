"""Limits hold in a world that is as dear and as slow as it may be: of a budget, of an hour, of a job."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.controller.surveys import Reading, TrustedClock
from charterer.domain.billing import accrued
from charterer.domain.ids import JobId, RentalId
from charterer.domain.job_records import job_cost
from charterer.domain.money import Money, Price, total
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import PriceSegment
from charterer.domain.profile import Amdahl
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.time import Calendar, Grant, Instant, Period, after, seconds_between
from charterer.policy import plan
from charterer.policy.nodes.limits import MARGIN_SECONDS
from tests import lanes
from tests.worlds import World

LATEST_PLAN_SECONDS = 45.0
"""The longest time between two plans; the loop looks every 15 s."""
STRANGERS_KEEP_SECONDS = 4200.0
"""How long pods of others may keep a released machine (an hour, and then ten minutes to leave)."""


class Slow:
    """A cloud that launches late, starts slowly, raises prices to the worst, and ends as late as it is allowed to.

    Pods that Charterer did not start stay on the machines that are ``taken`` as long as they may.
    """

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.draw = random.Random(seed)
        self.asked_to_end: dict[RentalId, Instant] = {}
        self.asked_to_stop: dict[JobId, Instant] = {}
        self.wrong_by = 0.0
        self.taken: set[RentalId] = set()

    def turn(self) -> None:
        """One plan, carried out, and what happens until the next."""
        decided = plan(replace(self.world.snapshot(), now=self._clock()))
        self.world.carry_out(decided)
        for command in decided.commands:
            if command.reason.code == "HardLimit" and hasattr(command, "rental"):
                self.asked_to_end[command.rental] = self.world.now
        self.world.passes(self.draw.uniform(1.0, LATEST_PLAN_SECONDS))
        self.goes_on()

    def _clock(self) -> Instant:
        """The operator's time; its own clock is wrong, the cloud's and the API server's are right."""
        true = self.world.now
        own = after(true, self.wrong_by)
        return TrustedClock(lambda: own, lambda: 0.0, lambda: [Reading(true, 0.0), Reading(true, 0.0)]).now()

    def goes_on(self) -> None:
        for rental in list(self.world.rentals.values()):
            if rental.phase is RentalPhase.REQUESTED and self.draw.random() < 0.4:
                self.world.launches(rental.id, price=self._price(rental.worst))
            elif rental.phase is RentalPhase.STARTING and self.draw.random() < 0.2:
                self.world.becomes_ready(rental.id)
            elif rental.phase is RentalPhase.DRAINING:
                self._drains(rental.id)
            launched = self.world.rentals[rental.id]
            if launched.launched is not None and launched.ended is None and self.draw.random() < 0.1:
                segments = (*launched.segments, PriceSegment(self.world.now, launched.worst))
                self.world.rentals[rental.id] = replace(launched, segments=segments)
        for job in list(self.world.jobs.values()):
            if job.allocation is not None and job.current_run is None:
                self.world.starts(job.id)
            elif job.allocation is None and job.replaced:
                since = self.asked_to_stop.setdefault(job.id, self.world.now)
                if seconds_between(since, self.world.now) >= job.grace_seconds:
                    self.world.stops(job.id)
                    del self.asked_to_stop[job.id]

    def is_taken(self, rental: Rental) -> None:
        """Pods of others hold all GPUs of this ready rental."""
        assert rental.node is not None
        node = self.world.nodes[rental.node]
        self.world.nodes[node.name] = replace(node, foreign_gpus=node.gpus)
        self.taken.add(rental.id)

    def _price(self, worst: Price) -> Price:
        return Price(int(worst.micros_per_hour * self.draw.uniform(0.3, 1.0)))

    def _drains(self, name: RentalId) -> None:
        """An orderly end takes the grace of the jobs on the node, and the rest of the margin for the cloud."""
        rental = self.world.rentals[name]
        if rental.instance is None:
            if self.draw.random() < 0.5:
                self.world.launches(name, price=rental.worst)  # it came although nobody wants it any more
            else:
                self.world.ends(name)
            return
        since = self.asked_to_end.setdefault(name, self.world.now)
        users = [
            job for job in self.world.jobs.values() if any(pod.node == rental.node for r in job.runs for pod in r.pods)
        ]
        grace = max((job.grace_seconds for job in users), default=0)
        waited = seconds_between(since, self.world.now)
        if name in self.taken and rental.released_because != ReasonCode.HARD_LIMIT:
            waited -= STRANGERS_KEEP_SECONDS
        if waited >= grace:
            for job in users:
                self.world.stops(job.id)
        if waited >= grace + MARGIN_SECONDS - 2 * LATEST_PLAN_SECONDS:
            self.world.ends(name)


@settings(max_examples=lanes.examples(14))
@given(
    seed=st.integers(0, 10**6),
    limit=st.sampled_from(["5", "40", "150", "600"]),
    jobs=st.integers(1, 6),
    minimum=st.sampled_from([0, 600, 3600]),
    grace=st.sampled_from([0, 60, 900]),
)
def test_spend_never_exceeds_the_hard_limit(seed: int, limit: str, jobs: int, minimum: int, grace: int) -> None:
    world = World()
    world.budget(amount="90000", hard_limit=limit)
    world.pool("a100", price="20", worst="50", billing_minimum=minimum, start_seconds=200)
    world.profile("sft", Amdahl(0.98, 1.0), work_hours=30)
    slow = Slow(world, seed)
    for number in range(jobs):
        gpus: int | tuple[int, int, int] = (1, 8, 64) if slow.draw.random() < 0.5 else 4
        world.job(f"j{number}", gpus=gpus, profile="sft", grace_seconds=slow.draw.choice([0, grace]))
    hard_limit = Money.parse(limit)
    for _ in range(400):
        slow.turn()
        assert total(accrued(rental, world.now) for rental in world.rentals.values()) <= hard_limit


@settings(max_examples=lanes.examples(8))
@given(seed=st.integers(0, 10**6), limit=st.sampled_from(["40", "60", "100"]), grace=st.sampled_from([0, 900]))
def test_pods_of_others_that_keep_released_machines_do_not_break_the_hard_limit(
    seed: int, limit: str, grace: int
) -> None:
    world = World()
    world.budget(amount="90000", hard_limit=limit)
    world.pool("a100", price="20", start_seconds=200)
    world.job("train", gpus=8, grace_seconds=grace)
    slow = Slow(world, seed)
    world.rental(age=0.0)
    for _ in range(4):
        slow.is_taken(world.rental(age=0.0))
    for _ in range(200):
        slow.turn()
        assert total(accrued(rental, world.now) for rental in world.rentals.values()) <= Money.parse(limit)


@settings(max_examples=lanes.examples(16))
@given(
    seed=st.integers(0, 10**6),
    limit=st.sampled_from(["5", "40", "150"]),
    wrong=st.lists(st.sampled_from([0.0, -25.0, 25.0, -86_400.0, 86_400.0, 40 * 86_400.0]), min_size=1, max_size=5),
)
def test_a_clock_that_jumps_does_not_lift_the_hard_limit(seed: int, limit: str, wrong: list[float]) -> None:
    world = World()
    world.budget(amount="90000", hard_limit=limit)
    world.pool("a100", price="20", worst="50", start_seconds=200)
    slow = Slow(world, seed)
    for number in range(3):
        world.job(f"j{number}", gpus=8)
    for turn in range(250):
        slow.wrong_by = wrong[turn // 7 % len(wrong)]
        slow.turn()
        assert total(accrued(rental, world.now) for rental in world.rentals.values()) <= Money.parse(limit)


@settings(max_examples=lanes.examples(14))
@given(
    seed=st.integers(0, 10**6),
    hours=st.sampled_from([0.2, 1.0, 2.5]),
    minimum=st.sampled_from([0, 600]),
    graces=st.lists(st.sampled_from([0, 60, 900]), min_size=1, max_size=4),
    zone=st.sampled_from(["UTC", "America/New_York"]),
)
def test_nothing_is_spent_when_a_grant_is_over(
    seed: int, hours: float, minimum: int, graces: list[int], zone: str
) -> None:
    grant = Grant(date(2026, 6, 1), date(2026, 6, 15))
    calendar = Calendar(zone, Period.GRANT, grant)
    bounds = calendar.grant_bounds
    assert bounds is not None
    world = World(now=after(bounds[1], -hours * 3_600.0))
    world.budget(amount="90000", calendar=calendar)
    world.pool("a100", price="20", worst="50", billing_minimum=minimum, start_seconds=200)
    slow = Slow(world, seed)
    for number, grace in enumerate(graces):
        world.job(f"j{number}", gpus=8, grace_seconds=grace)
    for turn in range(round((hours + 1.0) * 3_600.0 / 23.0)):
        slow.turn()
        late = [rental for rental in world.rentals.values() if accrued(rental, world.now) > accrued(rental, bounds[1])]
        assert not late or world.now < bounds[1], turn
    assert world.now > bounds[1]
    assert hours < 1.0 or any(rental.launched for rental in world.rentals.values()), "a grant is used"


def test_a_limit_that_leaves_room_is_used() -> None:
    world = World()
    world.budget(amount="90000", hard_limit="40")
    world.pool("a100", price="20", start_seconds=200)
    world.job("train", gpus=8)
    slow = Slow(world, 1)
    for _ in range(600):
        world.carry_out(plan(world.snapshot()))
        world.passes(20.0)
        slow.goes_on()
    spent = total(accrued(rental, world.now) for rental in world.rentals.values())
    assert Money.parse("36") < spent <= Money.parse("40")


TARGETS = st.sampled_from([None, 0.05, 0.5, 2.0, 8.0])


@settings(max_examples=lanes.examples(6))
@given(
    seed=st.integers(0, 10**6),
    hard=st.sampled_from([("40", "150"), ("150", "150"), ("600", "40")]),
    hourly=st.sampled_from([("120", "400"), ("400", "120")]),
    nodes=st.sampled_from([2, 5, 50]),
    targets=st.lists(TARGETS, min_size=1, max_size=8),
)
def test_no_target_and_no_other_budget_makes_a_budget_break_its_limits(
    seed: int, hard: tuple[str, str], hourly: tuple[str, str], nodes: int, targets: list[float | None]
) -> None:
    """Two budgets contest one pool, whose nodes may become dearer than they were rented for."""
    world = World()
    limits = {"research": (hard[0], hourly[0]), "prod": (hard[1], hourly[1])}
    for name, (limit, rate) in limits.items():
        world.budget(name, amount="90000", hard_limit=limit, max_hourly=rate)
    world.pool("a100", price="20", worst="50", start_seconds=200, max_nodes=nodes)
    world.profile("sft", Amdahl(0.98, 1.0), work_hours=30)
    slow = Slow(world, seed)
    for number, hours in enumerate(targets):
        payer = slow.draw.choice(sorted(limits))
        world.job(f"j{number}", gpus=(1, 8, 64), profile="sft", budget=payer, grace_seconds=60, target_hours=hours)
    for _ in range(120):
        slow.turn()
        for name, (limit, rate) in limits.items():
            mine = [rental for rental in world.rentals.values() if rental.budget == name]
            assert total(accrued(rental, world.now) for rental in mine) <= Money.parse(limit)
            worst = sum(rental.worst.micros_per_hour for rental in mine if rental.phase is not RentalPhase.ENDED)
            assert worst <= Price.parse(rate).micros_per_hour


@settings(max_examples=lanes.examples(8))
@given(
    seed=st.integers(0, 10**6),
    most=st.lists(st.sampled_from(["2", "9", "40"]), min_size=1, max_size=4),
    grace=st.sampled_from([0, 60, 900]),
    known=st.booleans(),
)
def test_no_job_costs_more_than_its_max_cost(seed: int, most: list[str], grace: int, known: bool) -> None:
    """Its own estimate of what is left is wrong all the time: it never ends."""
    world = World()
    world.budget(amount="90000")
    world.pool("a100", price="20", start_seconds=200)
    world.profile("sft", Amdahl(0.98, 1.0), work_hours=0.5)
    slow = Slow(world, seed)
    for number, dollars in enumerate(most):
        profile = "sft" if known else None
        world.job(f"j{number}", gpus=(1, 8, 32), profile=profile, grace_seconds=grace, max_cost=dollars)
    for _ in range(150):
        slow.turn()
        for job in world.jobs.values():
            assert job.max_cost is not None
            assert job_cost(job, world.rentals, world.now) <= job.max_cost
