"""``charterer run`` reads the command line and submits a job by ``charterer.client``."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import click

from charterer import client as charterer_client
from charterer.cluster.client import Client, RawObject
from charterer.domain.job import Job, ResizePolicy, Widths
from charterer.domain.plan import ReasonCode
from charterer.domain.time import Instant, moment
from charterer.sentences import count
from charterer.tools.commands.logs import note, pods_by_run, print_pod, waits
from charterer.tools.commands.shared.cluster import ClusterOptions, call, cluster_options, read
from charterer.tools.commands.shared.completion import namespace_names, profile_names
from charterer.tools.commands.shared.options import TimeType, option_group
from charterer.tools.commands.shared.output import (
    CANNOT_RUN,
    FAILED,
    FORMATS,
    announce_when_slow,
    emit,
    screen_width,
    wants_colour,
    with_warnings,
)
from charterer.tools.documents.document import Document
from charterer.tools.submission.creation import Images, SubmittedJob, first_word, images, without_defaults
from charterer.tools.submission.manifest import NewJob, as_yaml, manifests

_LAST_LINES_SECONDS: Final = 10.0
"""Time limit in seconds for the log streams to end after the job has ended."""


class _Prints:
    """Prints what the pods of one job print, run after run, and what it waits for where it has none."""

    def __init__(self) -> None:
        self._prints: dict[str, asyncio.Task[None]] = {}
        self._runs: set[int] = set()
        self._told = ""

    def tell(self, text: str) -> None:
        """Print a sentence, unless it is the last one again."""
        if text != self._told:
            self._told = text
            note(text)

    async def look(self, client: Client, job: Job, raw: RawObject) -> None:
        """Begin to print pods that have started; once the job has ended, wait a while for their last lines."""
        runs = await pods_by_run(client, job)
        for number, pods in sorted(runs.items()):
            for pod in sorted(pods, key=lambda pod: pod.index):
                if pod.started and pod.uid not in self._prints:
                    if number not in self._runs:
                        self._runs.add(number)
                        self.tell(f"{job.run_title(number)}: {count(len(pods), 'pod')}")
                    prefix = f"[{pod.index}] " if len(pods) > 1 else ""
                    printing = print_pod(client, job.namespace, pod, {"follow": "true"}, prefix)
                    self._prints[pod.uid] = asyncio.create_task(printing)
        if job.finish is not None:
            if self._prints:
                await asyncio.wait(self._prints.values(), timeout=_LAST_LINES_SECONDS)
        elif not runs:
            self.tell(f"{job.namespace}/{job.name} has no pods: {waits(job, raw)}")


def next_line(job: SubmittedJob, status: Mapping[str, Any]) -> str:
    """Return one line about a new job: its present state, and the next command."""
    logs = f"charterer logs -f tj/{job.name} -n {job.namespace}"
    explain = f"charterer explain {job.name} -n {job.namespace}"
    if not status:
        what = "but no operator has said anything of it yet: charterer doctor says what is wrong"
    elif status.get("why") == ReasonCode.NO_BUDGET:
        what = "but no GPUBudget selects its namespace, so it waits until one does: ask whoever runs Charterer"
    elif status.get("why") == ReasonCode.NO_OPTION:
        what = f"but nothing that can be rented fits it: {explain} says why"
    elif status.get("state") == "Invalid":
        what = f"but it cannot run: {explain} says why"
    else:
        why = f" ({status['why']})" if status.get("why") else ""
        what = f"and is {status['state']}{why}: {logs}, or {explain}"
    return f"TrainingJob {job} is created, {what}"


class _Gpus(click.ParamType[Widths]):
    name = "N or N..M"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Widths:
        if isinstance(value, Widths):
            return value
        match = re.fullmatch(r"([0-9]{1,6})(?:\.\.([0-9]{1,6}))?", value)
        least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= least <= most:
            self.fail(f"{value!r}: write a number of GPUs, 4, or the least and the most, 4..32", param, ctx)
        return Widths(least, least, most)


class _PairOf(click.ParamType[tuple[str, str]]):
    """Parameter type of two texts with a separator."""

    def __init__(self, name: str, sign: str, left: str, what: str) -> None:
        self.name, self._sign, self._left, self._what = name, sign, re.compile(left), what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        left, sign, right = value.partition(self._sign)
        if not sign or not self._left.fullmatch(left) or (self._sign == ":" and not right.startswith("/")):
            self.fail(f"{value!r}: write {self.name}, {self._what}", param, ctx)
        return left, right


@dataclass(frozen=True, slots=True)
class _Asked:
    """The job as the command line describes it."""

    gpus: Widths
    image: str
    name: str
    profile: str | None
    gpu_types: tuple[str, ...]
    spot: bool
    resize: str
    max_cost: str | None
    complete_by: Instant | None
    env: tuple[tuple[str, str], ...]
    volumes: tuple[tuple[str, str], ...]
    git: str | None
    no_code: bool


_asked = option_group(
    "asked",
    _Asked,
    click.option("--gpus", type=_Gpus(), required=True, help="Number of GPUs, or the least and the most: 4..32."),
    click.option("--image", default="", help="Container image. Default: the namespace's (ConfigMap charterer-run)."),
    click.option("--name", default="", help="Of the TrainingJob. Default: the script's, and five random letters."),
    click.option(
        "--profile",
        shell_complete=profile_names,
        help="Class of the job, whose speed is learned: a SpeedupProfile's name.",
    ),
    click.option("--gpu-type", "gpu_types", multiple=True, help="GPU type that it can run on; may be repeated."),
    click.option("--spot", is_flag=True, help="It may run on spot nodes, and goes on from its checkpoint."),
    click.option(
        "--resize",
        type=click.Choice([policy.value for policy in ResizePolicy]),
        default=ResizePolicy.NEVER.value,
        help="How its width may change while it runs. Default: Never.",
    ),
    click.option("--max-cost", metavar="DOLLARS", help="Dollars that it may cost at most."),
    click.option("--complete-by", type=TimeType(), help="When it should be complete: 2026-12-01T18:00:00Z."),
    click.option(
        "--env",
        type=_PairOf("NAME=VALUE", "=", "[A-Za-z_][A-Za-z0-9_]*", "a variable of its environment"),
        multiple=True,
        help="Environment variable; may be repeated.",
    ),
    click.option(
        "--volume",
        "volumes",
        type=_PairOf(
            "CLAIM:/PATH", ":", "[a-z0-9]([-a-z0-9.]*[a-z0-9])?", "a PersistentVolumeClaim and where it is seen"
        ),
        multiple=True,
        help="PersistentVolumeClaim, for checkpoints; may be repeated.",
    ),
    click.option("--git", help="The pods fetch this commit ([URL@]COMMIT) instead of files from here."),
    click.option("--no-code", is_flag=True, help="The image has the code."),
)


@click.command(context_settings={"allow_interspersed_args": False})
@_asked
@click.option("-n", "--namespace", shell_complete=namespace_names, help="Default: the context's.")
@click.option("--dry-run", is_flag=True, help="Print the manifest, and create nothing.")
@click.option("--quote", is_flag=True, help="First say what it costs and when it ends, and keep that with the job.")
@click.option("-f", "--follow", is_flag=True, help="Print what its pods print until it has ended.")
@click.option("-o", "--output", type=click.Choice(FORMATS[1:]), help="Print the created job as JSON or YAML.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND...")
@cluster_options
def run(
    asked: _Asked,
    namespace: str | None,
    dry_run: bool,
    quote: bool,
    follow: bool,
    output: str | None,
    command: tuple[str, ...],
    cluster: ClusterOptions,
) -> None:
    """Submit a TrainingJob that runs a command, with the code of this directory.

    \b
      charterer run --gpus 8 --image acme/sft:1 -- torchrun train.py
      charterer run --gpus 4..32 --resize Restart --volume checkpoints:/checkpoints -- torchrun train.py
      charterer run --gpus 1 --follow -- python train.py && echo complete
      charterer run --gpus 8 --dry-run -- torchrun train.py > job.yaml
      charterer run --gpus 8 --quote -- torchrun train.py

    The files that git tracks in this directory and below go along as they are now (900 kB packed, at most), and the
    command runs among them. With --git the pods fetch a commit that was pushed, and with --no-code the image has the
    code.

    It needs the right to create TrainingJobs and ConfigMaps in the namespace, which the role edit has; --quote needs
    those of `charterer quote`. Exit code: 0, or 1 for an error; with --follow, 0 if the job is complete and 1 if it
    failed; with --quote, 5 if it cannot run: then nothing is created.
    """
    if output and (follow or dry_run):
        raise click.UsageError(f"--output {output} is of the created job: leave out --follow and --dry-run")
    new = charterer_client.new_job(
        command,
        gpus=(asked.gpus.min, asked.gpus.max),
        image=asked.image,
        name=asked.name,
        namespace=namespace,
        git=asked.git,
        no_code=asked.no_code,
        profile=asked.profile,
        gpu_types=asked.gpu_types,
        spot=asked.spot,
        resize=asked.resize,
        max_cost=None if asked.max_cost is None else asked.max_cost.removeprefix("$"),
        complete_by=None if asked.complete_by is None else moment(asked.complete_by),
        env=dict(asked.env),
        volumes=asked.volumes,
    )
    for warning in new.warnings:
        note(f"Warning: {warning}")
    if quote:
        new = _with_quote(cluster, new)
    if dry_run:
        found = without_defaults(new.image) if new.image else _defaults(cluster, namespace, new.image)
        click.echo(as_yaml(*manifests(replace(new, image=found.job, git_image=found.git))), nl=False)
        return
    job = charterer_client.submit(new, cluster)
    if follow:
        if not _followed(job, cluster):
            raise click.exceptions.Exit(FAILED)
        return
    with announce_when_slow("waiting for the operator's first word of it"):
        status = call(cluster, lambda client: first_word(client, job.namespace, job.name))
    line = next_line(job, status)
    if output is None:
        click.echo(line)
    else:
        plain = {**asdict(job), "state": status.get("state"), "reason": status.get("why"), "message": line}
        emit(Document(line, ()), plain, output)


def _followed(job: SubmittedJob, cluster: ClusterOptions) -> bool:
    """Print what its pods print until it has ended. Whether it is complete."""
    note(f"TrainingJob {job} is created")
    prints = _Prints()
    try:
        ended = charterer_client.wait(job, cluster, tell=prints.tell, look=prints.look)
    except KeyboardInterrupt:
        where = f"{job.name} -n {job.namespace}"
        note(f"\nthe job goes on: charterer logs -f tj/{where} prints, and kubectl delete tj {where} ends it")
        raise click.exceptions.Exit(130) from None
    note(f"{job} has ended: {ended.reason}{f': {ended.message}' if ended.message else ''}")
    return ended.complete


def _with_quote(cluster: ClusterOptions, new: NewJob) -> NewJob:
    """Quote the job, print the quote on stderr, and store it with the job. Exits if the job cannot run.

    The planner is imported late, because the import takes a second and only a quote needs it.
    """
    from charterer.tools.commands.explain.quote import quote_document, quoted
    from charterer.tools.commands.shared.what_if import ManifestSource
    from charterer.tools.documents.html import TextRenderer

    reading = read(cluster)
    namespace = new.namespace or reading.namespace
    found = without_defaults(new.image) if new.image else _defaults(cluster, namespace, new.image)
    complete = replace(new, namespace=namespace, image=found.job, git_image=found.git)
    training_job, _ = manifests(complete)
    source = ManifestSource("the command line", training_job)
    given = quoted(cluster, reading, [source], namespace, None)
    document = with_warnings(quote_document(given.answer), (reading.trouble, *given.warnings))
    click.echo(TextRenderer(screen_width(), colour=wants_colour()).render(document).lstrip("\n"), nl=False, err=True)
    if given.answer.exit_code == CANNOT_RUN:
        raise click.exceptions.Exit(CANNOT_RUN)
    return replace(complete, quote=given.answer.kept)


def _defaults(cluster: ClusterOptions, namespace: str | None, image: str) -> Images:
    return call(cluster, lambda client: images(client, namespace or client.access.namespace, image))
