"""``charterer run`` is the simplest way to submit a job."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from charterer.api import decode
from charterer.api.models.base import Json
from charterer.cluster.client import Client
from charterer.cluster.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound, Unreachable
from charterer.cluster.paths import CONFIG_MAPS, GPU_BUDGETS, GPU_POOLS, NAMESPACES, TRAINING_JOBS
from charterer.domain.errors import InvalidObject
from charterer.domain.job import FinishKind, Job, ResizePolicy, Widths
from charterer.domain.money import Money
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Pool
from charterer.domain.time import Instant
from charterer.sentences import count, names
from charterer.tools.commands.logs import note, pods_by_run, print_pod, waits
from charterer.tools.commands.run.manifest import (
    GitSource,
    SubmittedJob,
    Volume,
    archive_of,
    as_yaml,
    git_source,
    manifests,
    owned_by,
    secret_variables,
)
from charterer.tools.commands.shared.cluster import ClusterOptions, call, cluster_options, read
from charterer.tools.commands.shared.options import TimeType, option_group
from charterer.tools.commands.shared.output import CANNOT_RUN, FAILED, screen_width, wants_colour, with_warnings

# Following a job: the logs of its pods, run after run, until the job has ended.


_LOOK_SECONDS: Final = 1.0
_LAST_LINES_SECONDS: Final = 10.0
"""Time limit in seconds for the log streams to end after the job has ended."""


class Follower:
    """Follows one job. ``uid`` is the uid of its object, so that a later object of the same name does not count."""

    def __init__(self, client: Client, namespace: str, name: str, uid: str) -> None:
        self._client, self._namespace, self._name, self._uid = client, namespace, name, uid
        self._prints: dict[str, asyncio.Task[None]] = {}
        self._runs: set[int] = set()
        self._told = ""

    async def until_it_ends(self) -> bool:
        """Print logs until the job has ended, and return whether it is complete.

        Raises ClickException if the job is deleted.
        """
        try:
            while (job := await self._look()) is None or job.finish is None:  # noqa: ASYNC110 - the cluster tells
                await asyncio.sleep(_LOOK_SECONDS)
            if self._prints:
                await asyncio.wait(self._prints.values(), timeout=_LAST_LINES_SECONDS)
        finally:
            for task in self._prints.values():
                task.cancel()
        finish = job.finish
        said = f": {finish.message}" if finish.message else ""
        note(f"{self._namespace}/{self._name} has ended: {finish.reason or finish.kind.value}{said}")
        return finish.kind is FinishKind.COMPLETE

    async def _look(self) -> Job | None:
        """Read the job and start to print the logs of new pods. Return None if the API server does not answer."""
        try:
            raw = await self._client.get(TRAINING_JOBS.one(self._name, self._namespace))
            job = decode.training_job(raw).job
            runs = await pods_by_run(self._client, job)
        except NotFound as error:
            raise self._deleted() from error
        except Unreachable as error:
            self._tell(f"the API server does not answer, trying again: {error.message}")
            return None
        if job.id != self._uid:
            raise self._deleted()
        for number, pods in sorted(runs.items()):
            for pod in sorted(pods, key=lambda pod: pod.index):
                if pod.started and pod.uid not in self._prints:
                    if number not in self._runs:
                        self._runs.add(number)
                        self._tell(f"{job.run_title(number)}: {count(len(pods), 'pod')}")
                    prefix = f"[{pod.index}] " if len(pods) > 1 else ""
                    printing = print_pod(self._client, self._namespace, pod, {"follow": "true"}, prefix)
                    self._prints[pod.uid] = asyncio.create_task(printing)
        if not runs and job.finish is None:
            self._tell(f"{self._namespace}/{self._name} has no pods: {waits(job, raw)}")
        return job

    def _deleted(self) -> click.ClickException:
        return click.ClickException(f"TrainingJob {self._namespace}/{self._name} was deleted")

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            note(text)


# Creating the objects of a submission with the user's rights, and reporting errors at once.


DEFAULTS: Final = "charterer-run"
"""Name of the ConfigMap in a namespace with the defaults of `charterer run`."""
_IMAGE: Final = "image"
_GIT_IMAGE: Final = "gitImage"
_GIT: Final = "docker.io/alpine/git:v2.47.2"
_ANSWER_SECONDS: Final = 10.0
"""Time limit in seconds for the operator to write the job's first status."""
_CREATED_LOOK_SECONDS: Final = 0.2


