"""The input of the demo: a window of the measured workload, the pools in demo/manifests, and their budget.

All values are in workload seconds and dollars. `demo.pace` speeds them up.
"""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property
from pathlib import Path
from zoneinfo import ZoneInfo

import yaml

from demo.pace import Json, Pace
from demo.tables import T4, Application, Submission, applications, submissions

MANIFESTS = Path(__file__).parent / "manifests"
NAMESPACE = "research"
BUDGET = "research"
MEAN_MONTH_HOURS = 730
IDLE_SECONDS = 600.0
"""Idle seconds after which a cluster autoscaler ends a node. This is the default of Kubernetes' own."""
FILES = {"fake": ("fakecloud", "pools"), "karpenter": ("karpenter-offers", "pools-karpenter")}
"""By cloud, the files of demo/manifests with its offers and with the pools."""
_SHORT = {"NVIDIA-A100-SXM4-40GB": "A100"}
"""Names of GPU types in sentences."""
_ADDRESSES = {"fake": "endpoint", "karpenter": "priceMetrics"}
"""By cloud, the field of a pool's spec with the cloud's address."""


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """A pool: price, start-up times and lifetimes of its nodes, and the cloud's stock.

    The fake cloud draws each start-up from ``start_seconds``, and each lifetime of a spot node from
    ``lifetime_seconds``. The simulation cycles through them.
    """

    name: str
    gpu_type: str
    gpus_per_node: int
    hourly_price: float
    start_seconds: tuple[float, ...]
    billing_minimum_seconds: int
    stock: int | None
    spot: bool
    lifetime_seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """A job to replay. ``work`` is in seconds on one T4, ``submitted`` in seconds after the start of the replay."""

    name: str
    application: Application
    submitted: float
    work: float
    asked: int

    def seconds(self, gpus: int, gpu_type: str = T4) -> float:
        """Return the seconds of its training on ``gpus`` GPUs of this type."""
        return self.work / self.application.speedup(gpus, gpu_type)


@dataclass(frozen=True)
class Scenario:
    """A window of the workload with the settings of its replay.

    ``epochs`` shortens long applications to this number of epochs. ``restart_seconds`` is the time from the start of a
    run's pods until training continues from the checkpoint. ``hand_over_seconds`` is the time in which Kubernetes and
    the operator replace a run by the next one. This time is in demo seconds, because the pace does not shorten it.
    ``most_pays`` is the most dollars that the budget pays per job-hour saved, None for the manifest's value. ``share``
    is a factor on the budget's amount. ``cloud`` is a key of ``FILES``.
    """

    window: tuple[float, float]
    epochs: Mapping[str, float]
    pace: Pace
    widest: int = 32
    restart_seconds: float = 30.0
    checkpoint_seconds: float = 300.0
    hand_over_seconds: float = 1.5
    most_pays: float | None = None
    share: float = 1.0
    cloud: str = "fake"

    @cached_property
    def applications(self) -> Mapping[str, Application]:
        """The measured applications by name."""
        return applications()

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The GPU types on offer. The first is the type for which the jobs' owners asked."""
        return tuple(sorted({pool.gpu_type for pool in self.pools}, key=lambda name: (name != T4, name)))

    @cached_property
    def pools(self) -> tuple[PoolPlan, ...]:
        """The pools, the cheapest first."""
        groups = load(FILES[self.cloud][0])[0]["groups"]
        pools = (
            PoolPlan(
                name=group["name"],
                gpu_type=group["gpuType"],
                gpus_per_node=group["gpusPerInstance"],
                hourly_price=float(group["hourlyPrice"]) * float(group.get("spotFactor", 1)),
                start_seconds=tuple(map(float, group["startupSeconds"])),
                billing_minimum_seconds=group["billingMinimumSeconds"],
                stock=group.get("stock"),
                spot=group.get("capacityType") == "Spot",
                lifetime_seconds=tuple(map(float, group.get("lifetimeSeconds", ()))),
            )
            for group in groups
        )
        return tuple(sorted(pools, key=lambda pool: pool.hourly_price))

    @property
    def beyond_asked(self) -> str:
        """Offers besides T4 on demand, in words. Empty if there are none.

        T4 on demand is what the jobs' owners asked for.
        """
        names = [_SHORT[gpu_type] for gpu_type in self.gpu_types if gpu_type != T4]
        return " and ".join(names + ["spot"] * any(pool.spot for pool in self.pools))

    @property
    def pays(self) -> float:
        """The most dollars that the budget pays to complete a job an hour earlier."""
        manifest = float(load("budget")[0]["spec"]["maxPaysPerHourSaved"])
        return manifest if self.most_pays is None else self.most_pays

    @cached_property
    def hourly_budget(self) -> float:
        """The budget in dollars per hour, for a month of mean length."""
        return self.share * float(load("budget")[0]["spec"]["amount"]) / MEAN_MONTH_HOURS

    def allowed(self, at: float) -> float:
        """Return the dollars that the budget allows up to second ``at``.

        The allowance grows only while jobs are submitted.
        """
        begin, end = self.window
        return self.hourly_budget * min(at, end - begin) / 3600

    def work(self, application: str) -> float:
        """Return the work of a job of this application in seconds on one T4, for its shortened number of epochs."""
        measured = self.applications[application]
        return measured.time(1) * self.epochs.get(application, measured.epochs) / measured.epochs

    @cached_property
    def jobs(self) -> tuple[ReplayJob, ...]:
        """The jobs submitted in the window, in order of submission."""
        begin, end = self.window

        def job(row: Submission) -> ReplayJob:
            application = self.applications[row.application]
            return ReplayJob(row.name, application, row.at - begin, self.work(row.application), row.gpus)

        return tuple(job(row) for row in submissions() if begin <= row.at < end)

    def arrivals_per_hour(self, application: str) -> float:
        """Return the application's jobs per hour of the window."""
        begin, end = self.window
        return sum(job.application.name == application for job in self.jobs) * 3600 / (end - begin)


