"""Schedulers of the literature for fixed clusters of unequal GPU types, reimplemented from their papers.

Gavel (Narayanan et al., OSDI'20): a linear program gives each job a share of time on each type, and rounds of six
minutes carry the shares out: who is furthest behind its share comes first. Sia (Subramanya et al., SOSP'23): each
minute an integer program gives each job a type and a width, by goodput to the power of p = -0.5, with λ = 1.1 for a job
that gets nothing. Both are placed on nodes of one GPU, so that no GPU is ever lost to fragments of nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import coo_array

from charterer.domain.ids import JobId, PoolId
from charterer.domain.time import Instant, after
from charterer.tools.simulator.engine.world import Policy, World
from charterer.tools.simulator.model.node_market import SimMachine
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.policies.fleet import BaselineFleet

Numbers = NDArray[np.float64]
"""A vector by job or type, or a matrix by job and type."""
_FILL = 1e-3
"""Weight of all throughput beside an objective, so that no GPU is idle that could be of use."""
_BISECTIONS = 12
GAVEL_SECONDS = 360.0
SIA_SECONDS = 60.0
SIA_POWER = -0.5
SIA_QUEUE = 1.1


@dataclass(frozen=True)
class Waiting:
    """What an objective may know: for each job the GPUs it holds on any type, its speeds and its course.

    ``speeds[m, t]``: fraction of job m a second on type t, 0 where it cannot run. ``left``: the fraction of it that is
    left. ``ages``: seconds since its submission. ``counts``: GPUs of each type.
    """

    gpus: Numbers
    speeds: Numbers
    left: Numbers
    ages: Numbers
    counts: Numbers

    @property
    def alone(self) -> Numbers:
        """Each job's speed on an equal share of the cluster."""
        of_time = np.minimum(self.counts.sum() / (self.gpus * len(self.gpus)), 1.0)
        alone: Numbers = of_time * (self.speeds @ (self.counts / self.counts.sum()))
        return alone


Objective = Callable[[Waiting], Numbers]
"""The share of time of each job on each type."""


def _solve(waiting: Waiting, gains: Numbers, least: Numbers | None) -> Numbers | None:
    """Maximise t + Σ gains·x where each job's speed is at least ``least``·t; without ``least``: Σ gains·x."""
    jobs, types = waiting.speeds.shape
    count = jobs * types
    rows, columns, values = [], [], []
    for job in range(jobs):
        for kind in range(types):
            at = job * types + kind
            rows += [job, jobs + kind]
            columns += [at, at]
            values += [1.0, float(waiting.gpus[job])]
            if least is not None:
                rows.append(jobs + types + job)
                columns.append(at)
                values.append(-waiting.speeds[job, kind] / least[job])
        if least is not None:
            rows.append(jobs + types + job)
            columns.append(count)
            values.append(1.0)
    limits = [1.0] * jobs + list(map(float, waiting.counts)) + ([0.0] * jobs if least is not None else [])
    costs = [*(-gains.ravel()), *([-1.0] if least is not None else [])]
    upper = [(0.0, 1.0 if speed > 0.0 else 0.0) for speed in waiting.speeds.ravel()]
    solved = linprog(
        costs,
        A_ub=coo_array((values, (rows, columns)), shape=(len(limits), len(costs))).tocsr(),
        b_ub=limits,
        bounds=[*upper, *([(0.0, None)] if least is not None else [])],
        method="highs",
    )
    return None if solved.status else np.asarray(solved.x[:count]).reshape(jobs, types)


def _filled(waiting: Waiting) -> Numbers:
    """A small gain for all throughput, each job's by its own speed alone."""
    gains: Numbers = _FILL * waiting.speeds / waiting.alone[:, None] / len(waiting.gpus)
    return gains


def max_min(waiting: Waiting) -> Numbers:
    """Gavel's max-min fairness (§4.1): the least of speed ÷ speed on an equal share, times the job's GPUs."""
    shares = _solve(waiting, _filled(waiting), waiting.alone / waiting.gpus)
    assert shares is not None
    return shares


def max_min_agnostic(waiting: Waiting) -> Numbers:
    """The same by a scheduler to which all types are alike (the comparison of Gavel's paper)."""
    alike = Waiting(waiting.gpus, np.where(waiting.speeds > 0.0, 1.0, 0.0), waiting.left, waiting.ages, waiting.counts)
    of_time = max_min(alike).sum(axis=1)
    spread = (waiting.speeds > 0.0) * waiting.counts
    shares: Numbers = of_time[:, None] * spread / spread.sum(axis=1, keepdims=True)
    return shares


def makespan(waiting: Waiting) -> Numbers:
    """Gavel's minimal makespan (§4.2): all jobs that are there end as early as possible."""
    shares = _solve(waiting, _filled(waiting), waiting.left)
    assert shares is not None
    return shares