class Images(NamedTuple):
    """Container images. ``job`` runs the command, ``git`` fetches code."""

    job: str
    git: str


async def images(client: Client, namespace: str, image: str) -> Images:
    """Return the given image, or the namespace's default, and the git image.

    Raises ClickException if there is neither.
    """
    try:
        data = (await client.get(CONFIG_MAPS.one(DEFAULTS, namespace))).get("data") or {}
    except (NotFound, Forbidden) as error:
        if not image:
            why = "there is none" if isinstance(error, NotFound) else "you may not read it"
            raise click.ClickException(_no_image(namespace, why)) from error
        data = {}
    if not (image or data.get(_IMAGE)):
        raise click.ClickException(_no_image(namespace, f"it has no {_IMAGE}"))
    return Images(image or data[_IMAGE], data.get(_GIT_IMAGE) or _GIT)


def without_defaults(image: str) -> Images:
    """Return images without reading the cluster."""
    return Images(image, _GIT)


def _no_image(namespace: str, why: str) -> str:
    return (
        f"no image: give --image, or a default for namespace {namespace} in the ConfigMap {DEFAULTS} ({why}): "
        f"kubectl create configmap {DEFAULTS} -n {namespace} --from-literal {_IMAGE}=REGISTRY/NAME:TAG"
    )


async def create(client: Client, namespace: str, training_job: Json, code_map: Json | None) -> Mapping[str, Any]:
    """Create the job and its ConfigMap, or neither. Return the job. Raises ClickException."""
    if code_map is None:
        return await _create_job(client, namespace, training_job)
    await _create_job(client, namespace, training_job, dry_run=True)
    await _create_code(client, namespace, code_map, dry_run=True)
    made = await _create_job(client, namespace, training_job)
    try:
        await _create_code(client, namespace, owned_by(code_map, made))
    except BaseException as error:
        await _delete(client, namespace, made, error)
        raise
    return made


async def _create_job(
    client: Client, namespace: str, training_job: Json, *, dry_run: bool = False
) -> Mapping[str, Any]:
    try:
        return await client.post(TRAINING_JOBS.all(namespace), training_job, dry_run=dry_run, strict=True)
    except AlreadyExists as error:
        name = training_job["metadata"]["name"]
        raise click.ClickException(
            f"there is a TrainingJob {namespace}/{name} already: give another --name, or "
            f"kubectl delete trainingjob {name} -n {namespace}"
        ) from error
    except NotFound as error:
        if f'namespaces "{namespace}"' in error.message:
            raise click.ClickException(_no_namespace(namespace)) from error
        raise
    except Forbidden as error:
        raise click.ClickException(
            f"you may not create the job in namespace {namespace}: {error.message}; the role edit there allows it"
        ) from error
    except Invalid as error:
        raise click.ClickException(
            f"the API server refuses the job: {'; '.join(error.fields) or error.message}"
        ) from error


async def _delete(client: Client, namespace: str, made: Mapping[str, Any], because: BaseException) -> None:
    """Delete a job whose code could not be created. The job would otherwise wait forever on nodes that are paid for."""
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    try:
        await client.delete(TRAINING_JOBS.one(name, namespace), uid=uid)
    except ApiError as error:
        raise click.ClickException(
            f"TrainingJob {namespace}/{name} is created, but its code is not ({because}), and it cannot be deleted "
            f"({error.message}): kubectl delete trainingjob {name} -n {namespace}"
        ) from because


