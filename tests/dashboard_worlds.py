"""Clusters for the page: any number of jobs with the runs of some days, made by a seeded generator."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from charterer.domain.budget import Cause, Costs, DayCosts
from charterer.domain.ids import BudgetId, JobId, PoolId, RentalId
from charterer.domain.job import Finish, FinishKind, Job, Placement, RunOutcome, RunRecord
from charterer.domain.money import Money, Price, total
from charterer.domain.option import Option
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Amdahl
from charterer.domain.time import Instant, after, format_instant
from charterer.tools.commands.dashboard.documents import Sighting
from tests.unit.cli.worlds import seen_of
from tests.worlds import MID_MONTH, World

_DAY = 86_400.0
_POOLS = {"a100": (8, "19.80"), "a100-spot": (8, "8.20"), "h100": (8, "44.00"), "t4": (4, "2.90")}
_NAMES = ("bert-large", "resnet-sweep", "vit-l16", "sft", "rlhf", "tts", "detector", "ocr", "reranker", "diffusion")
_ENDS = {
    RunOutcome.STOPPED: "moved because 16 GPUs on a100 save 2.1 h for $31.20",
    RunOutcome.INTERRUPTED: "its node a100-spot-7 was taken back by the cloud",
    RunOutcome.FAILED: "pod 0 ended with exit code 1: CUDA out of memory",
}


def busy_cluster(jobs: int, seed: int = 1) -> Sighting:
    """That many jobs: most have ended, some run and some wait; with days of costs and Events."""
    random = Random(seed)
    world = World()
    world.budget("research", amount="60000", spent="27411.52")
    for name, (gpus, price) in _POOLS.items():
        kind = CapacityType.SPOT if name.endswith("spot") else CapacityType.ON_DEMAND
        world.pool(name, gpus=gpus, price=price, gpu_type=name.split("-")[0], capacity=kind)
    for name in _NAMES:
        curve = Amdahl(random.uniform(0.8, 0.99), 1.0)
        world.profile(name, curve, work_hours=random.uniform(4, 30), arrivals_per_hour=0.04)
    for number in range(jobs):
        _a_job(world, random, number, jobs)
    _with_days(world, random)
    events = [_event(job, number) for number, job in enumerate(list(world.jobs.values())[:200])]
    return Sighting(seen_of(world), world.now, events=events)


def _a_job(world: World, random: Random, number: int, jobs: int) -> None:
    name = f"{_NAMES[number % len(_NAMES)]}-{number}"
    age = random.uniform(600, min(20 * _DAY, max(jobs, 8) * 3600.0))
    job = world.job(name, gpus=(1, 8, 32), profile=_NAMES[number % len(_NAMES)], age_seconds=age, hours_left=3.0)
    state = random.random() if number else 0.9
    ends = world.now if state > 0.8 else after(job.created, min(age * 0.9, random.uniform(1, 40) * 3600))
    job = replace(job, records=tuple(_runs(random, job, ends)))
    if state <= 0.8:
        kind = FinishKind.COMPLETE if state < 0.72 else FinishKind.FAILED
        last = job.records[-1]
        outcome = RunOutcome.COMPLETE if kind is FinishKind.COMPLETE else RunOutcome.FAILED
        job = replace(
            job,
            records=(*job.records[:-1], replace(last, outcome=outcome, message=f"run {last.number} is over")),
            finish=Finish(
                kind, last.until, str(kind), "all pods succeeded" if state < 0.72 else "backoffLimit reached"
            ),
            last_run=last.number,
        )
        world.jobs[job.id] = job
        return
    last_run = job.records[-1].number if job.records else 0
    world.jobs[job.id] = replace(job, last_run=last_run)
    if state > 0.86 and sum(len(each.runs) for each in world.jobs.values()) < 60:
        rental = world.rental("a100", age=3600.0)
        runs = world.runs_on(name, rental.id, gpus=8)
        assert runs.allocation is not None
        since = max(job.records[-1].until, after(world.now, -3000.0)) if job.records else after(world.now, -3000.0)
        world.jobs[job.id] = replace(runs, allocation=replace(runs.allocation, since=since))


def _runs(random: Random, job: Job, ends: Instant) -> list[RunRecord]:
    """One to six runs, with some waiting before and between them."""
    count = random.randint(1, 6)
    whole = (ends - job.created) / 1e6
    at = after(job.created, whole * random.uniform(0.02, 0.2))
    records = []
    for number in range(1, count + 1):
        pool = random.choice(list(_POOLS))
        gpus = random.choice((1, 2, 4, 8, 16, 32))
        until = after(at, whole * 0.65 / count)
        price = Option(PoolId(pool), gpus, 1.0, _price(pool, gpus))
        outcome = random.choices(list(_ENDS), (6, 2, 1))[0]
        cost = price.price.cost((until - at) // 1_000_000)
        place = (Placement(RentalId(f"{pool}-{number}"), gpus),)
        records.append(RunRecord(number, outcome, price, place, at, until, _ENDS[outcome], cost))
        at = after(until, whole * 0.02)
    return records


def _price(pool: str, gpus: int) -> Price:
    per_node, price = _POOLS[pool]
    return Price(Price.parse(price).micros_per_hour * gpus // per_node)


def _with_days(world: World, random: Random) -> None:
    days = []
    for number in range(45, 0, -1):
        jobs = {team: Money.of(random.uniform(100, 900)) for team in ("vision", "speech", "team")}
        causes = {
            Cause.JOB: total(jobs.values()),
            Cause.STARTING: Money.of(random.uniform(20, 60)),
            Cause.IDLE: Money.of(random.uniform(30, 160)),
            Cause.ENDING: Money.of(random.uniform(5, 20)),
        }
        days.append(DayCosts(after(MID_MONTH, -number * _DAY), causes, jobs))
    budget = world.budgets[BudgetId("research")]
    assert budget.balance is not None
    month = [day for day in days if day.start >= budget.balance.period_start]
    spent = total(amount for day in month for amount in day.by_cause.values())
    by_pool = {(PoolId("a100"), cause): total(day.by_cause.get(cause, Money(0)) for day in days) for cause in Cause}
    before = {cause: total(day.by_cause.get(cause, Money(0)) for day in days if day not in month) for cause in Cause}
    lifetime = total(by_pool.values())
    names = {team: total(day.by_namespace[team] for day in days) for team in ("vision", "speech", "team")}
    costs = Costs(by_pool, names, world.now, lifetime, before, tuple(days))
    balance = replace(budget.balance, settled=spent, lifetime=lifetime, costs=costs)
    world.budgets[budget.id] = replace(budget, balance=balance)


def _event(job: Job, number: int) -> dict[str, Any]:
    about = {"kind": "TrainingJob", "namespace": job.namespace, "name": job.name, "uid": JobId(job.id)}
    return {
        "metadata": {"name": f"{job.name}.{number}", "namespace": job.namespace},
        "involvedObject": about,
        "eventTime": format_instant(after(MID_MONTH, -number * 17.0)),
        "reason": "Allocated" if number % 5 else "PoolFull",
        "action": "Allocate",
        "type": "Normal" if number % 5 else "Warning",
        "message": "16 GPUs on a100 save 1.4 h for $22.10, $15.79 for each hour saved",
        "reportingComponent": "charterer.dev/operator",
    }