def completions(waiting: Waiting) -> Numbers:
    """Shortest first, aware of types: the most completions a second."""
    shares = _solve(waiting, waiting.speeds / waiting.left[:, None], None)
    assert shares is not None
    return shares


def finish_time_fairness(waiting: Waiting) -> Numbers:
    """Gavel's form of Themis (§4.2): the least ρ for which all jobs can end within ρ times what they take alone."""
    alone = waiting.ages + waiting.left / waiting.alone
    low, high = 0.0, 64.0
    found = max_min(waiting)
    for _ in range(_BISECTIONS):
        ratio = (low + high) / 2 if low else high / 8
        seconds = ratio * alone - waiting.ages
        if (seconds <= 0.0).any() or (waiting.left / seconds > waiting.speeds.max(axis=1)).any():
            low = ratio
            continue
        needed = waiting.left / seconds
        shares = _solve(waiting, _filled(waiting), needed)
        reached = shares is not None and ((waiting.speeds * shares).sum(axis=1) >= needed * (1 - 1e-6)).all()
        if reached and shares is not None:
            high, found = ratio, shares
        else:
            low = ratio
    return found


@dataclass
class _Course:
    """Rounds that a job got on each type, and those since it came."""

    rounds: int = 0
    got: dict[int, int] = field(default_factory=dict)


class _OnFleets(Policy, ABC):
    """A fixed number of one-GPU nodes in each pool, all rented for as long as there is work, decided about in
    rounds.
    """

    def __init__(self, nodes: Mapping[str, int], seconds: float) -> None:
        self._nodes = nodes
        self._seconds = seconds
        self._next = 0.0
        self._started = False

    def begin_simulation(self, world: World) -> None:
        self.world = world
        self.pools = [PoolId(name) for name in self._nodes]
        self.fleets = [BaselineFleet(world, pool) for pool in self.pools]
        self.types = [fleet.gpu_type for fleet in self.fleets]
        self.counts = np.array([float(count) for count in self._nodes.values()])

    def job_completed(self, job: SimJob) -> None:
        assert job.allocation is not None
        self.fleets[self.pools.index(job.allocation.option.pool)].give_back(job.allocation.placements)

    def machine_ready(self, machine: SimMachine) -> None:
        self.fleets[self.pools.index(machine.order.pool)].machine_ready(machine)

    def decide(self) -> Instant | None:
        world = self.world
        if not self._started:
            self._started = True
            for fleet, count in zip(self.fleets, self._nodes.values(), strict=True):
                fleet.rent(count)
        if world.clock.now >= self._next:
            self._next = (int(world.clock.now / self._seconds) + 1) * self._seconds
            if world.jobs:
                for job in world.jobs.values():
                    job.advance(world.clock.now)
                self.carry_out(self.round(list(world.jobs.values())))
        return after(world.clock.start, self._next) if world.jobs or world.unsubmitted else None

    @abstractmethod
    def round(self, jobs: Sequence[SimJob]) -> Mapping[JobId, tuple[int, int]]:
        """Type and GPUs of each job that runs in the round that begins now."""

    def carry_out(self, chosen: Mapping[JobId, tuple[int, int]]) -> None:
        """Let the jobs run so, and no others; who keeps type and width goes on."""
        moved = []
        for job in self.world.jobs.values():
            held = job.allocation
            now = None if held is None else (self.pools.index(held.option.pool), held.option.gpus)
            if now == chosen.get(job.id):
                continue
            if held is not None and now is not None:
                self.world.stop(job)
                self.fleets[now[0]].give_back(held.placements)
            if job.id in chosen:
                moved.append(job)
        for job in moved:
            kind, gpus = chosen[job.id]
            placements = self.fleets[kind].place(gpus)
            if placements is not None:
                self.fleets[kind].start(job, placements)