async def _create_code(client: Client, namespace: str, code_map: Json, *, dry_run: bool = False) -> None:
    """Create the code's ConfigMap.

    If the name exists with the same content, an earlier job of this name left it. The new job becomes a second owner.
    """
    try:
        await client.post(CONFIG_MAPS.all(namespace), code_map, dry_run=dry_run, strict=True)
    except AlreadyExists:
        if dry_run:
            return
        path = CONFIG_MAPS.one(code_map["metadata"]["name"], namespace)
        try:
            found = await client.get(path)
            if found.get("binaryData") != code_map["binaryData"] or not found.get("immutable"):
                raise click.ClickException(
                    f"ConfigMap {namespace}/{code_map['metadata']['name']} has the name of this code and another "
                    "content: delete it, or give another --name"
                ) from None
            owners = [*(found["metadata"].get("ownerReferences") or ()), *code_map["metadata"]["ownerReferences"]]
            version = found["metadata"]["resourceVersion"]
            await client.merge_patch(path, {"metadata": {"ownerReferences": owners, "resourceVersion": version}})
        except (Conflict, NotFound):
            await _create_code(client, namespace, code_map)  # the ConfigMap was deleted or changed meanwhile
    except Forbidden as error:
        raise click.ClickException(
            f"you may not create ConfigMaps in namespace {namespace}, in which the code goes along ({error.message}): "
            "ask for the role edit there, or give --git, or --no-code"
        ) from error


async def unless_paid_for(client: Client, namespace: str) -> None:
    """Raise ClickException if no budget pays for the namespace's jobs.

    Does nothing if the user may not read budgets.
    """
    try:
        listed, raw = await asyncio.gather(client.list(GPU_BUDGETS.all()), client.get(NAMESPACES.one(namespace)))
    except Forbidden:
        return
    except NotFound as error:
        if error.path.startswith(NAMESPACES.all()):
            raise click.ClickException(_no_namespace(namespace)) from error
        raise
    labels = decode.namespace(raw).labels
    for item in listed.items:
        try:
            if decode.budget(item).selector.matches(labels):
                return
        except InvalidObject:
            return  # this budget may be the one; `charterer doctor` reports its fault
    there = names([item["metadata"]["name"] for item in listed.items])
    raise click.ClickException(
        f"no GPUBudget selects namespace {namespace}, so nobody would pay for the job: label the namespace as the "
        f"namespaceSelector of a budget says, or create a budget ({f'there are {there}' if there else 'there is none'})"
    )


async def unless_too_wide(client: Client, least: int) -> None:
    """Raise ClickException if no GPUPool has ``least`` GPUs. Does nothing if the user may not read pools."""
    try:
        listed = await client.list(GPU_POOLS.all())
        pools = [decode.pool(item) for item in listed.items]
    except (Forbidden, InvalidObject):
        return
    if refusal := too_wide(pools, least):
        raise click.ClickException(refusal)


def too_wide(pools: Collection[Pool], least: int) -> str:
    """Return a sentence that no pool has this many GPUs. Empty if one has, or if a pool's node size is unknown."""
    sizes = {pool.id: pool.max_nodes * pool.gpus_per_node for pool in pools}
    if not sizes or not all(pool.gpus_per_node for pool in pools) or least <= max(sizes.values()):
        return ""
    widest = max(pools, key=lambda pool: sizes[pool.id])
    nodes = f"{count(widest.max_nodes, 'node')} of {count(widest.gpus_per_node, 'GPU')}"
    return (
        f"no GPUPool has {least:,} GPUs for one job: the largest, {widest.id}, has {sizes[widest.id]:,} ({nodes}): "
        "ask for fewer, or raise its maxNodes"
    )


def _no_namespace(namespace: str) -> str:
    return f"there is no namespace {namespace}: kubectl create namespace {namespace}, or give another with -n"


