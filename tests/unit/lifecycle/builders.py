"""Values with everything filled in, for tests of the lifecycle and the ledger: say only what matters."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from charterer.domain.budget import Balance, Budget, Mode, Selector
from charterer.domain.ids import BudgetId, ClassId, InstanceId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import (
    Allocation,
    Job,
    Placement,
    Pod,
    PodPhase,
    ResizePolicy,
    Run,
    SpotPolicy,
    Widths,
)
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.option import Option
from charterer.domain.pool import (
    CapacityType,
    FailureKind,
    FakeGroup,
    Instance,
    InstanceState,
    LaunchFailure,
    Notice,
    Offering,
    Pool,
    PriceSegment,
    Quote,
    Survey,
)
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant, after, instant

T0 = instant(datetime(2026, 3, 10, 12, tzinfo=UTC))
"""When these tests begin: in the middle of a month."""
MARCH = instant(datetime(2026, 3, 1, tzinfo=UTC))
APRIL = instant(datetime(2026, 4, 1, tzinfo=UTC))
POOL = PoolId("a100")
TEAM = BudgetId("team")
PRICE = Price.parse("19.80")
LAG = 5.0
LISTED = 3600.0
OFFERING = Offering("NVIDIA-A100-SXM4-40GB", 4, "g.4", "z1")


def at(seconds: float) -> Instant:
    """Seconds after T0."""
    return after(T0, seconds)


def pool(**changes: Any) -> Pool:
    """A pool of 4-GPU nodes at $19.80 an hour."""
    fields: dict[str, Any] = {
        "id": POOL,
        "uid": "pool-uid",
        "resource_version": "1",
        "generation": 1,
        "cloud": FakeGroup("http://cloud", "g"),
        "max_nodes": 8,
        "capacity_type": CapacityType.ON_DEMAND,
        "start_seconds": 120.0,
        "cooldown_seconds": 300.0,
        "price_override": None,
        "offering": OFFERING,
        "quote": Quote(PRICE, PRICE, 60, "cloud", T0),
        "cooled_until": None,
        "cooled_because": "",
        "deleting": False,
        "guarded": True,
    }
    return Pool(**(fields | changes))


def balance(**changes: Any) -> Balance:
    """An empty balance of the month that T0 lies in."""
    fields: dict[str, Any] = {
        "period_start": MARCH,
        "settled": ZERO,
        "lifetime": ZERO,
        "folded": frozenset(),
        "history": (),
    }
    return Balance(**(fields | changes))


def budget(**changes: Any) -> Budget:
    """A budget of $1,000 a month that enforces, guarded and with its period open."""
    fields: dict[str, Any] = {
        "id": TEAM,
        "uid": "team-uid",
        "resource_version": "1",
        "generation": 1,
        "created": MARCH,
        "amount": Money.parse("1000"),
        "time_zone": "UTC",
        "selector": Selector((), ()),
        "mode": Mode.ENFORCE,
        "hard_limit": None,
        "max_hourly_rate": None,
        "opening_spend": ZERO,
        "weights": (),
        "balance": balance(),
        "deleting": False,
        "guarded": True,
    }
    return Budget(**(fields | changes))


def instance(name: str = "i1", **changes: Any) -> Instance:
    """A running instance launched at T0, with Node ``n-<name>``."""
    launched = changes.get("launched", T0)
    fields: dict[str, Any] = {
        "id": InstanceId(name),
        "state": InstanceState.RUNNING,
        "provider_id": f"fake://{name}",
        "node": NodeName(f"n-{name}"),
        "launched": launched,
        "ended": None,
        "segments": (PriceSegment(launched, PRICE),),
        "billing_minimum_seconds": 60,
    }
    return Instance(**(fields | changes))


def ended(machine: Instance, when: Instant) -> Instance:
    """The same instance after its end."""
    return Instance(
        machine.id,
        InstanceState.ENDED,
        machine.provider_id,
        machine.node,
        machine.launched,
        when,
        machine.segments,
        machine.billing_minimum_seconds,
        "Died",
    )


def rental(name: str = "a100-1", machine: Instance | None = None, **changes: Any) -> Rental:
    """A rental created at T0: Ready on ``machine``, or Requested where there is none."""
    fields: dict[str, Any] = {
        "id": RentalId(name),
        "uid": f"uid-{name}",
        "resource_version": "1",
        "pool": POOL,
        "budget": TEAM,
        "created": T0,
        "phase": RentalPhase.REQUESTED if machine is None else RentalPhase.READY,
        "reserved": Money.parse("19.80"),
        "worst": PRICE,
        "billing_minimum_seconds": 0 if machine is None else machine.billing_minimum_seconds,
        "segments": () if machine is None else machine.segments,
        "instance": None if machine is None else machine.id,
        "provider_id": "" if machine is None else machine.provider_id,
        "node": None if machine is None else machine.node,
        "launched": None if machine is None else machine.launched,
        "ready": None if machine is None else after(machine.launched, 60),
        "ended": None,
        "cost": None,
        "released_because": "",
        "deleting": False,
    }
    return Rental(**(fields | changes))


def node(name: str = "i1", **changes: Any) -> Node:
    """The ready Node of instance ``name``."""
    fields: dict[str, Any] = {
        "name": NodeName(f"n-{name}"),
        "uid": f"node-uid-{name}",
        "resource_version": "1",
        "provider_id": f"fake://{name}",
        "ready": True,
        "unschedulable": False,
        "deleting": False,
        "gpus": 4,
        "foreign_gpus": 0,
        "run_labels": {},
    }
    return Node(**(fields | changes))


def survey(*instances: Instance, target: int | None = None, asked: float = 600, **changes: Any) -> Survey:
    """What the cloud says ``asked`` seconds after T0; its target fits its instances unless told."""
    alive = sum(item.state in (InstanceState.PENDING, InstanceState.RUNNING) for item in instances)
    fields: dict[str, Any] = {
        "pool": POOL,
        "target": alive if target is None else target,
        "instances": instances,
        "failures": (),
        "notices": (),
        "asked": at(asked),
        "lag_seconds": LAG,
        "listed_seconds": LISTED,
        "offering": OFFERING,
    }
    return Survey(**(fields | changes))


def allocation(*rentals: str, run: int = 1, gpus: int = 4, since: Instant = T0) -> Allocation:
    """``gpus`` GPUs on each of the rentals."""
    places = tuple(Placement(RentalId(name), gpus) for name in rentals or ("a100-1",))
    option = Option(POOL, gpus * len(places), 1.0, Price(PRICE.micros_per_hour * len(places) * gpus // 4))
    return Allocation(run, option, places, since)


def pod(index: int = 0, run: int = 1, job: str = "sft", **changes: Any) -> Pod:
    """A running pod of the job's run on the Node of instance ``i1``."""
    fields: dict[str, Any] = {
        "name": f"{job}-r{run}-{index}",
        "uid": f"pod-uid-{job}-{run}-{index}",
        "run": run,
        "index": index,
        "gpus": 4,
        "node": NodeName("n-i1"),
        "phase": PodPhase.RUNNING,
        "ready": True,
        "deleting": False,
        "disrupted": False,
        "exit_code": None,
        "finished": None,
        "message": "",
        "allocation": "",
        "resource_version": "1",
    }
    return Pod(**(fields | changes))


