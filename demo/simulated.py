"""Simulates the demo's hour: today's practice, Charterer at two budgets, and Charterer with fewer offers.

python -m demo.simulated [--pace 30] [--today FILE] [--markdown]

The simulator gets the same input as the cluster: the sped-up manifests, the fake cloud's prices, stock and start-up
times, and the measured speeds. The planner's time constants therefore have the same effect as in the demo. Results are
in workload seconds. If today's practice was really run, FILE has its column, which replaces the simulated one. No other
module of the demo imports the operator's packages. This module is a separate program, because it uses a core for some
seconds. The demo starts it and reads each line of its output as soon as it appears. The result is deterministic.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import click

from charterer.api import decode
from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId, ClassId
from charterer.domain.job import SpotPolicy, Widths
from charterer.domain.money import Price
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Profile
from charterer.domain.time import Instant, format_instant, instant
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.world import Policy
from charterer.tools.simulator.knowledge import ExactKnowledge
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms
from charterer.tools.simulator.model.scenario import Scenario as World
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policies.baselines import RequestedWidth
from charterer.tools.simulator.simulation import Planner, Simulation
from demo import comparison, scenario
from demo.columns import Column, ColumnJob, Columns, Parts
from demo.comparison import Simulated
from demo.pace import Json
from demo.scenario import BUDGET, FILES, IDLE_SECONDS, NAMESPACE, PoolPlan, ReplayJob, Scenario, workload
from demo.tables import T4

CLOSE_ENOUGH = 0.01
"""Relative difference of dollars that counts as equal."""
AT = datetime(2026, 6, 15, 12, tzinfo=UTC)
"""Creation time of the simulated budget. The results do not depend on it."""
_MOST_TRIES = 6
_MOST_MONEY = 32.0


def simulate(of: Scenario, measured: Column | None = None, now: datetime = AT) -> Columns:
    """Simulate the three columns, with a budget created at ``now``.

    ``measured``: column of today's practice, really run.
    """
    hour = _Hour(of, now)
    at = partial(hour.charterer, of.pools)
    autoscaler, budget = measured or hour.autoscaler(), at(1.0)
    return Columns(autoscaler, same_money(at, budget, autoscaler.dollars), budget)


def simulate_parts(of: Scenario, dollars: float) -> Parts | None:
    """Simulate the hour with fewer offers. None if today's practice has all offers.

    ``dollars``: spent by today's practice.
    """
    hour = _Hour(of, AT)
    if len(hour.asked_pools) == len(of.pools):
        return None
    on_demand = hour.charterer([pool for pool in of.pools if not pool.spot], 1.0)
    as_today = partial(hour.charterer, hour.asked_pools)
    budget = as_today(1.0)
    return Parts(on_demand, budget, same_money(as_today, budget, dollars))


def at_budget(of: Scenario) -> Column:
    """Simulate Charterer at the scenario's budget."""
    return _Hour(of, AT).charterer(of.pools, 1.0)


def same_money(at: Callable[[float], Column], budget: Column, dollars: float) -> Column:
    """Search a budget at which Charterer spends ``dollars`` or a little less, and return its column.

    ``at(share)`` simulates ``share`` times the demo's budget. The share scales the amount and the highest price of an
    hour saved. If no budget spends that much, because nothing faster is for sale, the result is the column with the
    most dollars.
    """
    tried = {0.0: 0.0, 1.0: budget.dollars}
    columns = [budget]
    share = dollars / budget.dollars
    for _ in range(_MOST_TRIES):
        column = at(share)
        columns.append(column)
        tried[share] = column.dollars
        if abs(column.dollars / dollars - 1.0) <= CLOSE_ENOUGH or share >= _MOST_MONEY:
            break
        share = _between(tried, dollars)
    within = [column for column in columns if column.dollars <= dollars * (1.0 + CLOSE_ENOUGH)]
    return max(within or [budget], key=lambda column: column.dollars)


