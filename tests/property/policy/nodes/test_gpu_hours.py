"""GPU-hours in random worlds: what is told is what runs held, and no amount is ever passed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.budget import GPU_HOUR, Budget
from charterer.domain.ids import BudgetId, RentalId
from charterer.domain.job_records import spans
from charterer.domain.profile import Amdahl
from charterer.domain.rental import Rental
from charterer.domain.steps import KeepBooks, OpenPeriod
from charterer.ledger.balance import apply_entries, apply_open_period
from charterer.lifecycle.next_steps import budget_step
from charterer.lifecycle.view import LifecycleView, uses_now
from charterer.policy import plan
from tests import lanes
from tests.property.policy.nodes.test_hard_limit import Slow
from tests.worlds import World

H100 = "H100"


class Recorded(Slow):
    """The same slow world, whose ledger is kept as the operator keeps it, and may fail or be repeated at any moment."""

    def goes_on(self) -> None:
        super().goes_on()
        if self.draw.random() < 0.6:  # an operator that was killed writes nothing
            self.lists_uses(0.8)
        if self.draw.random() < 0.6:
            self._keeps_books()

    def lists_uses(self, part: float) -> None:
        snapshot = self.world.snapshot()
        view = LifecycleView.of(snapshot)
        for name, rental in snapshot.rentals.items():
            if self.draw.random() < part:
                self.world.rentals[name] = uses_now(rental, view.uses.get(name, ()), snapshot)

    def _keeps_books(self) -> None:
        view = LifecycleView.of(self.world.snapshot())
        for name in view.snapshot.budgets:
            step, budget = budget_step(name, view), self.world.budgets[name]
            for _ in range(self.draw.choice([1, 1, 2])):  # an answer that was lost is written again
                if isinstance(step, KeepBooks) and budget.balance is not None:
                    budget = replace(budget, balance=apply_entries(budget.balance, step.entries))
                elif isinstance(step, OpenPeriod):
                    budget = replace(budget, balance=apply_open_period(budget.balance, step))
            self.world.budgets[name] = budget


def really_held(world: World, budget: Budget, rentals: dict[RentalId, Rental], gpu_type: str) -> int:
    """GPU-microseconds that runs held in the period, by the jobs' own records and the machines' ends."""
    start, end = budget.in_period_of(world.now).period
    held = 0
    for job in world.jobs.values():
        for run, since, until in spans(job, world.now):
            for place in run.placements:
                rental = rentals[place.rental]
                pool = world.pools[rental.pool]
                if rental.budget == budget.id and pool.offering is not None and pool.offering.gpu_type == gpu_type:
                    last = min(until, end, world.now if rental.ended is None else rental.ended)
                    held += place.takes * max(last - max(since, start), 0)
    return held


@settings(max_examples=lanes.examples(14))
@given(
    seed=st.integers(0, 10**6),
    hours=st.sampled_from([2.0, 5.0, 9.0]),
    jobs=st.integers(1, 3),
    grace=st.sampled_from([0, 60, 900]),
    own=st.booleans(),
)
def test_no_amount_is_passed_and_what_is_told_is_never_less_than_what_was_held(
    seed: int, hours: float, jobs: int, grace: int, own: bool
) -> None:
    world = World()
    world.budget(amount="90000", gpu_hours={H100: hours})
    world.pool("h100", price="0" if own else "20", gpu_type=H100, max_nodes=3, own=own, start_seconds=200)
    world.pool("a100", price="30", gpu_type="a100", max_nodes=1, start_seconds=200)
    world.profile("sft", Amdahl(0.98, 1.0), gpu_type=H100, work_hours=30)
    slow = Recorded(world, seed)
    for number in range(jobs):
        gpus: int | tuple[int, int, int] = (1, 8, 24) if slow.draw.random() < 0.5 else 4
        world.job(f"j{number}", gpus=gpus, profile="sft", grace_seconds=slow.draw.choice([0, grace]))
    seen: dict[RentalId, Rental] = {}
    name, most = BudgetId("research"), round(hours * GPU_HOUR)
    for turn in range(100):
        slow.turn()
        seen |= world.rentals
        held = really_held(world, world.budgets[name], seen, H100)
        assert held <= most
        if turn % 10 == 0:
            told = plan(world.snapshot()).budgets[name].gpu_hours[0]
            assert held <= told.used <= told.committed
    slow.lists_uses(1.0)
    told = plan(world.snapshot()).budgets[name].gpu_hours[0]
    if own:  # of rented nodes a run may be counted until its machine's end, because its own was not known then
        assert told.used == held