def run(number: int = 1, *pods: Pod, job: str = "sft", **changes: Any) -> Run:
    """A Job that runs its pods, started at T0."""
    fields: dict[str, Any] = {
        "number": number,
        "name": f"{job}-r{number}",
        "uid": f"run-uid-{job}-{number}",
        "resource_version": "1",
        "completions": max(len(pods), 1),
        "suspended": False,
        "deleting": False,
        "created": T0,
        "started": T0,
        "complete": None,
        "failed": None,
        "failed_message": "",
        "pods": pods,
    }
    return Run(**(fields | changes))


def job(name: str = "sft", **changes: Any) -> Job:
    """A job that may be restarted with 4 to 16 GPUs and has its Service."""
    fields: dict[str, Any] = {
        "id": JobId(f"{name}-12345678-uid"),
        "namespace": "research",
        "name": name,
        "generation": 1,
        "resource_version": "1",
        "created": T0,
        "budget": TEAM,
        "class_id": ClassId.of_job(JobId(name)),
        "weight": 1.0,
        "widths": Widths(4, 4, 16),
        "gpu_types": (),
        "spot": SpotPolicy.NEVER,
        "resize": ResizePolicy.RESTART,
        "suspend": False,
        "deleting": False,
        "backoff_limit": 1,
        "max_restarts": 3,
        "ready_timeout_seconds": 600.0,
        "ttl_seconds_after_finished": None,
        "grace_seconds": 30,
        "pod_gpus": 4,
        "remaining": None,
        "progress": None,
        "allocation": None,
        "last_run": 0,
        "records": (),
        "failures": 0,
        "restarts": 0,
        "finish": None,
        "invalid": "",
        "runs": (),
        "replaced": (),
        "has_service": True,
    }
    return Job(**(fields | changes))


def world(
    *things: Budget | Pool | Survey | Rental | Node | Job, now: Instant | None = None, bare: bool = False
) -> Snapshot:
    """A snapshot of these things, ten minutes after T0; with the usual pool and budget unless ``bare``."""

    def of(kind: type, default: Iterable[Any] = ()) -> list[Any]:
        found = [thing for thing in things if isinstance(thing, kind)]
        return found or ([] if bare else list(default))

    return Snapshot(
        now=at(600) if now is None else now,
        budgets={item.id: item for item in of(Budget, [budget()])},
        pools={item.id: item for item in of(Pool, [pool()])},
        surveys={item.pool: item for item in of(Survey)},
        profiles={},
        jobs={item.id: item for item in of(Job)},
        rentals={item.id: item for item in of(Rental)},
        nodes={item.name: item for item in of(Node)},
    )


def failure(seconds: float, **changes: Any) -> LaunchFailure:
    """A stock-out, so many seconds after T0."""
    fields: dict[str, Any] = {"at": at(seconds), "kind": FailureKind.STOCK_OUT, "message": "no g.4 is left in z1"}
    return LaunchFailure(**(fields | changes))


def notice(name: str, seconds: float) -> Notice:
    """The cloud takes the instance back so many seconds after T0."""
    return Notice(InstanceId(name), at(seconds))
