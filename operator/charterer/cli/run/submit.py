"""Creates the objects of a submission with the rights of whoever submits, and finds out what goes wrong at once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import click

from charterer.api import decode
from charterer.api.models.base import Json
from charterer.cli.run.manifest import owned_by
from charterer.cluster.client import Client
from charterer.cluster.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from charterer.cluster.paths import CONFIG_MAPS, GPU_BUDGETS, GPU_POOLS, NAMESPACES, TRAINING_JOBS
from charterer.domain.errors import InvalidObject
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Pool
from charterer.sentences import count, names

DEFAULTS: Final = "charterer-run"
"""Name of the ConfigMap in a namespace that says what `charterer run` takes where nobody says otherwise."""
_IMAGE: Final = "image"
_GIT_IMAGE: Final = "gitImage"
_GIT: Final = "docker.io/alpine/git:v2.47.2"
_ANSWER_SECONDS: Final = 10.0
"""Until which the operator should have said something of a job, if one runs."""
_LOOK_SECONDS: Final = 0.2


class Images(NamedTuple):
    """``job``: to run the command in; ``git``: to fetch code in."""

    job: str
    git: str


async def images(client: Client, namespace: str, image: str) -> Images:
    """The image that was given or the namespace's default, and the one that has git. ClickException without any."""
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
    """What needs no cluster."""
    return Images(image, _GIT)


def _no_image(namespace: str, why: str) -> str:
    return (
        f"no image: give --image, or a default for namespace {namespace} in the ConfigMap {DEFAULTS} ({why}): "
        f"kubectl create configmap {DEFAULTS} -n {namespace} --from-literal {_IMAGE}=REGISTRY/NAME:TAG"
    )


async def create(client: Client, namespace: str, training_job: Json, code_map: Json | None) -> Mapping[str, Any]:
    """Create the job and what it needs, both or nothing. The answer is the job. ClickException says why not."""
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
    """Delete a job that would wait for its code for ever, on nodes that are paid for."""
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    try:
        await client.delete(TRAINING_JOBS.one(name, namespace), uid=uid)
    except ApiError as error:
        raise click.ClickException(
            f"TrainingJob {namespace}/{name} is created, but its code is not ({because}), and it cannot be deleted "
            f"({error.message}): kubectl delete trainingjob {name} -n {namespace}"
        ) from because


async def _create_code(client: Client, namespace: str, code_map: Json, *, dry_run: bool = False) -> None:
    """One of that name has the same content: it was left by a job of this name, and this job becomes an owner, too."""
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
            await _create_code(client, namespace, code_map)  # it went, or another job took it, meanwhile
    except Forbidden as error:
        raise click.ClickException(
            f"you may not create ConfigMaps in namespace {namespace}, in which the code goes along ({error.message}): "
            "ask for the role edit there, or give --git, or --no-code"
        ) from error


async def unless_paid_for(client: Client, namespace: str) -> None:
    """ClickException where no budget pays for the namespace's jobs; nothing where whoever asks may not see that."""
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
            return  # doctor says what is wrong with it; it may be the one
    there = names([item["metadata"]["name"] for item in listed.items])
    raise click.ClickException(
        f"no GPUBudget selects namespace {namespace}, so nobody would pay for the job: label the namespace as the "
        f"namespaceSelector of a budget says, or create a budget ({f'there are {there}' if there else 'there is none'})"
    )


async def unless_too_wide(client: Client, least: int) -> None:
    """ClickException where no GPUPool has so many GPUs; nothing where whoever asks may not see them."""
    try:
        listed = await client.list(GPU_POOLS.all())
        pools = [decode.pool(item) for item in listed.items]
    except (Forbidden, InvalidObject):
        return
    if refusal := too_wide(pools, least):
        raise click.ClickException(refusal)


def too_wide(pools: Collection[Pool], least: int) -> str:
    """That no pool has this many GPUs; empty if one has, or if the nodes of one are not known yet."""
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
    """The job's status once the operator has said something in it; empty where it says nothing for ten seconds."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            while True:
                status = (await client.get(TRAINING_JOBS.one(name, namespace))).get("status") or {}
                if status.get("state"):
                    return dict(status)
                await asyncio.sleep(_LOOK_SECONDS)
    except (TimeoutError, ApiError):
        return {}


def next_line(namespace: str, name: str, status: Mapping[str, Any]) -> str:
    """The one line about a job that was created: what became of it so far, and what to do next."""
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
