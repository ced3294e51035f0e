"""``charterer run``: the smallest way to submit a job."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from charterer.cli.logs import note
from charterer.cli.run.code_archive import archive_of
from charterer.cli.run.follow import Follower
from charterer.cli.run.git import GitSource, git_source
from charterer.cli.run.manifest import SubmittedJob, Volume, as_yaml, manifests
from charterer.cli.run.secret_names import secret_variables
from charterer.cli.run.submit import (
    Images,
    create,
    first_word,
    images,
    next_line,
    unless_paid_for,
    unless_too_wide,
    without_defaults,
)
from charterer.cli.shared.cluster import ClusterOptions, call, cluster_options
from charterer.cli.shared.option_groups import option_group
from charterer.cli.shared.output import FAILED
from charterer.cluster.client import Client
from charterer.domain.job import ResizePolicy
from charterer.domain.jobs.widths import Widths
from charterer.domain.money import Money
from charterer.domain.time import Instant, parse_instant
from charterer.sentences import names

_LONGEST_NAME: Final = 45
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Letters for random parts of names, as Kubernetes has them: no vowels, so that no words come out."""


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
    """Two texts with a sign between them."""

    def __init__(self, name: str, sign: str, left: str, what: str) -> None:
        self.name, self._sign, self._left, self._what = name, sign, re.compile(left), what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        left, sign, right = value.partition(self._sign)
        if not sign or not self._left.fullmatch(left) or (self._sign == ":" and not right.startswith("/")):
            self.fail(f"{value!r}: write {self.name}, {self._what}", param, ctx)
        return left, right


class _Dollars(click.ParamType[Money]):
    name = "dollars"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Money:
        if isinstance(value, Money):
            return value
        try:
            amount = Money.given(value.removeprefix("$"))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if amount.micros <= 0:
            self.fail(f"{value!r}: a job that may cost nothing can never run", param, ctx)
        return amount


