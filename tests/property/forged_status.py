"""Worlds in which statuses say what nobody of Charterer's wrote: forged by a user, or garbled by another version.

A world is drawn from a seed. Two budgets pay for a namespace each and rent from the same pools. All objects are JSON as
the API server has them, read as the operator reads them; ``forge`` changes statuses at random before they are read.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar

from charterer.api import decode, manifests
from charterer.api.decode import DecodedNamespace, JobPod
from charterer.api.models.base import dump
from charterer.api.models.gpubudget_status import GPUBudgetRecord
from charterer.api.models.gpurental import GPURentalRecord
from charterer.api.models.trainingjob_status import TrainingJobRecord
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.observe import observe
from charterer.domain.budget import Budget, Selector
from charterer.domain.errors import InvalidObject, Problem
from charterer.domain.ids import JobId
from charterer.domain.job import Job, ResizePolicy
from charterer.domain.money import ZERO
from charterer.domain.plan import Reason, ReasonCode, Rent
from charterer.domain.profile import Amdahl
from charterer.domain.reasons.nodes import AnyDemand
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import format_instant
from charterer.policy.planner import plan
from tests.property.schema_check import check
from tests.unit.cli.worlds import seen_of
from tests.worlds import World

Json = dict[str, Any]
T = TypeVar("T")

HONEST, EVIL = "honest", "evil"
"""The names of the two budgets, and of the namespaces that they pay for."""
_NUMBERS = (0, 1, -1, 2, 7, -(10**9), 2**31, 10**9, 10**18, 2**63 - 1, 0.5, -0.5, 5e-324, 1e308, -1e308)
_TIMES = (
    "0001-01-01T00:00:00Z",
    "1970-01-01T00:00:00Z",
    "2026-06-15T23:59:59Z",
    "2026-06-16T09:00:00Z",
    "2027-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
)
_AMOUNTS = ("0", "0.000001", "12.5", "999999999999.999999")
_WORDS = (
    "",
    "nobody",
    "Ready",
    "Ended",
    "Requested",
    "Complete",
    "NotStarted",
    "Unheard",
    "x" * 300,
    *_TIMES,
    *_AMOUNTS,
)


@dataclass
class Stored:
    """The objects with a status as the API server has them, by kind and name."""

    jobs: dict[str, Json] = field(default_factory=dict)
    rentals: dict[str, Json] = field(default_factory=dict)
    budgets: dict[str, Json] = field(default_factory=dict)


class TwoTeams:
    """A world of two budgets that was drawn from a seed, with what runs, starts, drains and has ended."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = Random(seed)
        self.world = world = World()
        for name in (HONEST, EVIL):
            made = world.budget(name, amount=draw.choice(["60000", "600000"]))
            selector = Selector((("kubernetes.io/metadata.name", name),), ())
            world.budgets[made.id] = replace(made, selector=selector, guarded=True)
        for name in ("a100", "h100")[: draw.randint(1, 2)]:
            world.pool(name, gpus=draw.choice([4, 8]), max_nodes=1000, start_seconds=1.0)
        world.profile("sft", Amdahl(0.97, 1.0), work_hours=draw.choice([0.5, 40.0]))
        for number in range(draw.randint(2, 6)):
            self._job(f"{draw.choice([HONEST, EVIL])}-{number}")
        for _ in range(draw.randint(1, 3)):
            world.carry_out(plan(world.snapshot()))
            if draw.random() < 0.85:
                world.everything_starts()
            world.passes(draw.choice([0.0, 60.0, 7200.0]))
            if world.jobs and draw.random() < 0.4:
                name = draw.choice(sorted(world.jobs))
                world.jobs[name] = replace(world.jobs[name], suspend=not world.jobs[name].suspend)
        self.stored = self._as_stored()

    def _job(self, name: str) -> None:
        draw, team = self.draw, name.partition("-")[0]
        widths: list[int | tuple[int, int, int]] = [1, 4, 8, (1, 4, 16)]
        width = draw.choice(widths)
        resize = draw.choice(list(ResizePolicy))
        made = self.world.job(name, gpus=width, budget=team, resize=resize, age_seconds=draw.randrange(1000))
        self.world.jobs[made.id] = replace(made, namespace=team, pod_gpus=0)

    # --- as it is stored ----------------------------------------------------------------------------------------------

    def _as_stored(self) -> Stored:
        world = self.world
        return Stored(
            {name: _raw_job(job) for name, job in world.jobs.items()},
            {name: _raw_rental(rental, world) for name, rental in world.rentals.items()},
            {name: _raw_budget(budget) for name, budget in world.budgets.items()},
        )

    def look(self, stored: Stored) -> Snapshot:
        """What the operator sees when these objects are stored."""
        seen = seen_of(self.world)
        problems: list[Problem] = []
        jobs = _read(decode.training_job, stored.jobs.values(), problems)
        rentals = _read(decode.rental, stored.rentals.values(), problems)
        budgets = _read(decode.budget, stored.budgets.values(), problems)
        spaces = {name: job.namespace for name, job in self.world.jobs.items()}
        state = ClusterState(
            jobs=jobs,
            profiles=seen.profiles,
            budgets=budgets,
            pools=seen.pools,
            rentals=rentals,
            runs={ObjectKey(spaces[job], key.name): (job, run) for key, (job, run) in seen.runs.items()},
            pods={
                ObjectKey(spaces[job], pod.name): JobPod(spaces[job], run.name, run.uid, pod)
                for job, run in seen.runs.values()
                for pod in run.pods
            },
            nodes=seen.nodes,
            namespaces={
                ObjectKey("", name): DecodedNamespace(name, {"kubernetes.io/metadata.name": name})
                for name in (HONEST, EVIL)
            },
            services={ObjectKey(spaces[name], name): JobId(name) for name in self.world.jobs},
            problems=tuple(problems),
            surveys=self.world.snapshot().surveys,
            quotes={},
            refusals=dict.fromkeys(self.world.jobs, ""),
            progress={},
        )
        return observe(state, self.world.now)

    # --- forging ------------------------------------------------------------------------------------------------------

    def forged(self, *, only_evil_jobs: bool) -> Stored:
        """The stored objects with some statuses forged, most of them so that the API server takes them."""
        stored, draw = copy.deepcopy(self.stored), self.draw
        jobs = [raw for raw in stored.jobs.values() if raw["metadata"]["namespace"] == EVIL or not only_evil_jobs]
        objects = jobs if only_evil_jobs else [*jobs, *stored.rentals.values(), *stored.budgets.values()]
        for raw in draw.sample(objects, min(len(objects), draw.randint(1, 3))):
            accepted = only_evil_jobs or draw.random() < 0.7
            for _ in range(draw.choice([1, 1, 2, 5])):
                self._forge(raw, accepted=accepted)
        return stored

    def _forge(self, raw: Json, *, accepted: bool) -> None:
        for _ in range(20):
            status = copy.deepcopy(raw["status"])
            if raw["kind"] == "TrainingJob" and self.draw.random() < 0.5:
                self._allocate(status)
            else:
                self._change(status)
            if not accepted or _taken(raw["kind"], status):
                raw["status"] = status
                return

    def _allocate(self, status: Json) -> None:
        """An allocation of nodes of anybody, or of nobody."""
        draw, rentals = self.draw, [*sorted(self.world.rentals), "nobody"]
        gpus = draw.choice([1, 4, 8, 8, 0, -4, 10**9])
        places = [{"rental": draw.choice(rentals), "gpus": gpus} for _ in range(draw.choice([1, 1, 2, 3, 0]))]
        option = {
            "pool": draw.choice(["a100", "h100", "nowhere"]),
            "speed": draw.choice([1.0, 1.0, 0.0, -1.0, 5e-324]),
            "gpus": gpus * len(places) + draw.choice([0, 0, 0, 1]),
            "hourly": draw.choice(_AMOUNTS),
        }
        said = status.get("lastRun")
        last = said if isinstance(said, int) else 0
        run = draw.choice([1, 2, 2, 0, -1, 10**9, last + 1])
        made = {
            "run": run,
            "option": option,
            "placements": places,
            "since": draw.choice([*_TIMES, format_instant(self.world.now)]),
        }
        if draw.random() < 0.7:
            status["allocation"] = made
            status["lastRun"] = max(run, last) if draw.random() < 0.8 else 0
        else:
            status["replaced"] = [made]

    def _change(self, node: Any) -> None:
        draw = self.draw
        if isinstance(node, dict) and node:
            key = draw.choice(sorted(node))
            if isinstance(node[key], dict | list) and draw.random() < 0.8:
                self._change(node[key])
            elif draw.random() < 0.15:
                del node[key]
            else:
                node[key] = self._other(node[key])
        elif isinstance(node, list) and node:
            at = draw.randrange(len(node))
            match draw.randrange(4):
                case 0:
                    node.append(copy.deepcopy(node[at]))
                case 1:
                    del node[at]
                case _ if isinstance(node[at], dict | list):
                    self._change(node[at])
                case _:
                    node[at] = self._other(node[at])

    def _other(self, value: Any) -> Any:
        draw = self.draw
        if draw.random() < 0.1:
            return draw.choice([None, True, [], {}, *_NUMBERS, *_WORDS])
        if isinstance(value, bool):
            return not value
        if isinstance(value, int | float):
            return draw.choice(_NUMBERS)
        if isinstance(value, str):
            return draw.choice([*_WORDS, *_TIMES, *sorted(self.world.rentals)])
        return value


