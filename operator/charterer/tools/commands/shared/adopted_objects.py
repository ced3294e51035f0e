"""Finds the teams' objects that Charterer has adopted or holds, and says how each object starts after Charterer has
given it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from charterer.api.names import KUEUE_CHECK
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import Forbidden, NotFound
from charterer.cluster.paths import ADMISSION_CHECKS, CLUSTER_QUEUES, RESOURCE_FLAVORS, TRAINING_JOBS
from charterer.domain.target import Target
from charterer.workloads import ADOPTED


class FoundObject(NamedTuple):
    """Kind, namespace and name of an object. If ``queued`` is true, Kueue starts and stops the object."""

    kind: str
    namespace: str
    name: str
    queued: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


async def adopted_objects(client: Client) -> Sequence[FoundObject]:
    """List the objects that are adopted or held and have not ended. Kinds that the caller may not list are left out."""
    found: dict[FoundObject, None] = {}
    with suppress(NotFound, Forbidden):
        for raw in (await client.list(TRAINING_JOBS.all())).items:
            target = (raw.get("spec") or {}).get("targetRef")
            if target is not None and not (raw.get("status") or {}).get("finish"):
                where = raw["metadata"]["namespace"]
                found[FoundObject(target["kind"], where, target["name"], bool(target.get("queued")))] = None
    for kind in ADOPTED:
        with suppress(NotFound, Forbidden):
            for raw in (await client.list(kind.kind.resource.all(), labels=kind.kind.labels)).items:
                target = kind.read(raw)
                if target.held and target.ended is None:
                    found[FoundObject(kind.name, target.namespace, target.ref.name)] = None
    return sorted(found)


async def labelled_objects(client: Client, namespace: str) -> Sequence[Target]:
    """List the namespace's objects that ask to be adopted. Kinds that the caller may not list are left out."""
    found: list[Target] = []
    for kind in ADOPTED:
        if kind.kind.labels:  # a Kueue Workload carries no such label: the loop skips that kind
            with suppress(NotFound, Forbidden):
                listing = await client.list(kind.kind.resource.all(namespace), labels=kind.kind.labels)
                found += [kind.read(raw) for raw in listing.items]
    return found


async def how_to_start(client: Client, objects: Iterable[FoundObject]) -> Sequence[str]:
    """Return a line for each object that was given back: it runs, waits in a queue, or needs this command to start."""
    lines = []
    kinds = {kind.name: kind for kind in ADOPTED}
    for each in objects:
        if each.queued:
            lines.append(f"{each} waits: Kueue starts it once its queue does not ask Charterer")
            continue
        kind = kinds.get(each.kind)
        if kind is None:
            continue
        try:
            raw = await client.get(kind.kind.resource.one(each.name, each.namespace))
        except NotFound:
            continue
        target = kind.read(raw)
        if not target.suspended:
            lines.append(f"{each} is its own controller's again, and may run where there are nodes for it")
            continue
        plural = str(kind.kind.resource)
        patch = '{"spec":{"suspend":false}}'
        command = f"kubectl -n {each.namespace} patch {plural} {each.name} --type merge -p '{patch}'"
        lines.append(f"{each} stays suspended, as its author wrote it. To start it: {command}")
    return lines


# --- Kueue queues that use Charterer's AdmissionCheck -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Queues:
    """The ClusterQueues that name Charterer's AdmissionCheck, and the cluster's AdmissionChecks and ResourceFlavors."""

    queues: tuple[RawObject, ...] = ()
    checks: tuple[RawObject, ...] = ()
    flavors: tuple[RawObject, ...] = ()

    @property
    def names(self) -> Sequence[str]:
        return [str(queue["metadata"]["name"]) for queue in self.queues]

    def check(self, name: str) -> RawObject | None:
        """Return the AdmissionCheck of this name, or None if it does not exist."""
        return next((check for check in self.checks if check["metadata"]["name"] == name), None)


NO_QUEUES: Final = Queues()


async def read_queues(client: Client) -> Queues | None:
    """Read the ClusterQueues, AdmissionChecks and ResourceFlavors.

    Returns None if the account may not read them. If Kueue is not installed, the result has no queue.
    """
    try:
        listed = (await client.list(CLUSTER_QUEUES.all())).items
        checks = (await client.list(ADMISSION_CHECKS.all())).items
        flavors = (await client.list(RESOURCE_FLAVORS.all())).items
    except NotFound:
        return NO_QUEUES
    except Forbidden:
        return None
    return Queues(tuple([queue for queue in listed if KUEUE_CHECK in checks_of(queue)]), checks, flavors)


def checks_of(queue: RawObject) -> Sequence[str]:
    """Return the names of a ClusterQueue's AdmissionChecks."""
    strategy = (queue.get("spec") or {}).get("admissionChecksStrategy") or {}
    return [str(check.get("name")) for check in strategy.get("admissionChecks") or ()]


def flavors_of(queue: RawObject) -> frozenset[str]:
    """Return the names of a ClusterQueue's ResourceFlavors."""
    groups = (queue.get("spec") or {}).get("resourceGroups") or ()
    return frozenset(str(flavor.get("name")) for group in groups for flavor in group.get("flavors") or ())