class _Time(click.ParamType[Instant]):
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Instant:
        if isinstance(value, int):
            return Instant(value)
        try:
            return parse_instant(value)
        except ValueError as error:
            self.fail(f"{value!r}: write date and time with a zone, 2026-12-01T18:00:00Z ({error})", param, ctx)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the job is to have, as the command line says."""

    gpus: Widths
    image: str
    name: str
    profile: str | None
    gpu_types: tuple[str, ...]
    spot: bool
    resize: str
    max_cost: Money | None
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
    click.option("--profile", help="Class of the job, whose speed is learned: a SpeedupProfile's name."),
    click.option("--gpu-type", "gpu_types", multiple=True, help="GPU type that it can run on; may be repeated."),
    click.option("--spot", is_flag=True, help="It may run on spot nodes, and goes on from its checkpoint."),
    click.option(
        "--resize",
        type=click.Choice([policy.value for policy in ResizePolicy]),
        default=ResizePolicy.NEVER.value,
        help="How its width may change while it runs. Default: Never.",
    ),
    click.option("--max-cost", type=_Dollars(), help="Dollars that it may cost at most."),
    click.option("--complete-by", type=_Time(), help="When it should be complete: 2026-12-01T18:00:00Z."),
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
@click.option("-n", "--namespace", help="Default: the context's.")
@click.option("--dry-run", is_flag=True, help="Print the manifest, and create nothing.")
@click.option("-f", "--follow", is_flag=True, help="Print what its pods print until it has ended.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND...")
@cluster_options
def run(
    asked: _Asked,
    namespace: str | None,
    dry_run: bool,
    follow: bool,
    command: tuple[str, ...],
    cluster: ClusterOptions,
) -> None:
    """Submit a TrainingJob that runs a command, with the code of this directory.

    \b
      charterer run --gpus 8 --image acme/sft:1 -- torchrun train.py
      charterer run --gpus 4..32 --resize Restart --volume checkpoints:/checkpoints -- torchrun train.py
      charterer run --gpus 1 --follow -- python train.py && echo complete
      charterer run --gpus 8 --dry-run -- torchrun train.py > job.yaml

    The files that git tracks in this directory and below go along as they are now (900 kB packed, at most), and the
    command runs among them. With --git the pods fetch a commit that was pushed, and with --no-code the image has the
    code.

    It needs the right to create TrainingJobs and ConfigMaps in the namespace, which the role edit has. Exit code: 0, or
    1 for an error; with --follow, 0 if the job is complete and 1 if it failed.
    """
    if asked.git is not None and asked.no_code:
        raise click.UsageError("--git and --no-code exclude each other: does the image have the code, or not?")
    here = Path.cwd()
    code = None if asked.no_code else archive_of(here) if asked.git is None else git_source(here, asked.git)
    for warning in () if code is None else code.warnings:
        note(f"Warning: {warning}")
    if secret := secret_variables(name for name, _ in asked.env):
        note(
            f"Warning: {names(secret)} may be secret, and whoever may read the job sees it: begin with --dry-run, and "
            "take it from a Secret by valueFrom.secretKeyRef"
        )
    told = _submission(asked, namespace, command, code if code is None or isinstance(code, GitSource) else code.content)
    if dry_run:
        found = without_defaults(told.image) if told.image else _defaults(cluster, namespace, told.image)
        click.echo(as_yaml(*manifests(replace(told, image=found.job, git_image=found.git))), nl=False)
        return
    try:
        complete = call(cluster, lambda client: _submit(client, told, follow))
    except KeyboardInterrupt:
        where = f"{told.name} -n {namespace}" if namespace else told.name
        note(f"\nthe job goes on: charterer logs -f tj/{where} prints, and kubectl delete tj {where} ends it")
        raise click.exceptions.Exit(130) from None
    if not complete:
        raise click.exceptions.Exit(FAILED)


def _submission(
    asked: _Asked, namespace: str | None, command: Sequence[str], code: bytes | GitSource | None
) -> SubmittedJob:
    return SubmittedJob(
        name=asked.name or _name_for(command),
        namespace=namespace,
        image=asked.image,
        command=tuple(command),
        gpus=asked.gpus,
        code=code,
        git_image="",
        environment=dict(asked.env),
        volumes=tuple(Volume(claim, path) for claim, path in asked.volumes),
        profile=asked.profile,
        gpu_types=asked.gpu_types,
        spot=asked.spot,
        resize=ResizePolicy(asked.resize),
        max_cost=asked.max_cost,
        complete_by=asked.complete_by,
    )


def _name_for(command: Sequence[str]) -> str:
    """After the script, as far as it can be told, so that names say something in a list."""
    script = next((word for word in command if word.endswith((".py", ".sh"))), command[0])
    stem = re.sub("[^a-z0-9]+", "-", Path(script).stem.lower()).strip("-0123456789") or "job"
    suffix = "".join(secrets.choice(_LETTERS) for _ in range(5))
    return f"{stem[: _LONGEST_NAME - 6].rstrip('-')}-{suffix}"


def _defaults(cluster: ClusterOptions, namespace: str | None, image: str) -> Images:
    return call(cluster, lambda client: images(client, namespace or client.access.namespace, image))


async def _submit(client: Client, told: SubmittedJob, follow: bool) -> bool:
    """Whether all is well: the job is created, and complete if it is followed."""
    namespace = told.namespace or client.access.namespace
    await unless_paid_for(client, namespace)
    await unless_too_wide(client, told.gpus.min)
    found = await images(client, namespace, told.image)
    complete = replace(told, namespace=namespace, image=found.job, git_image=found.git)
    made = await create(client, namespace, *manifests(complete))
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    if not follow:
        click.echo(next_line(namespace, name, await first_word(client, namespace, name)))
        return True
    note(f"TrainingJob {namespace}/{name} is created")
    return await Follower(client, namespace, name, uid).until_it_ends()