class Gavel(_OnFleets):
    """An objective of Gavel, in rounds. ``width``: the GPUs of a job, whatever the type."""

    def __init__(self, nodes: Mapping[str, int], objective: Objective, width: Callable[[SimJob], int]) -> None:
        super().__init__(nodes, GAVEL_SECONDS)
        self._objective = objective
        self._width = width
        self._courses: dict[JobId, _Course] = {}
        self._shares: tuple[frozenset[JobId], Numbers] | None = None

    def round(self, jobs: Sequence[SimJob]) -> Mapping[JobId, tuple[int, int]]:
        """Who is furthest behind its share comes first (§5); shares are computed anew when jobs came or went."""
        known = frozenset(job.id for job in jobs)
        if self._shares is None or self._shares[0] != known:
            self._shares = known, self._objective(self._waiting(jobs))
            self._courses = {job.id: self._courses.get(job.id, _Course()) for job in jobs}
        order = []
        for number, job in enumerate(jobs):
            course = self._courses[job.id]
            course.rounds += 1
            for kind, share in enumerate(self._shares[1][number]):
                if share > 1e-6:
                    priority = share * course.rounds / (course.got.get(kind, 0) + 1e-3)
                    order.append((-priority, number, kind))
        free = [int(fleet.size * len(fleet)) - fleet.booting for fleet in self.fleets]
        chosen: dict[JobId, tuple[int, int]] = {}
        for _, number, kind in sorted(order):
            job = jobs[number]
            gpus = self._width(job)
            if job.id not in chosen and gpus <= free[kind]:
                chosen[job.id] = kind, gpus
                free[kind] -= gpus
                course = self._courses[job.id]
                course.got[kind] = course.got.get(kind, 0) + 1
        return chosen

    def _waiting(self, jobs: Sequence[SimJob]) -> Waiting:
        now = self.world.clock.now
        return Waiting(
            np.array([float(self._width(job)) for job in jobs]),
            np.array([[self._speed(job, gpu_type) for gpu_type in self.types] for job in jobs]),
            np.array([max(1.0 - job.done, 1e-9) for job in jobs]),
            np.array([now - job.submission.at for job in jobs]),
            self.counts,
        )

    def _speed(self, job: SimJob, gpu_type: str) -> float:
        """Its mean speed over what is left."""
        gpus = self._width(job)
        if not job.application.runs_on(gpu_type, gpus):
            return 0.0
        return max(1.0 - job.done, 1e-9) / max(job.application.seconds_left(job.done, gpu_type, gpus), 1e-9)


class Sia(_OnFleets):
    """Sia's policy (§3.3-3.4): type and width of each job by an integer program each minute."""

    def __init__(self, nodes: Mapping[str, int], widths: Callable[[SimJob], Sequence[int]], restart: float) -> None:
        super().__init__(nodes, SIA_SECONDS)
        self._widths = widths
        self._restart = restart
        self._solved: tuple[float, frozenset[JobId], Mapping[JobId, tuple[int, int]]] = (0.0, frozenset(), {})

    def round(self, jobs: Sequence[SimJob]) -> Mapping[JobId, tuple[int, int]]:
        """The configurations with the most goodput; a job at most doubles, and starts on its narrowest width.

        To save time they stay as they are for six minutes, unless a job comes or goes.
        """
        now, known = self.world.clock.now, frozenset(job.id for job in jobs)
        solved_at, solved_for, chosen = self._solved
        if known == solved_for and now - solved_at < GAVEL_SECONDS:
            return chosen
        self._solved = now, known, self._solve(jobs)
        return self._solved[2]

    def _solve(self, jobs: Sequence[SimJob]) -> Mapping[JobId, tuple[int, int]]:
        options: list[tuple[int, int, int]] = []
        costs: list[float] = []
        for number, job in enumerate(jobs):
            configurations = self._configurations(job)
            least = min((goodput for _, _, goodput, _ in configurations), default=1.0)
            for kind, gpus, goodput, factor in configurations:
                options.append((number, kind, gpus))
                costs.append((max(factor, 1e-3) * goodput / least) ** SIA_POWER - SIA_QUEUE)
        if not options:
            return {}
        rows = [number for number, _, _ in options] + [len(jobs) + kind for _, kind, _ in options]
        values = [1.0] * len(options) + [float(gpus) for _, _, gpus in options]
        limits = [1.0] * len(jobs) + [float(len(fleet) - fleet.booting) for fleet in self.fleets]
        columns = [*range(len(options))] * 2
        matrix = coo_array((values, (rows, columns)), shape=(len(limits), len(options))).tocsr()
        solved = milp(
            costs,
            constraints=LinearConstraint(matrix, ub=limits),
            integrality=np.ones(len(options)),
            bounds=Bounds(0.0, 1.0),
            options={"mip_rel_gap": 0.005, "time_limit": 2.0, "disp": False},
        )
        if solved.x is None:
            return {}
        taken = [option for option, amount in zip(options, solved.x, strict=True) if amount > 0.5]
        return {jobs[number].id: (kind, gpus) for number, kind, gpus in taken}

    def _configurations(self, job: SimJob) -> list[tuple[int, int, float, float]]:
        """(Type, GPUs, goodput, factor for what a restart costs) of those that the job may have now."""
        held = job.allocation
        now = None if held is None else (self.pools.index(held.option.pool), held.option.gpus)
        age = self.world.clock.now - job.submission.at
        spent = max(age - job.runs * self._restart, 0.0)
        factor = spent / (age + self._restart)
        widths = self._widths(job)
        most = min(widths) if now is None else 2 * now[1]
        found = []
        for kind, gpu_type in enumerate(self.types):
            for gpus in widths:
                if gpus <= most and job.application.runs_on(gpu_type, gpus):
                    rates = job.application.rates[gpu_type][job.application.epoch(job.done)]
                    stays = now is None or now == (kind, gpus)
                    found.append((kind, gpus, rates[gpus], 1.0 if stays else factor))
        return found
