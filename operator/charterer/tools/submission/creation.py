"""Creates the objects of a submission with the rights of whoever submits, and waits for a job's end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

import click

from charterer.api import decode
from charterer.api.models.base import Json
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound, Unreachable
from charterer.cluster.paths import CONFIG_MAPS, GPU_BUDGETS, GPU_POOLS, NAMESPACES, TRAINING_JOBS
from charterer.domain.errors import InvalidObject
from charterer.domain.job import FinishKind, Job
from charterer.domain.pool import Pool
from charterer.sentences import count, names
from charterer.tools.submission.manifest import NewJob, manifests, owned_by

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
            return  # this budget may pay for the namespace; `charterer doctor` reports its fault
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
    """Return a sentence that no pool has this many GPUs. Empty if a pool has them, or if a pool's node size is
    unknown.
    """
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


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A TrainingJob that was created. ``uid``: the uid of that object, which another object of the same name does not
    have.
    """

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended. ``reason``: one word, such as Complete. ``message``: a sentence, or empty if there is none."""

    complete: bool
    reason: str
    message: str


async def submitted(client: Client, job: NewJob) -> SubmittedJob:
    """Create the job unless it can never run. If it can never run, raises ClickException, which says why. Also raises
    ApiError.
    """
    namespace = job.namespace or client.access.namespace
    await unless_paid_for(client, namespace)
    await unless_too_wide(client, job.gpus.min)
    found = await images(client, namespace, job.image)
    complete = replace(job, namespace=namespace, image=found.job, git_image=found.git)
    metadata = (await create(client, namespace, *manifests(complete)))["metadata"]
    return SubmittedJob(namespace, metadata["name"], metadata["uid"])


Look: TypeAlias = Callable[[Client, Job, RawObject], Awaitable[None]]
"""A callback that gets the job, both decoded and as the raw object, each second and once when the job has ended."""
_LOOK_SECONDS: Final = 1.0


async def until_ended(client: Client, job: SubmittedJob, tell: Callable[[str], None], look: Look | None) -> Ended:
    """Wait until the job has ended, however often the API server does not answer. ``tell`` is called with each such
    failure.

    Raises ClickException if the job was deleted, and ApiError.
    """
    while True:
        try:
            raw = await client.get(TRAINING_JOBS.one(job.name, job.namespace))
            read = decode.training_job(raw).job
            if read.id != job.uid:
                raise _deleted(job)
            if look is not None:
                await look(client, read, raw)
        except NotFound as error:
            raise _deleted(job) from error
        except Unreachable as error:
            tell(f"the API server does not answer, trying again: {error.message}")
        else:
            if (finish := read.finish) is not None:
                reason = finish.reason or finish.kind.value
                return Ended(finish.kind is FinishKind.COMPLETE, reason, finish.message or "")
        await asyncio.sleep(_LOOK_SECONDS)  # until the next look


def _deleted(job: SubmittedJob) -> click.ClickException:
    return click.ClickException(f"TrainingJob {job} was deleted")
