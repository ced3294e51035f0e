"""The state that a simulation updates event by event equals the state derived anew from the world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from charterer.domain.ids import Rate
from charterer.domain.job import Job, SpotPolicy, Widths
from charterer.domain.money import Money, Price
from charterer.domain.plan import Plan
from charterer.domain.pool import CapacityType
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.world import Policy, World
from charterer.tools.simulator.history.history import placeable_width
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.ground_truth import Application, WidthRates
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policies.baselines import FixedFleet, QueueOrder, RequestedWidth, UtilisationAutoscaler
from charterer.tools.simulator.simulation import Planner, PlannerPolicy, Simulation, SnapshotView
from tests import lanes
from tests.unit.simulate.scenarios import START
from tests.unit.simulate.snapshot_baselines import AsAskedPlanner, FixedFleetPlanner, UtilisationPlanner

WIDTHS = (1, 2, 3, 4, 8, 12, 16)
SECONDS = {"even": 500.0, "late": 1500.0}
APPLICATIONS = {
    "even": Application("even", (1.0,), {"gpu": ({k: k**0.9 / 500.0 for k in WIDTHS},)}),
    "late": Application(
        "late", (0.4, 1.0), {"gpu": ({k: 1 / 1500.0 for k in WIDTHS}, {k: k**0.8 / 1500.0 for k in WIDTHS})}
    ),
}
UNTIL = 200_000.0


def some_scenario(draw: Random, *, spot: bool, stock: bool = False) -> Scenario:
    """A dozen jobs that come at once or scattered, on nodes that start at once or after a while.

    ``stock``: limited, and the price changes.
    """
    gap = draw.choice([0.0, 20.0, 400.0])
    at, submissions = 0.0, []
    for number in range(draw.randint(1, 12)):
        at += draw.choice([0.0, gap, draw.uniform(0.0, 2 * gap)])
        name = draw.choice(list(APPLICATIONS))
        submissions.append(Submission(f"j{number}", at, name, draw.choice([1, 1, 2, 3, 4, 6, 8])))
    starts, ends = Random(draw.random()), Random(draw.random())
    pool = PoolModel(
        "p",
        4,
        Price.parse("4"),
        start_seconds=draw.choice([0.0, 60.0]),
        billing_minimum_seconds=draw.choice([0, 600]),
        stock=draw.choice([2, 5]) if stock else None,
        later_prices=((draw.uniform(0.0, 2000.0), Price.parse("9")),) if stock else (),
        later_stock=((draw.uniform(0.0, 2000.0), draw.choice([1, 9])),) if stock else (),
        draw_start_seconds=draw.choice([None, lambda: starts.expovariate(1 / 60.0)]),
        capacity_type=CapacityType.SPOT if spot else CapacityType.ON_DEMAND,
        draw_lifetime=(lambda _: ends.expovariate(1 / 3000.0)) if spot else None,
    )
    return Scenario(
        START,
        tuple(submissions),
        APPLICATIONS,
        (pool,),
        new_budget(START, Money.parse(draw.choice(["100", "100000"])), draw.choice([None, Rate(0.01)])),
        lambda _: JobTerms(Widths(1, 1, WIDTHS[-1]), spot=SpotPolicy.ALLOWED),
        draw.choice([0.0, 30.0]),
        until=UNTIL,
    )


class CheckedPlanner(PlannerPolicy):
    """The operator's planner, which compares each snapshot with that of a new view."""

    def __init__(self) -> None:
        memo = Memo()
        self.plans = 0
        self.last: Snapshot | None = None

        def checked(snapshot: Snapshot) -> Plan:
            assert snapshot == SnapshotView(self.world).snapshot()
            if self.last is not None:
                for job_id, job in snapshot.jobs.items():
                    assert self.last.jobs.get(job_id) != job or self.last.jobs[job_id] is job
                for name, rental in snapshot.rentals.items():
                    assert self.last.rentals.get(name) != rental or self.last.rentals[name] is rental
                for node_name, node in snapshot.nodes.items():
                    assert self.last.nodes.get(node_name) != node or self.last.nodes[node_name] is node
            self.last = snapshot
            self.plans += 1
            return plan(snapshot, memo)

        super().__init__(checked)

    def begin_simulation(self, world: World) -> None:
        super().begin_simulation(world)
        self.world = world


