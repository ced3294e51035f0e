"""A tests.worlds World as the command line would have seen it in a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import click
import pytest
from click.testing import CliRunner, Result

from charterer.api.decode import DecodedJob, DecodedNamespace, JobPod
from charterer.cli.main import main
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.offline import OtherJobs
from charterer.domain.errors import Problem
from charterer.domain.snapshot import NO_LIMITS, OperatorLimits, Stop
from charterer.tools.commands.shared.cluster import ClusterOptions, ClusterReading
from tests.unit.cli.dry_runs import DryRuns
from tests.worlds import NAMESPACE, World

Charterer = Callable[..., Result]
NO_OTHERS = OtherJobs()


def seen_of(world: World, *problems: Problem) -> ClusterState:
    """The world's objects under their names; its clouds have told nothing but what stands in the pools' status."""
    jobs = world.jobs.values()
    return ClusterState(
        jobs={ObjectKey(job.namespace, job.name): DecodedJob(job, "", "", template_verdict="") for job in jobs},
        profiles={ObjectKey(*class_id): profile for class_id, profile in world.profiles.items()},
        budgets={ObjectKey("", name): budget for name, budget in world.budgets.items()},
        pools={ObjectKey("", name): pool for name, pool in world.pools.items()},
        rentals={ObjectKey("", name): rental for name, rental in world.rentals.items()},
        runs={ObjectKey(NAMESPACE, run.name): (job.id, run) for job in jobs for run in job.runs},
        pods={
            ObjectKey(NAMESPACE, pod.name): JobPod(NAMESPACE, run.name, run.uid, pod)
            for job in jobs
            for run in job.runs
            for pod in run.pods
        },
        nodes={ObjectKey("", name): node for name, node in world.nodes.items()},
        namespaces={ObjectKey("", NAMESPACE): DecodedNamespace(NAMESPACE, {})},
        services={},
        problems=problems,
        surveys={},
        quotes={},
        refusals={},
        progress={},
    )


def charterer_over(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    *problems: Problem,
    others: OtherJobs = NO_OTHERS,
    limits: OperatorLimits = NO_LIMITS,
    stop: Stop | None = None,
) -> Charterer:
    """``charterer`` on the command line, over a cluster that holds the world and ``others``, and accepts all Jobs."""
    DryRuns().serve(monkeypatch)

    def read(cluster: ClusterOptions) -> ClusterReading:
        return ClusterReading(replace(seen_of(world, *problems), limits=limits, stop=stop), world.now, NAMESPACE)

    commands = ("plan.command", "report", "explain.command", "explain.quote", "simulate", "predict", "costs.command")
    for module in ("cli.mcp", "cli.run", *(f"tools.commands.{command}" for command in (*commands, "notify"))):
        monkeypatch.setattr(f"charterer.{module}.read", read)
    for command in ("report", "simulate"):
        monkeypatch.setattr(f"charterer.tools.commands.{command}.read_others", lambda cluster: others)

    def charterer(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(main, list(arguments), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit | click.exceptions.Exit):
            raise result.exception
        return result

    return charterer
