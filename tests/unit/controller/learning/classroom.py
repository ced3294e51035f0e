"""A world with a job whose reports are heard, and its class's profile as it would be written and read back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from charterer.api import decode
from charterer.api.models import learned_record
from charterer.api.models.base import dump
from charterer.api.models.machine_state import PackedStatistics, packed
from charterer.api.models.speedupprofile import SpeedupProfileRecord
from charterer.controller.learning.profile_writer import digest
from charterer.controller.learning.report_collector import ReportCollector
from charterer.domain.ids import BudgetId, ClassId, JobId
from charterer.domain.profile import Profile
from charterer.domain.reports import Progress
from charterer.server.progress import ProgressReport
from tests.worlds import World

CLASS = ClassId("team", "resnet")
UID = "0a1b2c3d-1111-2222-3333-444455556666"
SERIAL, SHARED = 0.1, 3.2
"""Seconds of a step of 256 samples: ``SERIAL`` and what the GPUs share of ``SHARED``."""


def step_seconds(gpus: int, batch: int = 256) -> float:
    """The truth."""
    return SERIAL + SHARED * batch / 256 / gpus


@dataclass
class Classroom:
    """Jobs of one class named ``sft``, … in ``world``; ``spec`` is that of the class's profile, if there is one."""

    world: World = field(default_factory=World)
    spec: dict[str, Any] | None = None
    status: dict[str, Any] = field(default_factory=dict)
    machine_state: PackedStatistics | None = None

    def __post_init__(self) -> None:
        if not self.world.pools:
            self.world.budget()
            self.world.pool("a100", gpus=8)
        self.collector = ReportCollector(self.world.snapshot)
        self.read()

    def runs(self, name: str = "sft", gpus: int = 8, hours_left: float | None = 100.0, most: int = 32) -> JobId:
        """A job of the class runs on whole nodes or a part of one."""
        job = self.world.job(name, gpus=(1, 8, most), profile="resnet", hours_left=hours_left)
        nodes = [self.world.rental() for _ in range(max(gpus // 8, 1))]
        self.world.runs_on(name, *(node.id for node in nodes), gpus=gpus)
        return job.id

    def says(self, job: JobId, batch: int = 256, times: int = 3, done: float = 0.1, **numbers: Any) -> int | None:
        """The job reports so many times, truly unless told otherwise; the last answer."""
        allocation = self.world.jobs[job].allocation
        assert allocation is not None
        seconds = numbers.pop("step_seconds", step_seconds(allocation.option.gpus, batch))
        report = ProgressReport(run=allocation.run, fraction=done, batch=batch, step_seconds=seconds, **numbers)
        answers = []
        for _ in range(times):
            self.world.passes(10.0)
            progress = Progress(allocation.run, done, None, None, self.world.now)
            self.world.jobs[job] = replace(self.world.jobs[job], progress=progress)
            answers.append(self.collector.handle_report(job, allocation.run, report, self.world.now))
        return answers[-1]

    def written(self) -> dict[str, Any]:
        """What would be written of the class now."""
        self.collector.learn_sizes(self.world.snapshot())
        self.collector.learn_failures(self.world.snapshot())
        found = digest(self.collector.learner, CLASS, self.world.snapshot())
        assert found is not None
        taught = self.collector.classes[CLASS]
        state = self.collector.learner.state(CLASS)
        self.machine_state, _ = packed(learned_record.class_statistics(state, taught.through))
        return {
            **dump(learned_record.curves_record(found)),
            **dump(learned_record.class_record(state, taught.failed.values(), taught.durations)),
        }

    def read(self) -> Profile | None:
        """The class's profile as the store would have it; it is created where something was learned."""
        if self.spec is None and not self.status:
            return None
        profile = replace(decode.profile(self.raw()), budget=BudgetId("research"))
        self.world.profiles[CLASS] = profile
        return profile

    def learn(self) -> Profile:
        """Write what was learned and read it back."""
        self.status = self.written()
        profile = self.read()
        assert profile is not None
        return profile

    def raw(self) -> dict[str, Any]:
        """The profile as the API server would send it."""
        return {
            "apiVersion": "charterer.dev/v1alpha1",
            "kind": "SpeedupProfile",
            "metadata": {
                "name": "resnet",
                "namespace": "team",
                "uid": UID,
                "resourceVersion": "1",
                "generation": 1,
                "creationTimestamp": "2026-06-01T00:00:00Z",
            },
            "spec": self.spec or {},
            "status": self._status(),
        }

    def _status(self) -> dict[str, Any]:
        if not self.status:
            return {}
        machine_state = {} if self.machine_state is None else {"machineState": dump(self.machine_state)}
        return {"learned": self.status, **machine_state}

    def restarted(self) -> ReportCollector:
        """A new operator's collector, which knows only what is written."""
        collector = ReportCollector(self.world.snapshot)
        record = SpeedupProfileRecord.model_validate(self.raw()["status"])
        statistics = record.statistics()
        assert record.learned is not None
        assert statistics is not None
        collector.restore(CLASS, UID, record.learned, statistics)
        return collector