def _between(tried: Mapping[float, float], dollars: float) -> float:
    """Return the next share: interpolated between the neighbours that enclose the dollars, or twice the largest."""
    for (low, less), (high, more) in pairwise(sorted(tried.items())):
        if less < dollars <= more:
            return low + (high - low) * (dollars - less) / (more - less)
    return min(max(tried) * 2.0, _MOST_MONEY)


@dataclass(frozen=True)
class _Hour:
    """The demo's hour as input of the simulator, in demo seconds and prices."""

    of: Scenario
    now: datetime

    @property
    def asked_pools(self) -> Sequence[PoolPlan]:
        """The pools of today's practice: T4 on demand."""
        return [pool for pool in self.of.pools if pool.gpu_type == T4 and not pool.spot]

    def autoscaler(self) -> Column:
        """Simulate each job as its owner asked: T4 on demand, the requested width, nodes of a cluster autoscaler."""
        idle = self.of.pace.demo_seconds(IDLE_SECONDS)
        world = self._world(1.0, self.asked_pools)
        return self._column(world, RequestedWidth(lambda submission: submission.gpus, idle), {})

    def charterer(self, pools: Sequence[PoolPlan], share: float) -> Column:
        """Simulate the operator's planner with only these pools, at ``share`` times the demo's budget."""
        world = self._world(share, pools)
        return self._column(world, partial(plan, memo=Memo()), self._profiles())

    def _column(self, world: World, policy: Policy | Planner, profiles: Mapping[ClassId, Profile]) -> Column:
        return self._told(Simulation(world, policy, ExactKnowledge(profiles)).run())

    def _told(self, result: SimulationResult) -> Column:
        """Convert the result to workload seconds. Dollars do not change."""
        pace = self.of.pace

        def told(at: float | None, later: float = 0.0) -> float | None:
            return None if at is None else pace.workload_seconds(at + later)

        hand_over = self.of.hand_over_seconds
        jobs = [
            ColumnJob(
                job.name,
                pace.workload_seconds(job.submitted),
                told(job.started, hand_over),
                told(job.finished),
                [(pace.workload_seconds(at), gpus) for at, gpus in job.widths],
                gpu_types=[(pace.workload_seconds(at), gpu_type) for at, gpu_type in job.gpu_types],
            )
            for job in sorted(result.jobs, key=lambda job: (job.submitted, job.name))
        ]
        spent, dollars = [(0.0, 0.0)], 0.0
        for (since, hourly), (until, _) in pairwise([(0.0, 0.0), *result.hourly]):
            dollars += hourly / 3600 * (until - since)
            spent.append((pace.workload_seconds(until), dollars))
        spent.append((spent[-1][0], result.spent.dollars))  # adds rounding to whole seconds and the billing minimum
        return Column(jobs, result.spent.dollars, result.counts.machines, spent)

    def _world(self, share: float, pools: Sequence[PoolPlan]) -> World:
        of = self.of
        names = {job.application.name: job for job in of.jobs}
        return World(
            instant(self.now),
            tuple(self._submission(job) for job in of.jobs),
            {name: self._application(job) for name, job in names.items()},
            tuple(self._pool(raw, pool) for raw, pool in self._manifests(pools)),
            self._budget(share),
            lambda submission: JobTerms(Widths(1, submission.gpus, of.widest), spot=SpotPolicy.ALLOWED),
            self._demo(of.restart_seconds) + of.hand_over_seconds,
            classes=lambda _, application: ClassId(NAMESPACE, application.name),
        )

    def _demo(self, seconds: float) -> float:
        return self.of.pace.demo_seconds(seconds)

    def _submission(self, job: ReplayJob) -> Submission:
        asked = min(job.asked, self.of.widest)
        return Submission(job.name, self._demo(job.submitted), job.application.name, asked)

    def _application(self, job: ReplayJob) -> Application:
        rates: dict[str, dict[int, float]] = {}
        for pool in self.of.pools:
            size = pool.gpus_per_node
            widths = (*range(1, size), *range(size, self.of.widest + 1, size))
            rates[pool.gpu_type] = {gpus: 1.0 / self._demo(job.seconds(gpus, pool.gpu_type)) for gpus in widths}
        return Application(job.application.name, (1.0,), {gpu_type: (speeds,) for gpu_type, speeds in rates.items()})

    def _manifests(self, pools: Sequence[PoolPlan]) -> Iterable[tuple[Json, PoolPlan]]:
        manifests = {raw["metadata"]["name"]: raw for raw in scenario.pools(self.of, "http://simulated")}
        return ((manifests[pool.name], pool) for pool in pools)

    def _pool(self, raw: Json, pool: PoolPlan) -> PoolModel:
        groups = {group["name"]: group for group in scenario.sold(self.of)["groups"]}
        group, spec = groups[pool.name], raw["spec"]
        starts = cycle(group["startupSeconds"])
        lifetimes = group.get("lifetimeSeconds")
        price = Decimal(group["hourlyPrice"]) * Decimal(group.get("spotFactor", 1))
        return PoolModel(
            pool.name,
            pool.gpus_per_node,
            Price.parse(f"{price:.6f}"),
            pool.gpu_type,
            start_seconds=spec["startSeconds"],
            max_nodes=spec["maxNodes"],
            billing_minimum_seconds=group["billingMinimumSeconds"],
            cooldown_seconds=spec["cooldownSeconds"],
            stock=pool.stock,
            capacity_type=CapacityType.SPOT if pool.spot else CapacityType.ON_DEMAND,
            draw_start_seconds=lambda: next(starts),
            draw_lifetime=(lambda number: lifetimes[(number - 1) % len(lifetimes)]) if lifetimes else None,
        )

    def _budget(self, share: float) -> Budget:
        of = replace(self.of, share=self.of.share * share, most_pays=self.of.pays * share)
        return decode.budget(self._applied(scenario.budget(of, self.now)))

    def _profiles(self) -> Mapping[ClassId, Profile]:
        profiles = [decode.profile(self._applied(raw)) for raw in scenario.profiles(self.of)]
        return {profile.id: replace(profile, budget=BudgetId(BUDGET)) for profile in profiles}

    def _applied(self, manifest: Json) -> Mapping[str, Any]:
        """Return the manifest with the fields that the API server adds."""
        created: Instant = instant(self.now)
        added = {"uid": "simulated", "resourceVersion": "1", "generation": 1}
        return manifest | {"metadata": added | {"creationTimestamp": format_instant(created)} | manifest["metadata"]}


