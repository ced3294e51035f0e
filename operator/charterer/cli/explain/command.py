"""``charterer explain``: why a job has this width on this pool now, and what would make another win."""

from __future__ import annotations

from pathlib import Path

import click

from charterer.cli.explain.document import explain_document
from charterer.cli.explain.explain_json import explain_json
from charterer.cli.shared.cluster import cluster_options, read
from charterer.cli.shared.output import FORMATS, ReadOnlyCommand, announce_when_slow, emit
from charterer.cli.shared.plan_report import PlanReport, plan_report
from charterer.cli.shared.similar_names import similar_names
from charterer.controller.snapshot.offline import snapshot_of
from charterer.domain.job import Job
from charterer.policy.explain.alternatives import Alternatives, alternatives

_PREFIXES = ("tj", "trainingjob", "trainingjobs", "trainingjob.charterer.dev", "trainingjobs.charterer.dev")


@click.command(cls=ReadOnlyCommand)
@click.argument("name", metavar="[tj/]NAME")
@click.option("-n", "--namespace", help="The job's; default: the context's.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format.")
@click.option("--all", "every", is_flag=True, help="Also the options that are slower and dearer than the job's.")
@cluster_options
def explain(
    name: str, namespace: str | None, output: str, every: bool, kubeconfig: Path | None, context: str | None
) -> None:
    """Explain why a job has this many GPUs of this pool now: every option it could have, in time and money.

    The chosen option is marked with *. An option is right exactly when its jobs' hours cost less than what the budget
    pays: "too dear" ones would save hours at more than that, and over "too slow" ones the chosen option saves hours for
    less. Then comes what alone would have to change for the nearest of them to win.

    \b
      charterer explain sft
      charterer explain tj/sft -n research
      charterer explain sft -o json | jq '.options[] | select(.rank == "too dear")'

    Exit code: 0, or 1 for an error such as no such job. It only reads the cluster.
    """
    wanted = job_name(name)
    sighting = read(kubeconfig, context)
    where = namespace or sighting.namespace
    with announce_when_slow("thinking"):
        thought = plan_report(snapshot_of(sighting.seen, sighting.now))
    job = find(thought, wanted, where)
    options = weigh(thought, job)
    emit(explain_document(thought, job, options, every=every), explain_json(thought, job, options), output)


def job_name(given: str) -> str:
    """The name in ``tj/NAME``, ``trainingjob/NAME`` or ``NAME``; click.BadParameter for another kind."""
    kind, slash, name = given.rpartition("/")
    if slash and kind.lower() not in _PREFIXES:
        raise click.BadParameter(f"{given!r}: only TrainingJobs can be explained; write tj/NAME (and -n NAMESPACE)")
    if not name:
        raise click.BadParameter(f"{given!r} names no job; write tj/NAME")
    return name


def find(thought: PlanReport, name: str, namespace: str) -> Job:
    """The job; ClickException with names like it, there or in other namespaces."""
    jobs = thought.snapshot.jobs.values()
    found = next((job for job in jobs if (job.namespace, job.name) == (namespace, name)), None)
    if found is not None:
        return found
    for problem in thought.snapshot.problems:
        if (problem.kind, problem.namespace, problem.name) == ("TrainingJob", namespace, name):
            raise click.ClickException(
                f"TrainingJob {namespace}/{name} cannot be read: {problem.field}: {problem.message}"
            )
    elsewhere = sorted(job.namespace for job in jobs if job.name == name)
    if elsewhere:
        hint = f"there is one in {', '.join(elsewhere[:3])}: add -n {elsewhere[0]}"
    else:
        hint = similar_names(name, [job.name for job in jobs if job.namespace == namespace])
    raise click.ClickException(f"no TrainingJob {name!r} in namespace {namespace}: {hint}")


def weigh(thought: PlanReport, job: Job) -> Alternatives | None:
    """The job's options; None for one that is not planned for."""
    standing = next((one for one in thought.standings if one.budget.id == job.budget), None)
    verdict = thought.plan.jobs.get(job.id)
    if standing is None or verdict is None or not job.wants_to_run:
        return None
    return alternatives(job, standing, verdict, thought.snapshot)