_WINDOWS = {28: (230 * 60.0, 290 * 60.0), 160: (0.0, 480 * 60.0)}
"""Window in seconds of the workload by number of jobs: an hour with all six applications, and the whole workload."""


def workload(factor: int, jobs: int = 28, cloud: str = "fake") -> Scenario:
    """Return a scenario with this number of jobs, ``factor`` times faster. ``cloud`` is a key of ``FILES``.

    Raises KeyError for any number but 28 and 160.
    """
    return Scenario(
        cloud=cloud,
        window=_WINDOWS[jobs],
        epochs={"bert": 1, "deepspeech2": 40, "imagenet": 3, "yolov3": 8},
        pace=Pace(factor),
    )


def an_hour(factor: int, cloud: str = "fake") -> Scenario:
    """Return the hour of 28 jobs that the demo replays."""
    return workload(factor, cloud=cloud)


def load(name: str) -> list[Json]:
    """Load the documents of one file in demo/manifests."""
    return list(yaml.safe_load_all((MANIFESTS / f"{name}.yaml").read_text()))


def budget(scenario: Scenario, now: datetime) -> Json:
    """Make the budget as of now.

    The budget starts within the month with the share of the amount for the rest of the month. The amount is for a month
    of mean length, scaled to the length of this month. In the last hour of a month the budget gets a time zone in which
    the month lasts longer, so that no demo crosses into the next month.
    """
    (document,) = load("budget")
    last_hour = (now + timedelta(hours=1)).astimezone(UTC).month != now.astimezone(UTC).month
    zone = "Etc/GMT+12" if last_hour else "Etc/UTC"
    here = now.astimezone(ZoneInfo(zone))
    hours = calendar.monthrange(here.year, here.month)[1] * 24
    start = here.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    amount = Decimal(document["spec"]["amount"]) * Decimal(scenario.share) * hours / MEAN_MONTH_HOURS
    gone = Decimal((here - start).total_seconds()) / (hours * 3600)
    spec = {
        "amount": _cents(amount),
        "openingSpend": _cents(amount * gone),
        "timeZone": zone,
        "maxPaysPerHourSaved": _cents(Decimal(scenario.pays)),
    }
    return scenario.pace.sped_up(document | {"spec": document["spec"] | spec})


def _cents(dollars: Decimal) -> str:
    return str(dollars.quantize(Decimal("0.01"), ROUND_HALF_UP))


def pools(scenario: Scenario, address: str) -> list[Json]:
    """Make the GPUPools. ``address`` is the fake cloud's, or the URL of Karpenter's price metrics."""
    cloud, field = scenario.cloud, _ADDRESSES[scenario.cloud]
    return [
        scenario.pace.sped_up(pool | {"spec": pool["spec"] | {cloud: pool["spec"][cloud] | {field: address}}})
        for pool in load(FILES[cloud][1])
    ]


def sold(scenario: Scenario) -> Json:
    """Return the cloud's offers, in the fields of the fake cloud's configuration."""
    return scenario.pace.sped_up(load(FILES[scenario.cloud][0])[0])


def profiles(scenario: Scenario) -> list[Json]:
    """Make a SpeedupProfile for each application of the window, from the measured speed-up over one T4."""
    return [
        scenario.pace.sped_up(
            {
                "apiVersion": "charterer.dev/v1alpha1",
                "kind": "SpeedupProfile",
                "metadata": {"name": application.name, "namespace": NAMESPACE},
                "spec": {
                    "curves": [
                        {
                            "gpuType": gpu_type,
                            "throughput": [
                                {"gpus": gpus, "value": round(application.speedup(gpus, gpu_type), 4)}
                                for gpus, _ in application.seconds[gpu_type]
                                if gpus <= scenario.widest
                            ],
                        }
                        for gpu_type in scenario.gpu_types
                    ],
                    "meanWork": round(scenario.work(application.name), 1),
                    "arrivalsPerHour": round(scenario.arrivals_per_hour(application.name), 3),
                    "restartSeconds": scenario.restart_seconds
                    + scenario.pace.workload_seconds(scenario.hand_over_seconds),
                },
            }
        )
        for application in scenario.applications.values()
        if scenario.arrivals_per_hour(application.name)
    ]


def training_job(scenario: Scenario, job: ReplayJob) -> Json:
    """Make the TrainingJob of a submission. Its image is never run, because `demo.replay` simulates the training."""
    return {
        "apiVersion": "charterer.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": job.name, "namespace": NAMESPACE, "labels": {"app": job.application.name}},
        "spec": {
            "profileName": job.application.name,
            "gpus": {"min": 1, "preferred": min(job.asked, scenario.widest), "max": scenario.widest},
            "resizePolicy": "Restart",
            "spotPolicy": "Allowed",
            "template": {
                "spec": {
                    "terminationGracePeriodSeconds": 30,
                    "containers": [{"name": "trainer", "image": f"example.invalid/{job.application.name}:demo"}],
                }
            },
        },
    }
