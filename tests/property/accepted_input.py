"""Worlds of whatever the schemas accept: users' objects at their extremes, read as the operator reads them.

A world is drawn from a seed. Its objects are JSON as users write them; what decoding refuses is not in the world.
``turn`` lets the world live on: a look, a plan, steps, views and records are made, each checked against the schema that
the API server holds it to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

from charterer.api import decode
from charterer.api.decode import DecodedJob
from charterer.api.models import learned_record
from charterer.api.models.base import dump
from charterer.api.models.trainingjob_status import TrainingJobRecord, TrainingJobView
from charterer.cluster.store import ObjectKey
from charterer.controller.learning.profile_writer import digest
from charterer.controller.learning.report_collector import ReportCollector
from charterer.controller.snapshot.observe import observe
from charterer.controller.status import jobs as status_jobs
from charterer.controller.status.jobs import JobOptions
from charterer.controller.status.publisher import viewed_objects
from charterer.domain.budget import Balance
from charterer.domain.errors import InvalidObject
from charterer.domain.ids import JobId
from charterer.domain.money import Money, Price
from charterer.domain.plan import Allocate, Plan
from charterer.domain.pool import Offering, Pool, Quote
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Calendar, Instant, after, format_instant
from charterer.incremental import Memo
from charterer.lifecycle.next_steps import next_steps
from charterer.policy.planner import solved_plan
from charterer.server.listener import Refused
from charterer.server.progress import ProgressBoard, ProgressReport, SessionOfRun
from tests.factory.declared import NAMESPACE
from tests.property.schema_check import check
from tests.random_events import completes
from tests.unit.cli.worlds import seen_of
from tests.worlds import World

Json = dict[str, Any]

TYPES = ("a", "b", "c")
PRICES = ("0.000001", "0.01", "2.5", "999999.999999")
AMOUNTS = ("0.000001", "1", "500", "999999999.999999")
WIDTHS = (1, 2, 3, 9, 16, 64, 1000, 100_000)


class Draw(Random):
    """Draws the values of one world: unusual ones now and then in some worlds, everywhere in others."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._wild = self.choice([0.03, 0.1, 0.3, 0.7])

    def unusual(self) -> bool:
        """Whether the next value is an unusual one."""
        return self.random() < self._wild

    def of(self, usual: Any, *unusual: Any) -> Any:
        """The usual value, or one of the others."""
        return self.choice(unusual) if self.unusual() else usual

    def size(self, usual: float, least: float, most: float) -> float:
        """A number near the usual one, or of any magnitude between the two and often one of them."""
        if not self.unusual():
            return usual * self.choice([0.5, 1.0, 2.0])
        any_size = least * (most / least) ** self.random()
        return float(min(max(self.choice([least * (1 + 1e-12), most, any_size, any_size]), least), most))


def profile(draw: Draw) -> Json:
    """The spec of a SpeedupProfile."""
    unit = draw.size(100.0, 1e-9, 1e15)

    def value() -> float:
        near = draw.of(draw.choice([1.0, 1.5, 3.0]), 1e-9, 1e-3, 0.5, 100.0, 1e9)
        return float(min(max(unit * near, 1.001e-9), 1e15))

    def curve(gpu_type: str) -> Json:
        match draw.randrange(3):
            case 0:
                of_widths = [1, 2, 4, 8, 16, 64, *draw.of([], [1000, 99_999, 100_000])]
                widths = sorted(draw.sample(of_widths, draw.randint(1, 5)))
                values = sorted(value() for _ in widths)
                points = [{"gpus": gpus, "value": speed} for gpus, speed in zip(widths, values, strict=True)]
                return {"gpuType": gpu_type, "throughput": points}
            case 1:
                fraction = draw.of(0.97, 0.0, 5e-324, 0.5, 1 - 1e-16, 1.0)
                return {"gpuType": gpu_type, "amdahl": {"parallelFraction": fraction, "value": value()}}
        exponent = min(draw.size(0.5, 1e-3, 1.0), 1.0)
        return {"gpuType": gpu_type, "power": {"exponent": exponent, "value": value()}}

    spec: Json = {}
    if draw.random() < 0.9:
        spec["curves"] = [curve(gpu_type) for gpu_type in draw.sample(TYPES, draw.randint(1, 3))]
    if draw.random() < 0.6:
        spec["meanWork"] = draw.size(36_000.0, 1e-3, 1e12)
    if draw.random() < 0.4:
        spec["arrivalsPerHour"] = draw.size(0.5, 1e-9, 1e9)
    if draw.random() < 0.5:
        spec["restartSeconds"] = draw.of(30, 0, 5e-324, 1e-3, 3600, 86_400)
        spec["resizeSeconds"] = draw.choice([0, spec["restartSeconds"]])
    if draw.random() < 0.3:
        own, per_gpu = draw.of(64, 1, 10**9), draw.of(8, 1, 7, 10**9)
        spec["batch"] = {"own": own, "largest": max(draw.of(1024, 10**9), own), "largestPerGpu": per_gpu}
    return spec


