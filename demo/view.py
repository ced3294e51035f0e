"""Values of the live table and the picture, joined from raw objects, metrics and the replay. All functions are pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from demo import pods
from demo.pace import Pace
from demo.replay import Replayed
from demo.scenario import NAMESPACE, Scenario

Json = dict[str, Any]

_SAMPLE = re.compile(r"^(charterer_\w+)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SHOWN_DECISIONS = 4

EVENT_PATHS = tuple(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events" for namespace in ("default", NAMESPACE))
"""API paths of the events about cluster-scoped objects and about the jobs."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job. ``waited`` (since submission) and ``left`` are workload seconds. ``left`` is None while nothing runs."""

    name: str
    state: str
    gpus: int
    want: int
    asked: int
    pool: str
    fraction: float
    waited: float
    left: float | None
    dollars: float
    why: str


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool. ``phases`` counts nodes by phase of their rental. ``hourly`` is dollars per workload hour of a node.

    ``because`` is the kind of refusal while the state is Cooling.
    """

    name: str
    hourly: float
    phases: Mapping[str, int]
    most: int
    state: str
    because: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of the operator, with its message in workload seconds and prices."""

    at: str
    about: str
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class Money:
    """Dollars. Rates are per workload hour. ``spent`` is the cloud's bill since the replay began."""

    spent: float
    allowed: float
    hourly: float
    pays: float | None


@dataclass(frozen=True, slots=True)
class View:
    """The state of everything at workload second ``at`` of the replay."""

    at: float
    jobs: tuple[JobRow, ...]
    unsubmitted: int
    pools: tuple[PoolRow, ...]
    money: Money
    used_gpus: int
    rented_gpus: int
    decisions: tuple[Decision, ...]

    @property
    def complete(self) -> int:
        """The number of complete jobs."""
        return sum(job.state == "Complete" for job in self.jobs)

    def in_state(self, *states: str) -> list[JobRow]:
        """Return the jobs in any of these states."""
        return [job for job in self.jobs if job.state in states]


@dataclass(frozen=True, slots=True)
class Observed:
    """One observation of the API server, the operator and the cloud."""

    jobs: list[Json]
    rentals: list[Json]
    pools: list[Json]
    events: list[Json]
    metrics: str
    machines: list[Json]
    billed: float


def metric(text: str, name: str, **labels: str) -> float | None:
    """Return the value of a sample in Prometheus' text format, None if it is missing."""
    for sample, labelled, value in _SAMPLE.findall(text):
        if sample == name and labels.items() <= dict(_LABEL.findall(labelled)).items():
            return float(value)
    return None


def view(scenario: Scenario, replayed: Mapping[str, Replayed], at: float, observed: Observed) -> View:
    """Join an observation with the replay."""
    per_hour = 1 / scenario.pace.factor
    pays = metric(observed.metrics, "charterer_budget_exchange_rate_dollars_per_hour")
    rented = [machine for machine in observed.machines if machine["state"] != "Ended"]
    prices = {pool.name: pool.hourly_price for pool in scenario.pools}
    gpus = {pool.name: pool.gpus_per_node for pool in scenario.pools}
    cheapest = min(pool.hourly_price / pool.gpus_per_node for pool in scenario.pools) / 3600
    return View(
        at=at,
        jobs=tuple(
            _job_row(job, replayed, at, cheapest) for job in observed.jobs if job["metadata"]["name"] in replayed
        ),
        unsubmitted=sum(job.submitted is None for job in replayed.values()),
        pools=tuple(
            _pool_row(pool, observed.rentals, prices.get(pool["metadata"]["name"], 0.0)) for pool in observed.pools
        ),
        money=Money(
            spent=observed.billed,
            allowed=scenario.allowed(at),
            hourly=sum(prices[machine["group"]] for machine in rented),
            pays=None if pays is None else pays * per_hour,
        ),
        used_gpus=sum(pods.gpus(pod) for job in replayed.values() for pod in job.pods if pods.running(pod)),
        rented_gpus=sum(gpus[machine["group"]] for machine in rented),
        decisions=tuple(_decisions(observed.events, scenario.pace)),
    )


def _job_row(job: Json, replayed: Mapping[str, Replayed], at: float, gpu_second: float) -> JobRow:
    """Make a job's row.

    Its cost is at least its GPU-seconds times ``gpu_second``, the dollars of one in the cheapest pool.
    """
    replayed_job = replayed[job["metadata"]["name"]]
    status = job.get("status", {})
    ended = replayed_job.completed if replayed_job.completed is not None else at
    training = replayed_job.training
    return JobRow(
        name=job["metadata"]["name"],
        state=status.get("state", "New"),
        gpus=status.get("gpus", 0),
        want=status.get("wantGpus", 0),
        asked=replayed_job.job.asked,
        pool=status.get("pool", ""),
        fraction=training.fraction,
        waited=ended - (replayed_job.submitted or 0.0),
        left=None if training.current is None else max(0.0, training.finishes_at - at),
        dollars=max(float(status.get("cost", "0")), replayed_job.gpu_seconds(ended) * gpu_second),
        why=status.get("why", ""),
    )


def _cooled(status: Json) -> str:
    """Return the kind of the cloud's last refusal."""
    cooled = status.get("cooled", [])
    return str(cooled[-1]["kind"]) if cooled else ""


def _pool_row(pool: Json, rentals: Iterable[Json], hourly: float) -> PoolRow:
    name = pool["metadata"]["name"]
    phases = Counter(
        rental.get("status", {}).get("phase", "Requested") for rental in rentals if rental["spec"]["pool"] == name
    )
    status = pool.get("status", {})
    return PoolRow(name, hourly, phases, pool["spec"]["maxNodes"], status.get("state", ""), _cooled(status))


def _decisions(events: Iterable[Json], pace: Pace) -> list[Decision]:
    ours = [event for event in events if event.get("regarding", {}).get("apiVersion", "").startswith("charterer.dev/")]
    ours.sort(key=lambda event: event.get("eventTime") or event["metadata"]["creationTimestamp"])
    return [
        Decision(
            at=(event.get("eventTime") or event["metadata"]["creationTimestamp"])[11:19],
            about=f"{event['regarding']['kind']} {event['regarding']['name']}",
            reason=event.get("reason", ""),
            note=pace.told(event.get("note", "")),
        )
        for event in ours[-_SHOWN_DECISIONS:]
    ]
