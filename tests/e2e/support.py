"""What tests on real nodes share: a job's folder, what its processes wrote there, and changes of its width."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from charterer.cluster.paths import TRAINING_JOBS
from tests.testbed.real_bed import RealBed
from tests.testbed.training_pods import TrainingPod

T = TypeVar("T")

REAL_NODES = [
    pytest.mark.real_nodes,
    pytest.mark.xdist_group("real nodes"),  # one worker runs them all
    pytest.mark.long,
    pytest.mark.timeout(1200),  # with the wait for another process' real nodes
]
"""The marks of every test on real nodes."""
SCRIPTS = Path(__file__).parent / "scripts"
_LOOK_SECONDS = 0.05

Line = Mapping[str, Any]


def parts_pod(folder: Path, *, grace_seconds: int = 30, saves: Path | None = None, **environment: str) -> TrainingPod:
    """A pod of steps that read samples, compute and exchange (``parts.py``); ``saves``: where if not in its folder."""
    samples = folder.parent / "samples"
    samples.mkdir(exist_ok=True)
    with (samples / "samples").open("wb") as file:
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())  # what is not on the disk is not read from it
    folders = {} if saves is None else {"/saves": saves}
    return TrainingPod(
        SCRIPTS / "parts.py",
        folder,
        environment={**environment, **({"SAVES": at} if (at := next(iter(folders), "")) else {})},
        grace_seconds=grace_seconds,
        files={"/samples": samples},
        folders=folders,
    )


@dataclass(frozen=True, slots=True)
class Training:
    """A TrainingJob on real nodes, whose containers see ``folder`` as /checkpoints."""

    bed: RealBed
    name: str
    folder: Path

    @classmethod
    async def submit(
        cls, bed: RealBed, name: str, pod: TrainingPod, gpus: int = 1, most: int | None = None, **spec: object
    ) -> Training:
        """Create a job that asks for this width, or up to ``most``; the pod's checkpoints are its folder."""
        width = {"min": gpus, "preferred": gpus, "max": most or gpus}
        pod.checkpoints.mkdir(exist_ok=True)
        await bed.create("TrainingJob", name, {"gpus": width, "template": pod.template(), **spec})
        return cls(bed, name, pod.checkpoints)

    async def resize(self, gpus: int) -> None:
        """Its owner wants this width and no other."""
        await self._change(gpus={"min": gpus, "preferred": gpus, "max": gpus})

    async def suspend(self) -> None:
        """Its owner wants it to have nothing for now."""
        await self._change(suspend=True)

    async def _change(self, **spec: object) -> None:
        await self.bed.kube.merge_patch(TRAINING_JOBS.one(self.name, self.bed.namespace), {"spec": spec})

    def enough(self) -> None:
        """Its script may end now."""
        (self.folder / "enough").touch()

    def notes(self, what: str, **wanted: object) -> list[Line]:
        """The lines of its diary of that kind, in order, that say ``wanted``."""
        file = self.folder / "diary.jsonl"
        lines: list[Line] = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [line for line in lines if line["what"] == what and wanted.items() <= line.items()]

    async def noted(self, what: str, count: int = 1, seconds: float = 240, **wanted: object) -> list[Line]:
        """Wait until its diary has so many such lines."""

        def enough() -> list[Line]:
            lines = self.notes(what, **wanted)
            return lines if len(lines) >= count else []

        return await self.until(enough, seconds)

    async def ended_runs(self, count: int = 1) -> list[Mapping[str, Any]]:
        """Wait until its status tells of so many runs that have ended."""

        def ended() -> list[Mapping[str, Any]]:
            runs: list[Mapping[str, Any]] = self.bed.tj(self.name).get("runs") or []
            return runs if len(runs) >= count else []

        return await self.bed.until(ended)

    async def until(self, look: Callable[[], T], seconds: float = 240) -> T:
        """Wait for something that processes write, of which the cluster tells nobody."""
        try:
            async with asyncio.timeout(seconds):
                while not (seen := look()):  # noqa: ASYNC110 - files tell nobody
                    await asyncio.sleep(_LOOK_SECONDS)
                return seen
        except TimeoutError:
            raise AssertionError(f"not within {seconds:g} s\n{self.bed.describe()}") from None