@click.command()
@click.option("--pace", type=click.IntRange(5, 120), default=30, show_default=True)
@click.option("--jobs", type=click.Choice(["28", "160"]), default="28", show_default=True, help="The hour's, or all.")
@click.option("--most-pays", type=float, help="Dollars that the budget pays at most for a job-hour saved.")
@click.option("--share", type=float, default=1.0, show_default=True, help="The budget as a multiple of the demo's.")
@click.option("--cloud", type=click.Choice([*FILES]), default="fake", show_default=True, help="Whose nodes are sold.")
@click.option("--today", type=click.Path(path_type=Path, exists=True), help="The first column, really run.")
@click.option("--markdown", is_flag=True, help="Print the table of README.md instead.")
def main(
    pace: int, jobs: str, most_pays: float | None, share: float, cloud: str, today: Path | None, markdown: bool
) -> None:
    """Print the demo's hour as JSON: a line with the three columns, and one with those where less is sold, or null."""
    measured = None if today is None else Column.of(json.loads(today.read_text()))
    of = replace(workload(pace, int(jobs), cloud), most_pays=most_pays, share=share)
    columns = simulate(of, measured)
    if not markdown:
        click.echo(columns.json())
    parts = simulate_parts(of, columns.autoscaler.dollars)
    if markdown:
        click.echo(comparison.markdown(Simulated(of, columns, parts).rows), nl=False)
    else:
        click.echo("null" if parts is None else parts.json())


if __name__ == "__main__":
    main()