def _taken(kind: str, status: Json) -> bool:
    """Whether the API server takes the status."""
    try:
        check(kind, status)
    except AssertionError:
        return False
    return True


def _read(read: Callable[[Json], T], raws: Iterable[Json], problems: list[Problem]) -> Mapping[ObjectKey, T]:
    """The objects as the store keeps them; those that cannot be read are problems."""
    found = {}
    for raw in raws:
        metadata = raw["metadata"]
        try:
            found[ObjectKey(metadata.get("namespace") or "", metadata["name"])] = read(raw)
        except InvalidObject as error:
            problems.append(error.problem)
    return found


def _raw(kind: str, name: str, namespace: str, uid: str, created: str, spec: Json, status: Json) -> Json:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": created,
    }
    return {"kind": kind, "metadata": metadata, "spec": spec, "status": status}


def _raw_job(job: Job) -> Json:
    widths = {"min": job.widths.min, "preferred": job.widths.preferred, "max": job.widths.max}
    containers = [{"name": "trainer", "image": "train:1"}]
    template = {"spec": {"terminationGracePeriodSeconds": job.grace_seconds, "containers": containers}}
    spec = {"gpus": widths, "resizePolicy": job.resize.value, "suspend": job.suspend, "template": template}
    status = dump(TrainingJobRecord.from_domain(job))
    return _raw("TrainingJob", job.name, job.namespace, job.id, format_instant(job.created), spec, status)


def _raw_rental(rental: Rental, world: World) -> Json:
    why = Reason(ReasonCode.DEMAND, 0.0, ZERO, AnyDemand(ZERO))
    rent = Rent(rental.id, rental.pool, rental.budget, rental.reserved, rental.worst, why)
    spec = manifests.rental(rent, world.pools[rental.pool])["spec"]
    status = dump(GPURentalRecord.from_domain(rental))
    return _raw("GPURental", rental.id, "", rental.uid, format_instant(rental.created), spec, status)


def _raw_budget(budget: Budget) -> Json:
    (label,) = budget.selector.match_labels
    spec = {"amount": budget.amount.decimal(), "namespaceSelector": {"matchLabels": dict([label])}}
    status = dump(GPUBudgetRecord.from_domain(budget.balance))
    raw = _raw("GPUBudget", budget.id, "", budget.uid, format_instant(budget.created), spec, status)
    raw["metadata"]["finalizers"] = ["charterer.dev/in-use"]
    return raw
