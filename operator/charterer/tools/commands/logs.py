"""``charterer logs`` prints the logs of a job's pods, or the stored last lines of a run whose pods are deleted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from charterer.api import decode
from charterer.api.names import COMPLETION_INDEX, LABEL_JOB_UID
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError, BadRequest, NotFound
from charterer.cluster.paths import PODS
from charterer.domain.job import Job, RunRecord
from charterer.domain.pod import Pod, PodPhase
from charterer.sentences import count, visible
from charterer.tools.commands.shared.cluster import ClusterOptions, call, cluster_options
from charterer.tools.commands.shared.completion import job_names, namespace_names
from charterer.tools.commands.shared.one_namespace import JobName, job_name, record_of
from charterer.workloads import INDEXED_JOB


@dataclass(frozen=True, slots=True)
class LogOptions:
    """``run`` is a run's number, or None for the latest with pods. ``tail`` is a number of lines per pod, or None for
    all.
    """

    run: int | None = None
    follow: bool = False
    tail: int | None = None


@dataclass(frozen=True, slots=True)
class PodLog:
    """A pod of a run and its training container.

    ``started`` says whether the pod has started, so that it may have a log.
    """

    name: str
    uid: str
    index: int
    container: str
    started: bool


@click.command()
@click.argument("name", metavar="[KIND/]NAME", shell_complete=job_names)
@click.option("-n", "--namespace", shell_complete=namespace_names, help="The job's. Default: the context's.")
@click.option("-f", "--follow", is_flag=True, help="Go on printing until the pods end.")
@click.option("--run", type=click.IntRange(min=1), help="Number of the run. Default: the latest that has pods.")
@click.option("--tail", type=click.IntRange(min=0), help="Number of last lines of each pod. Default: all.")
@cluster_options
def logs(
    name: str, namespace: str | None, follow: bool, run: int | None, tail: int | None, cluster: ClusterOptions
) -> None:
    """Print the logs of a job's current or last run, of its trainers' containers.

    With several pods, each line begins with the pod's index. When the pods are gone, which they are soon after their
    nodes, it prints how the run ended and the last lines that are kept in the job's status.

    \b
      charterer logs sft
      charterer logs job/sft -n research --follow
      charterer logs sft --run 2

    It only reads the cluster. Exit code: 0, or 1 for an error such as a job that does not exist.
    """
    job = job_name(name)
    options = LogOptions(run, follow, tail)
    call(cluster, lambda client: print_logs(client, job, namespace or client.access.namespace, options))


async def print_logs(client: Client, name: JobName, namespace: str, options: LogOptions) -> None:
    """Print the logs. Raises ClickException if the job or the run does not exist."""
    raw = await record_of(client, name, namespace)
    job = decode.training_job(raw).job
    runs = await pods_by_run(client, job)
    number = options.run or max(runs, default=job.last_run)
    if number in runs:
        pods = sorted(runs[number], key=lambda pod: pod.index)
        note(f"{job.run_title(number)}: {count(len(pods), 'pod')}")
        await _print_pods(client, namespace, pods, options)
        return
    record = next((record for record in job.records if record.number == number), None)
    if record is not None:
        _print_record(job, record)
    elif options.run is not None:
        known = ", ".join(str(record.number) for record in job.records) or "none"
        raise click.ClickException(f"{namespace}/{job.name} has no run {options.run}; those on record are: {known}")
    else:
        note(f"{namespace}/{job.name} has no pods: {waits(job, raw)}")


async def pods_by_run(client: Client, job: Job) -> Mapping[int, Sequence[PodLog]]:
    """Return the pods by run number.

    Pods count by their controller's uid, because anyone may write labels into pods.
    """
    labels = f"{LABEL_JOB_UID}={job.id}"
    if job.target is not None:
        return _of_target(job, (await client.list(PODS.all(job.namespace), labels=labels)).items)
    listed = (await client.list(INDEXED_JOB.kind.resource.all(job.namespace), labels=labels)).items
    runs = [found for raw in listed if (found := INDEXED_JOB.kind.decode(raw)) is not None]
    numbers = {run.uid: run.number for owner, run in runs if owner == job.id and run.owned}
    pods: dict[int, list[PodLog]] = {}
    for raw in (await client.list(PODS.all(job.namespace), labels=labels)).items:
        read = decode.pod(raw)
        if isinstance(read, decode.JobPod) and read.controller_uid in numbers:
            pods.setdefault(numbers[read.controller_uid], []).append(_pod_log(read.pod, read.pod.index, raw))
    return pods


def _of_target(job: Job, listed: Iterable[RawObject]) -> Mapping[int, Sequence[PodLog]]:
    """Return the pods of an adopted object. Pods without a completion index are numbered in order of name."""
    pods: dict[int, list[PodLog]] = {}
    for raw in sorted(listed, key=lambda raw: str(raw["metadata"]["name"])):
        read = decode.pod(raw)
        if isinstance(read, decode.JobPod) and read.adopted_for == job.id:
            of_run = pods.setdefault(read.pod.run, [])
            numbered = COMPLETION_INDEX in (raw["metadata"].get("annotations") or {})
            index = read.pod.index if numbered else len(of_run)
            of_run.append(_pod_log(read.pod, index, raw))
    return pods


def _pod_log(pod: Pod, index: int, raw: RawObject) -> PodLog:
    started = pod.phase in (PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED)
    return PodLog(pod.name, pod.uid, index, raw["spec"]["containers"][0]["name"], started)


async def _print_pods(client: Client, namespace: str, pods: Sequence[PodLog], options: LogOptions) -> None:
    query = {"follow": "true"} if options.follow else {}
    query |= {} if options.tail is None else {"tailLines": str(options.tail)}
    prints = [
        print_pod(client, namespace, pod, query, prefix=f"[{pod.index}] " if len(pods) > 1 else "") for pod in pods
    ]
    if options.follow:
        await asyncio.gather(*prints)
    else:
        for one in prints:
            await one


async def print_pod(client: Client, namespace: str, pod: PodLog, query: Mapping[str, str], prefix: str) -> None:
    """Print a pod's log with a prefix on each line, or the reason why there is none."""
    try:
        async for line in client.lines(
            f"{PODS.one(pod.name, namespace)}/log", query={**query, "container": pod.container}
        ):
            _print(line, prefix)
    except (BadRequest, NotFound) as error:
        note(f"{prefix}{pod.name}: {error.message}")
    except ApiError as error:
        note(f"{prefix}{pod.name}: its node does not answer: {error.message}")


def _print_record(job: Job, record: RunRecord) -> None:
    note(f"{job.run_title(record.number)} has ended ({record.outcome.value}), and its pods are gone. What is kept:")
    _print(record.message or "nothing: it printed no error")


def waits(job: Job, raw: Mapping[str, Any]) -> str:
    """Return why a job has no pods."""
    if job.finish is not None:
        return f"it has ended: {job.finish.message or job.finish.reason}"
    status = raw.get("status") or {}
    why = f" ({status['why']})" if status.get("why") else ""
    return f"it is {status.get('state') or 'new'}{why}; see charterer explain {job.name} -n {job.namespace}"


def _print(text: str, prefix: str = "") -> None:
    """Print a container's output. On a terminal, control characters are escaped.

    If a progress bar rewrote a line many times, a terminal gets only the last state of the line.
    """
    if sys.stdout.isatty():
        text = "\n".join(visible(line.rstrip("\r").rpartition("\r")[2]) for line in text.split("\n"))
    click.echo(prefix + text, color=True)


def note(text: str) -> None:
    """Print a message on stderr, because it is no line of a log."""
    click.echo(visible(text), file=sys.stderr)