def job(draw: Draw, profiles: list[str], now: Instant) -> Json:
    """The spec of a TrainingJob."""
    least, preferred, most = sorted(draw.of(draw.choice([1, 4, 8, 32]), *WIDTHS) for _ in range(3))
    container: Json = {"name": "trainer"}
    if draw.random() < 0.2:
        gpus = draw.of(1, 0, "8", 100_000, -1, "many", 10**30)
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    grace = draw.of(30, 0, 86_400)
    spec: Json = {
        "template": {"spec": {"containers": [container], "terminationGracePeriodSeconds": grace}},
        "resizePolicy": draw.choice(["Never", "Restart", "InPlace"]),
        "backoffLimit": draw.of(3, 0, 1_000_000),
        "maxRestarts": draw.of(100, 0, 1_000_000),
        "readyTimeoutSeconds": draw.of(600, 1, 86_400),
        "suspend": draw.random() < 0.05,
        "spotPolicy": draw.choice(["Never", "Allowed"]),
        "gpuTypes": draw.of([], ["a"], ["b", "nowhere"]),
    }
    if draw.random() < 0.95:
        spec["gpus"] = {"min": least, "preferred": preferred, "max": most}
    if draw.random() < 0.8:
        spec["profileName"] = draw.choice([*profiles, "nowhere"])
    if draw.random() < 0.2:
        spec["maxCost"] = draw.choice(AMOUNTS)
    if draw.random() < 0.2:
        spec["interactive"] = {
            "asks": draw.of(1, 0, 999_999_999),
            "hourly": draw.of("20", *PRICES),
            "idleSeconds": draw.of(300, 0.001, 2_592_000),
        }
    elif draw.random() < 0.2:
        soon = format_instant(after(now, draw.choice([-60.0, 1.0, 3600.0, 1e7])))
        spec["targetCompletionTime"] = draw.of(soon, "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
    if draw.random() < 0.3:
        spec["priorityClassName"] = draw.choice(["high", "low"])
    if draw.random() < 0.3:
        spec["ttlSecondsAfterFinished"] = draw.choice([0, 2_147_483_647])
    return spec


def budget(draw: Draw) -> Json:
    """The spec of a GPUBudget."""
    amount = draw.of("60000", "0", *AMOUNTS)
    spec: Json = {
        "amount": amount,
        "namespaceSelector": {},
        "timeZone": draw.of("Etc/UTC", "Pacific/Kiritimati", "Africa/Casablanca"),
        "mode": "Observe" if draw.random() < 0.1 else "Enforce",
        "weights": [
            {"priorityClassName": "high", "weight": draw.size(2.0, 1e-6, 1e6)},
            {"priorityClassName": "low", "weight": draw.size(0.5, 1e-6, 1e6)},
        ],
        "carryOverPercent": draw.of(0, 50, 100),
        "explorationPercent": draw.of(2, 0, 100),
    }
    if draw.random() < 0.4:
        spec["period"] = draw.choice(["Week", "Quarter", "Year", "Grant"])
    if spec.get("period") == "Grant":
        days = ("2026-01-01", "2026-06-15"), ("2026-06-15", "2026-06-15"), ("2000-01-01", "2009-12-31")
        spec["grant"] = dict(zip(("from", "until"), draw.choice([*days, ("2990-01-01", "2999-12-31")]), strict=True))
        spec["carryOverPercent"] = 0
    if draw.random() < 0.2:
        rate = {"perDollar": draw.of("0.92", "0.1", "999999.999999"), "asOf": draw.of("2026-11-01", "9999-12-31")}
        spec |= {"currency": "EUR", "currencyRate": rate}
    if draw.random() < 0.3:
        spec["hardLimit"] = draw.choice([amount, AMOUNTS[-1]])
    if draw.random() < 0.2:
        spec["maxHourlyRate"] = draw.choice(PRICES)
    if draw.random() < 0.2:
        spec["openingSpend"] = draw.of("100", "0", *AMOUNTS)
    if draw.random() < 0.3:
        hours = {"start": "08:00", "end": draw.choice(["24:00", "07:59"])}
        spec["moves"] = {"maxPerJobPerDay": draw.choice([0, 1_000]), "quietHours": [hours]}
    return spec


def pool(draw: Draw, name: str) -> Json:
    """The spec of a GPUPool."""
    spec: Json = {
        "fake": {"endpoint": "http://cloud", "group": name},
        "maxNodes": draw.of(8, 1, 2, 50, 10_000),
        "capacityType": draw.of("OnDemand", "Spot"),
        "startSeconds": draw.of(120, 0, 1, 86_400),
        "cooldownSeconds": draw.of(300, 1, 86_400),
    }
    if draw.unusual():
        prices = [{"hourly": price} for price in ("0", *PRICES)]
        spec["price"] = draw.choice([*prices, {"adjustment": "-99.99%"}, {"adjustment": "+99%"}])
    return spec


def report(draw: Draw) -> Json:
    """The body of a progress report."""
    fields: Json = {
        "fraction": draw.of(draw.random(), 0.0, 5e-324, 1e-9, 0.05, 1 - 1e-16, 1.0, 10**400, -1),
        "step": draw.of(100, 0, 1, 10**15, 10**400),
        "totalSteps": draw.of(1000, 0, 1, 10**15),
        "throughput": draw.of(1.0, 0, 5e-324, 1e15),
        "batch": draw.of(64, 1, 10**9),
        "stepSeconds": draw.of(0.1, 1e-6, 86_400.0, 5e-324),
        "gradSqr": draw.of(1.0, 0.0, 5e-324, 1e30, -1e30, -5e-324),
        "gradVar": draw.of(1.0, 0.0, 5e-324, 1e30),
        "busy": draw.random() < 0.5,
    }
    return {name: value for name, value in fields.items() if draw.random() < 0.7}


def _object(kind: str, name: str, spec: Json, created: str, namespace: str = "") -> Json:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": created,
    }
    return {"kind": kind, "metadata": metadata, "spec": spec}


