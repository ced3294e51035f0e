"""The page over a real cluster: what a person sees with the rights that they have, and how the command ends."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from charterer.cluster.paths import TRAINING_JOBS
from tests.cluster.commands import charterer
from tests.cluster.test_own_jobs import a_rival_runs, engineer
from tests.testbed.bed import Bed, group
from tests.testbed.forks import fork_charterer


@asynccontextmanager
async def a_page(bed: Bed, directory: Path, kubeconfig: Path, *arguments: str) -> AsyncIterator[str]:
    """The address of ``charterer dashboard``, which Ctrl-C ends at the end, without a complaint."""
    out, err = directory / "out", directory / "err"
    process = fork_charterer("dashboard", "--no-browser", "--kubeconfig", str(kubeconfig), *arguments, out=out, err=err)
    try:
        found = await bed.until(lambda: out.exists() and re.search(r"The page is at (http://\S+)", out.read_text()))
        assert found, err.read_text()
        yield found[1]
        assert process.pid is not None
        os.kill(process.pid, signal.SIGINT)
        await bed.until(lambda: process.exitcode is not None)
        assert (process.exitcode, err.read_text()) == (0, "")
    finally:
        process.kill()
        process.join()


async def parts_until(url: str, enough: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """What the page's stream has brought as soon as it is enough."""
    parts: dict[str, Any] = {}
    async with aiohttp.ClientSession(read_bufsize=2**22) as session, session.get(f"{url}parts") as answer:
        assert answer.status == 200
        async for line in answer.content:
            if line.startswith(b"data: "):
                parts |= json.loads(line.removeprefix(b"data: "))
                if enough(parts):
                    return parts
    raise AssertionError("the stream ended")


def lane(parts: dict[str, Any], name: str) -> dict[str, Any]:
    return next((parts[key] for key in parts["lanes"] if parts[key]["name"] == name), {})


@pytest.mark.groups(group("a100", hourlyPrice="3600.00"))
async def test_the_page_shows_jobs_decisions_and_costs_as_they_come(bed: Bed, tmp_path: Path) -> None:
    bed.operator()
    await bed.pool(maxNodes=2)
    await bed.budget()
    await bed.job("pictured")
    await bed.running("pictured")
    async with a_page(bed, tmp_path, bed.plane.kubeconfig) as url:
        parts = await parts_until(url, lambda parts: lane(parts, "pictured").get("runs"))
        (run,) = lane(parts, "pictured")["runs"]
        assert (run["run"], run["pool"], run["gpus"], run["until"]) == (1, "a100", 4, None)
        planned = (await charterer(bed.plane.kubeconfig, "plan", "-o", "json")).json
        assert parts["plan"].keys() == planned.keys() - {"nobodyActs", "warnings"}
        assert parts["reading"]["nobodyActs"] is None
        told = [each for each in parts["decisions"] if each["name"] == "pictured" and each["reason"] == "Allocated"]
        assert told, parts["decisions"]
        # Two seconds: a run costs whole ones, and Kubernetes tells its end in whole ones.
        await parts_until(url, lambda parts: float(lane(parts, "pictured").get("cost", "0")) > 1)
        await bed.finish("pictured")
        await bed.complete("pictured")
        parts = await parts_until(url, lambda parts: lane(parts, "pictured").get("state") == "Complete")
        ended = [each for each in parts["decisions"] if each["reason"] == "RunComplete" and each["name"] == "pictured"]
        assert len(ended) == 1
        assert float(ended[0]["dollars"]) > 0


@pytest.mark.repeats  # tests/unit/cli/dashboard; test_own_jobs.py
async def test_who_may_read_one_namespace_sees_a_page_of_its_jobs_and_nothing_of_others(
    bed: Bed, tmp_path: Path
) -> None:
    bed.operator()
    await bed.pool(maxNodes=2)
    secrets = await a_rival_runs(bed)
    await bed.budget()
    await bed.job("mine")
    await bed.running("mine")
    async with a_page(bed, tmp_path, engineer(bed), "-n", bed.namespace) as url:
        parts = await parts_until(url, lambda parts: lane(parts, "mine").get("state") == "Running")
        assert len(parts["lanes"]) == 1
        assert lane(parts, "mine")["runs"]
        assert "these are the jobs of namespace" in parts["reading"]["warnings"][0]
        assert [each for each in parts["decisions"] if each["name"] == "mine"]
        said = json.dumps(parts)
        assert [secret for secret in secrets if re.search(rf"(?<![\w-]){re.escape(secret)}(?![\w-])", said)] == []
    await bed.kube.delete(TRAINING_JOBS.one("moonshot", secrets[0]))
    await bed.until(lambda: bed.mirror.one(TRAINING_JOBS, "moonshot", secrets[0]) is None)
