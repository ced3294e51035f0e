"""``charterer explain``: why a job has this width on this pool now, and what would make another win."""

from __future__ import annotations

import click

from charterer.cli.explain.document import explain_document
from charterer.cli.explain.explain_json import explain_json
from charterer.cli.explain.explanation import explain_job
from charterer.cli.explain.own_explanation import own_document, own_json
from charterer.cli.shared.cluster import ClusterOptions, MayNotRead, call, cluster_options, read
from charterer.cli.shared.job_name import JobName, job_name, none_of, why_not_adopted
from charterer.cli.shared.output import FORMATS, announce_when_slow, emit, with_warnings
from charterer.cli.shared.own_jobs import own_job
from charterer.cli.shared.plan_report import PlanReport, plan_report
from charterer.cli.shared.template_trials import with_trials
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.offline import snapshot_of
from charterer.domain.job import Job
from charterer.lifecycle.runs.adopted import not_adopted_because


@click.command()
@click.argument("name", metavar="[KIND/]NAME")
@click.option("-n", "--namespace", help="The job's. Default: the context's.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format.")
@click.option("--all", "every", is_flag=True, help="Also show options that are both slower and dearer than the job's.")
@cluster_options
def explain(name: str, namespace: str | None, output: str, every: bool, cluster: ClusterOptions) -> None:
    """Explain why a job has this many GPUs of this pool now: every option that it has, in time and money.

    The chosen option is marked with *. It is the right one if it saves hours for less than the budget pays for them,
    and no further hour can be saved at that price. A "too dear" option would save hours at a higher price; compared
    with a "too slow" one, the chosen option saves hours at a lower price. The last section says what would have to
    change for the nearest options to win.

    \b
      charterer explain sft
      charterer explain tj/sft -n research
      charterer explain job/whisper
      charterer explain sft -o json | jq '.options[] | select(.rank == "too dear")'

    It changes nothing: a template that the operator has not tried yet is tried by a dry run.

    If you may not read the whole cluster, it shows what the operator wrote into the job's status, at most 8 options.

    Exit code: 0, or 1 for an error such as a job that does not exist.
    """
    job = job_name(name)
    try:
        reading = read(cluster)
    except MayNotRead:
        _explain_own(job, namespace, output, every=every, cluster=cluster)
        return
    tried = with_trials(cluster, reading.state, {})
    with announce_when_slow("planning"):
        report = plan_report(snapshot_of(tried.state, reading.now))
    where = namespace or reading.namespace
    try:
        found = find_job(report, job, where)
    except click.ClickException as error:
        said = call(cluster, lambda client: why_not_adopted(client, job, where)) if job.kind else ""
        raise click.ClickException(error.message + said) from error
    decoded = reading.state.jobs.get(ObjectKey(found.namespace, found.name))
    explanation = explain_job(report, found, () if decoded is None else decoded.held_up)
    document = with_warnings(explain_document(explanation, every=every), (reading.trouble, *tried.warnings))
    plain = {**explain_json(explanation), "nobodyActs": reading.trouble or None, "warnings": tried.warnings}
    emit(document, plain, output)


def _explain_own(name: JobName, namespace: str | None, output: str, *, every: bool, cluster: ClusterOptions) -> None:
    own = own_job(cluster, name, namespace)
    (job,) = own.jobs
    emit(own_document(job, own.now, every=every), own_json(job, own.now), output)


def find_job(report: PlanReport, name: JobName, namespace: str) -> Job:
    """The job. ClickException with why there is none, or similar names, there or in other namespaces."""
    snapshot = report.snapshot
    meant = [job for job in snapshot.jobs.values() if name.means(job.name, job.target)]
    for job in meant:
        if job.namespace == namespace:
            return job
    for problem in snapshot.problems:
        if (problem.kind, problem.namespace, problem.name) == ("TrainingJob", namespace, name.name) and not name.kind:
            raise click.ClickException(
                f"TrainingJob {namespace}/{name.name} cannot be read: {problem.field}: {problem.message}"
            )
    for each in snapshot.candidates:
        target = each.target
        if (
            target.namespace == namespace
            and name.means("", target.ref)
            and (why := not_adopted_because(each, snapshot))
        ):
            raise click.ClickException(f"{name} in namespace {namespace} is not adopted: {why}")
    if elsewhere := sorted(job.namespace for job in meant):
        hint = f"there is one in {', '.join(elsewhere[:3])}: add -n {elsewhere[0]}"
        raise click.ClickException(f"no {name} in namespace {namespace}: {hint}")
    there = [job.name for job in snapshot.jobs.values() if job.namespace == namespace]
    raise click.ClickException(none_of(name, namespace, there))
