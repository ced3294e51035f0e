"""Objects as this version stores them, for the versions to come: ``tests/unit/api/stored/<version>.json``.

    python -m tests.unit.api.stored_objects

writes the file of the present version. Once the version is released it is kept as it is, because what that version
stored does not change any more; until then it is written anew only where what it stores was changed on purpose.
``test_stored_objects`` reads the files of all versions.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from charterer import __version__
from charterer.api import decode
from charterer.api.models.base import dump
from charterer.api.models.gpubudget_status import GPUBudgetRecord
from charterer.api.models.gpupool import GPUPoolRecord
from charterer.api.models.gpurental import GPURentalRecord
from charterer.api.models.trainingjob_status import TrainingJobRecord
from charterer.domain.budget import Balance, Cause, ClassHistory, Costs, DayCosts, PastPeriod
from charterer.domain.cost_row import Payer, RecordedCost, Use
from charterer.domain.ids import BudgetId, ClassId, InstanceId, NodeName, PoolId
from charterer.domain.job import Finish, FinishKind, Job, RunOutcome, RunRecord
from charterer.domain.money import Money, Price
from charterer.domain.pool import Offering, PriceSegment, Quote
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.reports import Progress
from charterer.domain.time import after, parse_instant
from charterer.workloads import INDEXED_JOB, RunEnvironment
from tests import factory
from tests.unit.api import values
from tests.unit.api.test_learned_record import taught, written

FOLDER = Path(__file__).with_name("stored")
NOW = parse_instant("2026-06-16T12:00:00Z")
Json = dict[str, Any]


def jobs() -> dict[str, Job]:
    """Jobs with all that a record can hold."""
    job = decode.training_job(values.raw_job()).job
    running = replace(
        job,
        allocation=replace(values.allocation(run=3), because="it saves 2 h"),
        replaced=(
            replace(values.allocation(run=1), stopped_because="spec.suspend is true"),
            replace(values.allocation(run=2), withdrawn_because="no image"),
        ),
        last_run=3,
        records=tuple(_ended(number, outcome) for number, outcome in enumerate(RunOutcome, start=4)),
        earlier_cost=Money(7_000_001),
        failures=1,
        restarts=2,
        start_failures=1,
        progress=Progress(3, 0.25, 100, 12.5, NOW),
        predicted=Money(51_000_000),
        moves=(NOW, after(NOW, 60.0)),
    )
    finish = Finish(FinishKind.COMPLETE, after(NOW, 3600.0), "Completed", "run 3 completed")
    return {
        "waiting": job,
        "running": running,
        "complete": replace(running, allocation=None, replaced=(), finish=finish),
        "failed": replace(job, finish=replace(finish, kind=FinishKind.FAILED, reason="CannotStart"), last_run=3),
        "invalid": replace(job, invalid="spec.template: unknown field"),
    }


def _ended(number: int, outcome: RunOutcome) -> RunRecord:
    gone = values.allocation(run=number)
    until = after(gone.since, 90.5)
    of_run = gone.option, gone.placements, gone.since, until
    return RunRecord(number, outcome, *of_run, "how", Money(number), 2, "why")


def rentals() -> dict[str, Rental]:
    """A rental in each phase."""
    rental = decode.rental(values.raw_rental())
    starting = replace(
        rental,
        phase=RentalPhase.STARTING,
        instance=InstanceId("i-1"),
        provider_id="fake://i-1",
        launched=NOW,
        segments=(
            PriceSegment(NOW, Price(12_000_000)),
            PriceSegment(after(NOW, 60.0), Price(11_500_001), Price(23_000_002)),
        ),
        billing_minimum_seconds=60,
    )
    ready = replace(starting, phase=RentalPhase.READY, node=NodeName("n-1"), ready=after(NOW, 30.0))
    draining = replace(
        ready,
        phase=RentalPhase.DRAINING,
        released_because="idle",
        released=after(NOW, 90.0),
        held_by="other/pod",
        missing_since=after(NOW, 95.0),
        named=after(NOW, 2.0),
    )
    payer = Payer("team", "sft", "uid-sft", 2, "team/sft", "ann@example.com", {"example.com/team": "vision"})
    uses = (Use(payer, 2, after(NOW, 31.0), after(NOW, 80.5)), Use(replace(payer, run=3), 4, after(NOW, 81.0)))
    used = replace(
        draining, uses=uses, uses_since=after(NOW, 30.5), recorded=RecordedCost(after(NOW, 60.0), Money(200_000), 1)
    )
    ended = replace(used, phase=RentalPhase.ENDED, ended=after(NOW, 100.0), cost=Money(333_334))
    return {
        str(rental.phase): rental
        for rental in (replace(rental, phase=RentalPhase.REQUESTED), starting, ready, draining, ended)
    }


LENT = {BudgetId("vision"): Money(5_000_000), BudgetId("speech"): Money(1)}
"""What others lent in a month that is over."""


def balance() -> Balance:
    """A ledger with all that it can hold."""
    start = parse_instant("2026-06-01T00:00:00Z")
    history = ClassHistory(
        jobs=2.5, predicted=99.5, actual=101.25, squares=3.5, since=start, at=NOW, arrivals=1.5, recent_arrivals=0.5
    )
    return Balance(
        period_start=start,
        settled=Money(123_456_789),
        lifetime=Money(987_654_321),
        folded=frozenset({"uid-1", "uid-2"}),
        history=(PastPeriod(parse_instant("2026-05-01T00:00:00Z"), Money(65_000_001), Money(60_000_000), LENT),),
        carried=Money(-5_000_001),
        class_history={ClassId("team", "sft"): history},
        jobs_cost=Money(100_000_001),
        counted={"uid-job": NOW},
        counted_through=start,
        costs=Costs(
            by_pool={(PoolId("a100"), cause): Money(number) for number, cause in enumerate(Cause, start=1)},
            by_namespace={"team": Money(1)},
            through=NOW,
            lifetime=Money(987_654_321),
            before={cause: Money(number) for number, cause in enumerate(Cause, start=1)},
            days=(DayCosts(start, {Cause.JOB: Money(1), Cause.IDLE: Money(2)}, {"team": Money(1)}),),
        ),
    )


def _pool() -> Json:
    offering = Offering("NVIDIA-A100-SXM4-40GB", 8, "fake.a100-8x", "fake-1a", group_id="g-1")
    pool = replace(
        decode.pool(values.raw_pool()),
        offering=offering,
        quote=Quote(Price(24_000_000), Price(32_000_000), 60, "cloud", NOW),
        cooled=factory.cooled(after(NOW, 300.0)),
    )
    return values.raw_pool(dump(GPUPoolRecord.from_domain(pool)))


def objects() -> dict[str, Json]:
    """The objects as they are stored, by what they show. A run's object is one of Kubernetes' own."""
    made = {
        f"TrainingJob/{name}": values.raw_job(dump(TrainingJobRecord.from_domain(job))) for name, job in jobs().items()
    }
    made |= {
        f"GPURental/{name}": values.raw_rental(dump(GPURentalRecord.from_domain(rental)))
        for name, rental in rentals().items()
    }
    made["GPUBudget/ledger"] = values.raw_budget(dump(GPUBudgetRecord.from_domain(balance())))
    made["GPUPool/cooling"] = _pool()
    made["SpeedupProfile/learned"] = _profile()
    made["Job/run"] = _run()
    return made


def _profile() -> Json:
    metadata = {**values.raw_job()["metadata"], "name": "sft", "namespace": "team", "uid": "uid-sft"}
    status = written(taught(1, (1, 2, 4), 60, [100.0, 200.0]))
    return {"kind": "SpeedupProfile", "metadata": metadata, "spec": {"restartSeconds": 30}, "status": status}


def _run() -> Json:
    raw, job = values.raw_job(), jobs()["running"]
    assert job.allocation is not None
    made: Json = dict(INDEXED_JOB.manifest(job, raw, job.allocation, RunEnvironment("https://progress", "CA")))
    made["metadata"] = {
        **made["metadata"],
        "uid": "uid-run",
        "resourceVersion": "1",
        "creationTimestamp": "2026-06-16T12:00:00Z",
    }
    return made


def main() -> None:
    """Write the file of the present version."""
    path = FOLDER / f"{__version__}.json"
    path.write_text(json.dumps(objects(), indent=1, sort_keys=True, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
