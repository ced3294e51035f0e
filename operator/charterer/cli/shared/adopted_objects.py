"""Objects of teams that are adopted or held: found, and told of when they have been given back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from charterer.cluster.client import Client
from charterer.cluster.errors import Forbidden, NotFound
from charterer.cluster.paths import TRAINING_JOBS
from charterer.workloads import ADOPTED


class FoundObject(NamedTuple):
    """Kind, namespace and name of an object."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


async def adopted_objects(client: Client) -> Sequence[FoundObject]:
    """The objects that are adopted or held and have not ended, as far as the caller may list them."""
    found: dict[FoundObject, None] = {}
    with suppress(NotFound, Forbidden):
        for raw in (await client.list(TRAINING_JOBS.all())).items:
            target = raw["spec"].get("targetRef")
            if target is not None and not (raw.get("status") or {}).get("finish"):
                found[FoundObject(target["kind"], raw["metadata"]["namespace"], target["name"])] = None
    for kind in ADOPTED:
        with suppress(NotFound, Forbidden):
            for raw in (await client.list(kind.kind.resource.all(), labels=kind.kind.labels)).items:
                target = kind.read(raw)
                if target.held and target.ended is None:
                    found[FoundObject(kind.name, target.namespace, target.ref.name)] = None
    return sorted(found)


async def how_to_start(client: Client, objects: Iterable[FoundObject]) -> Sequence[str]:
    """A line for each object that was given back: whether it runs, or how it is started."""
    lines = []
    kinds = {kind.name: kind for kind in ADOPTED}
    for each in objects:
        kind = kinds.get(each.kind)
        if kind is None:
            continue
        try:
            raw = await client.get(kind.kind.resource.one(each.name, each.namespace))
        except NotFound:
            continue
        target = kind.read(raw)
        if target.queued_for:
            lines.append(f"{each} waits: Kueue starts {target.queued_for} once its queue does not ask Charterer")
            continue
        if not target.suspended:
            lines.append(f"{each} is its own controller's again, and may run where there are nodes for it")
            continue
        plural = str(kind.kind.resource)
        patch = '{"spec":{"suspend":false}}'
        command = f"kubectl -n {each.namespace} patch {plural} {each.name} --type merge -p '{patch}'"
        lines.append(f"{each} stays suspended, as its author wrote it. To start it: {command}")
    return lines