@settings(max_examples=lanes.examples(40))
@given(st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_a_snapshot_is_what_is_seen_at_first_sight_and_what_did_not_change_is_the_same_object(
    draw: Random, spot: bool, stock: bool
) -> None:
    profiles = exact_profiles({class_of(name): application for name, application in APPLICATIONS.items()}, 30.0)
    policy = CheckedPlanner()
    Simulation(some_scenario(draw, spot=spot, stock=stock), policy, ExactKnowledge(profiles)).run()
    assert policy.plans


# --- baselines follow what happens as if they looked at everything ----------------------------------------------------


@dataclass
class Advanced(Policy):
    """Advances every job before the policy decides, as a planner's snapshot does.

    Progress is then added up in the same steps, and equal to the last digit.
    """

    policy: Policy

    def begin_simulation(self, world: World) -> None:
        self.world = world
        self.policy.begin_simulation(world)
        # What happens is told to the policy itself: each of these methods is replaced by its own.
        self.job_arrived = self.policy.job_arrived  # type: ignore[method-assign]
        self.job_completed = self.policy.job_completed  # type: ignore[method-assign]
        self.job_interrupted = self.policy.job_interrupted  # type: ignore[method-assign]
        self.machine_ready = self.policy.machine_ready  # type: ignore[method-assign]
        self.machine_lost = self.policy.machine_lost  # type: ignore[method-assign]

    def decide(self) -> Instant | None:
        for job in self.world.jobs.values():
            job.advance(self.world.clock.now)
        return self.policy.decide()


def seconds(submission: Submission, gpu_type: str, gpus: int) -> float:
    return SECONDS[submission.application] / gpus


def pairs(asked: dict[str, int]) -> dict[str, tuple[Callable[[], Policy], Callable[[], Planner]]]:
    def gpus(submission: Submission) -> int:
        return submission.gpus

    def of(job: Job) -> int:
        return asked[job.name]

    jobs = len(asked)

    def first(job: Job) -> float:
        return SECONDS[job.class_id.name] / placeable_width(of(job), 4)

    return {
        "as asked": (lambda: RequestedWidth(gpus, 300.0), lambda: AsAskedPlanner(of, 300.0)),
        "fifo": (lambda: FixedFleet(3, gpus), lambda: FixedFleetPlanner(3, of, jobs)),
        "shortest": (
            lambda: FixedFleet(3, gpus, QueueOrder.SHORTEST, seconds),
            lambda: FixedFleetPlanner(3, of, jobs, first),
        ),
        "fair": (lambda: FixedFleet(3, gpus, QueueOrder.FAIR), lambda: FixedFleetPlanner(3, of, jobs, fair=True)),
        "utilisation": (lambda: UtilisationAutoscaler(gpus), lambda: UtilisationPlanner(of)),
    }


@pytest.mark.parametrize("name", ["as asked", "fifo", "shortest", "fair", "utilisation"])
@settings(max_examples=lanes.examples(40))
@given(st.integers(0, 2**32), st.booleans())
@example(314652068, False)  # two classes have used the same number of GPU-seconds
def test_a_baseline_does_what_it_would_if_it_looked_at_everything(name: str, seed: int, spot: bool) -> None:
    def result(policy: Callable[[dict[str, int]], Policy | Planner]) -> SimulationResult:
        scenario = some_scenario(Random(seed), spot=spot)
        asked = {submission.name: submission.gpus for submission in scenario.submissions}
        return Simulation(scenario, policy(asked), ExactKnowledge({})).run()

    quick = result(lambda asked: Advanced(pairs(asked)[name][0]()))
    slow = result(lambda asked: pairs(asked)[name][1]())
    assert replace(quick, counts=slow.counts) == slow
    assert quick.counts.job_events == slow.counts.job_events


@settings(max_examples=lanes.examples(200))
@given(
    st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(1e-5, 1.0)), min_size=1, max_size=6),
    st.floats(0.0, 0.999),
    st.floats(0.0, 1.0),
)
def test_progress_and_the_time_that_is_left_say_the_same(
    epochs: list[tuple[float, float]], done: float, part: float
) -> None:
    whole = sum(span for span, _ in epochs)
    ends = [sum(span for span, _ in epochs[: at + 1]) / whole for at in range(len(epochs) - 1)] + [1.0]
    rates = WidthRates(ends, [rate for _, rate in epochs])
    left = rates.seconds_left(done)
    later = rates.after(done, part * left)
    assert done <= later + 1e-9
    assert rates.seconds_left(later) == pytest.approx((1.0 - part) * left, rel=1e-9, abs=1e-9 * rates.seconds_left(0.0))
    assert rates.before(later, part * left) == pytest.approx(done, abs=1e-9)
    assert rates.after(done, left * 1.001) == 1.0