def _accepted(read: Callable[[Json], Any], raw: Json) -> Iterator[Any]:
    """The decoded object, if decoding takes it."""
    try:
        yield read(raw)
    except InvalidObject:
        return


class AcceptedWorld:
    """A world of accepted objects that was drawn from a seed, and lives on turn by turn."""

    def __init__(self, seed: int) -> None:
        self.options = JobOptions()
        self.draw = draw = Draw(seed)
        self.world = world = World()
        self.memo, self.looks, self.steps = Memo(), Memo(), Memo()
        self.board = ProgressBoard()
        self.collector = ReportCollector(lambda: self.last)
        self.last: Snapshot | None = None
        self.profiles: dict[str, Json] = {}
        self.decoded: dict[JobId, DecodedJob] = {}
        created = format_instant(after(world.now, -draw.choice([0.0, 60.0, 1e6])))
        for number_of in range(draw.randint(1, 2)):
            raw = _object("GPUBudget", f"budget-{number_of}", budget(draw), created)
            for read in _accepted(decode.budget, raw):
                world.budgets[read.id] = replace(
                    read, balance=_balance(draw, world, read.calendar) if draw.random() < 0.8 else None
                )
        for name in TYPES[: draw.randint(1, 3)]:
            for pool_read in _accepted(decode.pool, _object("GPUPool", name, pool(draw, name), created)):
                world.pools[pool_read.id] = _offered(draw, pool_read, world.now)
                if draw.random() < 0.05:
                    world.unsurveyed.add(pool_read.id)
        for name in [f"profile-{number_of}" for number_of in range(draw.randint(0, 4))]:
            raw = _object("SpeedupProfile", name, profile(draw), created, NAMESPACE)
            for profile_read in _accepted(decode.profile, raw):
                world.profiles[profile_read.id] = profile_read
                self.profiles[name] = raw
        for number_of in range(draw.randint(1, 8)):
            spec = job(draw, list(self.profiles), world.now)
            for job_read in _accepted(
                decode.training_job, _object("TrainingJob", f"job-{number_of}", spec, created, NAMESPACE)
            ):
                self.decoded[job_read.job.id] = job_read
                world.jobs[job_read.job.id] = job_read.job

    def live(self, turns: int) -> None:
        """Let so many turns pass."""
        for _ in range(turns):
            self.turn()
            self.reports_come()
            if self.draw.random() < 0.8:
                self.world.everything_starts()
            self.world.passes(self.draw.of(600.0, 0.0, 1.0, 86_400.0, 40 * 86_400.0))
            if self.world.jobs and self.draw.random() < 0.1:
                completes(self.world, self.draw)

    def look(self) -> Snapshot:
        """What the operator sees now."""
        world = self.world
        seen = seen_of(world)
        jobs = {
            ObjectKey(job.namespace, job.name): replace(self.decoded[job.id], job=job) for job in world.jobs.values()
        }
        progress = {name: latest for name in world.jobs if (latest := self.board.latest(name)) is not None}
        snapshot = observe(replace(seen, jobs=jobs, progress=progress), world.now, self.looks)
        self.last = replace(snapshot, surveys=world.snapshot().surveys)
        return self.last

    def turn(self) -> None:
        """A look, a plan, its intents and their records, the next steps, and what is shown."""
        before = self.look()
        made = solved_plan(before, self.memo)
        decided = made.plan
        self.options.planned(before, made.solutions)
        with patch.object(status_jobs._log, "exception", side_effect=AssertionError):
            self.compared(before, decided)
        for command in decided.commands:
            if isinstance(command, Allocate):
                record = TrainingJobRecord.from_domain(
                    replace(
                        before.jobs[command.job],
                        allocation=command.allocation,
                        predicted=before.jobs[command.job].predicted or command.predicted,
                    )
                )
                check("TrainingJob", dump(record))
        self.world.carry_out(decided)
        now = self.look()
        next_steps(now, self.steps)
        self.shown(now, decided)

    def compared(self, snapshot: Snapshot, decided: Plan) -> None:
        """The options of all jobs."""
        for job in snapshot.jobs.values():
            shown = self.options.of(job, decided.jobs.get(job.id), snapshot.now)
            check("TrainingJob", dump(TrainingJobView(options=shown.rows, options_as_of=shown.as_of)))

    def shown(self, snapshot: Snapshot, decided: Plan) -> None:
        """The views of all objects."""
        for viewed in viewed_objects(snapshot, decided, {}):
            check(viewed.kind.name, dump(viewed.make(snapshot)))

    def reports_come(self) -> None:
        """Running jobs report, and the classes of some worlds are learned."""
        for name, running in self.world.jobs.items():
            if running.allocation is None or self.draw.random() < 0.2:
                continue
            try:
                said = ProgressReport.parse(json.dumps(report(self.draw)).encode())
            except Refused:
                continue
            told = running.interactive
            session = None if told is None else SessionOfRun(told.asks, running.allocation.since)
            self.board.report(name, running.allocation.run, said, self.world.now, session=session)
            self.collector.handle_report(name, running.allocation.run, said, self.world.now)
        if self.last is None:
            return
        self.collector.learn_sizes(self.last)
        for class_id in list(self.collector.classes):
            learned = digest(self.collector.learner, class_id, self.last)
            raw = self.profiles.get(class_id.name)
            if learned is None or raw is None:
                continue
            state = self.collector.learner.state(class_id)
            status = {
                "learned": {**dump(learned_record.curves_record(learned)), **dump(learned_record.class_record(state))}
            }
            learned_record.class_statistics(state, None)
            check("SpeedupProfile", status)
            read = decode.profile({**raw, "status": status})
            assert not read.unreadable, read.unreadable
            self.world.profiles[class_id] = read


def _balance(draw: Draw, world: World, calendar: Calendar) -> Balance:
    start = calendar.bounds(world.now)[0]
    spent, carried = (Money.parse(draw.of("1", *AMOUNTS)) for _ in range(2))
    return Balance(start, spent, spent, frozenset(), (), carried)


def _offered(draw: Draw, made: Pool, now: Instant) -> Pool:
    """The pool with what a cloud may say of it."""
    price, worst = sorted(Price.parse(draw.of("16", *PRICES)) for _ in range(2))
    quote = Quote(made.priced(price), made.priced(worst), draw.of(60, 0, 3600), "cloud", now)
    return replace(made, offering=Offering(made.id, draw.of(8, 1, 4, 16), "machine", "zone"), quote=quote)