async def first_word(client: Client, namespace: str, name: str) -> Mapping[str, Any]:
    """Wait until the operator has written the job's status and return it. Empty after ten seconds or on an error."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            while True:
                status = (await client.get(TRAINING_JOBS.one(name, namespace))).get("status") or {}
                if status.get("state"):
                    return dict(status)
                await asyncio.sleep(_CREATED_LOOK_SECONDS)
    except (TimeoutError, ApiError):
        return {}


def next_line(namespace: str, name: str, status: Mapping[str, Any]) -> str:
    """Return one line about a new job: its present state, and the next command."""
    logs = f"charterer logs -f tj/{name} -n {namespace}"
    if not status:
        what = "but no operator has said anything of it yet: charterer doctor says what is wrong"
    elif status.get("why") == ReasonCode.NO_BUDGET:
        what = "but no GPUBudget selects its namespace, so it waits until one does: ask whoever runs Charterer"
    elif status.get("why") == ReasonCode.NO_OPTION:
        what = f"but nothing that can be rented fits it: charterer explain {name} -n {namespace} says why"
    elif status.get("state") == "Invalid":
        what = f"but it cannot run: charterer explain {name} -n {namespace} says why"
    else:
        why = f" ({status['why']})" if status.get("why") else ""
        what = f"and is {status['state']}{why}: {logs}, or charterer explain {name} -n {namespace}"
    return f"TrainingJob {namespace}/{name} is created, {what}"


_LONGEST_NAME: Final = 45
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Letters for random parts of names, as in Kubernetes. Without vowels, no real words appear."""


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
@click.option("-n", "--namespace", help="Default: the context's.")
@click.option("--dry-run", is_flag=True, help="Print the manifest, and create nothing.")
@click.option("--quote", is_flag=True, help="First say what it costs and when it ends, and keep that with the job.")
@click.option("-f", "--follow", is_flag=True, help="Print what its pods print until it has ended.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND...")
@cluster_options
def run(
    asked: _Asked,
    namespace: str | None,
    dry_run: bool,
    quote: bool,
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
      charterer run --gpus 8 --quote -- torchrun train.py

    The files that git tracks in this directory and below go along as they are now (900 kB packed, at most), and the
    command runs among them. With --git the pods fetch a commit that was pushed, and with --no-code the image has the
    code.

    It needs the right to create TrainingJobs and ConfigMaps in the namespace, which the role edit has; --quote needs
    those of `charterer quote`. Exit code: 0, or 1 for an error; with --follow, 0 if the job is complete and 1 if it
    failed; with --quote, 5 if it cannot run: then nothing is created.
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
    if quote:
        told = _with_quote(cluster, told)
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


def _with_quote(cluster: ClusterOptions, told: SubmittedJob) -> SubmittedJob:
    """Quote the job, print the quote on stderr, and store it with the job. Exits if the job cannot run.

    The planner is imported late, because the import takes a second and only a quote needs it.
    """
    from charterer.tools.commands.explain.quote import quote_document, quoted
    from charterer.tools.commands.shared.what_if import ManifestSource
    from charterer.tools.documents.html import TextRenderer

    reading = read(cluster)
    namespace = told.namespace or reading.namespace
    found = without_defaults(told.image) if told.image else _defaults(cluster, namespace, told.image)
    complete = replace(told, namespace=namespace, image=found.job, git_image=found.git)
    training_job, _ = manifests(complete)
    source = ManifestSource("the command line", training_job)
    given = quoted(cluster, reading, [source], namespace, None)
    document = with_warnings(quote_document(given.answer), (reading.trouble, *given.warnings))
    click.echo(TextRenderer(screen_width(), colour=wants_colour()).render(document).lstrip("\n"), nl=False, err=True)
    if given.answer.exit_code == CANNOT_RUN:
        raise click.exceptions.Exit(CANNOT_RUN)
    return replace(complete, quote=given.answer.kept)


def _name_for(command: Sequence[str]) -> str:
    """Make a name from the script's name, so that lists are readable."""
    script = next((word for word in command if word.endswith((".py", ".sh"))), command[0])
    stem = re.sub("[^a-z0-9]+", "-", Path(script).stem.lower()).strip("-0123456789") or "job"
    suffix = "".join(secrets.choice(_LETTERS) for _ in range(5))
    return f"{stem[: _LONGEST_NAME - 6].rstrip('-')}-{suffix}"


def _defaults(cluster: ClusterOptions, namespace: str | None, image: str) -> Images:
    return call(cluster, lambda client: images(client, namespace or client.access.namespace, image))


async def _submit(client: Client, told: SubmittedJob, follow: bool) -> bool:
    """Submit the job, and follow it if asked. Return whether it was created and, if followed, is complete."""
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
