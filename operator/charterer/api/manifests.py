"""The Kubernetes objects that Charterer creates: pools of sets, rentals and events. All functions are pure.

The workload of a run (``charterer.workloads``) makes the objects of runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from charterer.api.metadata import ObjectMeta
from charterer.api.models.base import Json
from charterer.api.models.clouds import cloud_fields
from charterer.api.models.gpupoolset import PoolManifest
from charterer.api.models.gpurental import GangSpec
from charterer.api.names import (
    ANNOTATION_MAX_HOURLY,
    ANNOTATION_MAX_NODES,
    ANNOTATION_NOT_ADOPTED,
    API_VERSION,
    FINALIZER_LEDGER,
    LABEL_BUDGET,
    LABEL_POOL,
)
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.plan import Rent
from charterer.domain.pool import Pool
from charterer.domain.snapshot import OperatorLimits
from charterer.domain.steps import RecordOrphan
from charterer.domain.time import Instant, format_instant

# The operator's limits and the kinds that it does not adopt, as annotations on its Lease. Commands that plan without
# the operator read them.
#
# Both are options of the operator's process, so other processes cannot know them otherwise.


def to_annotations(limits: OperatorLimits, not_adopted: frozenset[str]) -> Mapping[str, str]:
    """The annotations for the limits and for the kinds that are not adopted. A limit that is not set has no
    annotation.
    """
    written = {
        ANNOTATION_MAX_NODES: None if limits.nodes is None else str(limits.nodes),
        ANNOTATION_MAX_HOURLY: None if limits.hourly is None else limits.hourly.decimal(),
        ANNOTATION_NOT_ADOPTED: ",".join(sorted(not_adopted)) or None,
    }
    return {name: text for name, text in written.items() if text is not None}


def not_adopted_in(annotations: Mapping[str, str]) -> frozenset[str]:
    """The kinds that are not adopted, in these annotations."""
    return frozenset(filter(None, annotations.get(ANNOTATION_NOT_ADOPTED, "").split(",")))


def from_annotations(annotations: Mapping[str, str]) -> OperatorLimits:
    """The limits in these annotations. Raises ValueError, which names an invalid annotation."""
    nodes, hourly = annotations.get(ANNOTATION_MAX_NODES), annotations.get(ANNOTATION_MAX_HOURLY)
    if nodes is not None and not (nodes.isascii() and nodes.isdigit() and len(nodes) <= 9):
        raise ValueError(f"annotation {ANNOTATION_MAX_NODES} is {nodes!r}, and not a number of nodes")
    try:
        price = None if hourly is None else Price.parse(hourly)
    except ValueError as error:
        raise ValueError(f"annotation {ANNOTATION_MAX_HOURLY} is {hourly!r}: {error}") from error
    return OperatorLimits(None if nodes is None else int(nodes), price)


_NOTE_BYTES: Final = 1024
"""The longest note in bytes that events.k8s.io/v1 accepts."""


# --- GPURental --------------------------------------------------------------------------------------------------------


def rental(rent: Rent, pool: Pool) -> Json:
    """The GPURental of a command to rent in the pool."""
    gang = {} if rent.gang is None else {"gang": GangSpec.from_domain(rent.gang).model_dump(mode="json", by_alias=True)}
    return _rental(rent.rental, pool, rent.budget, rent.reserve, rent.worst, gang)


def orphan_rental(step: RecordOrphan, pool: Pool) -> Json:
    """The GPURental, without a reserve, of an instance of the pool that no rental requested."""
    return _rental(step.rental, pool, step.budget, ZERO, step.worst, {"instance": step.instance.id})


def _rental(name: str, pool: Pool, budget: BudgetId, reserved: Money, worst: Price, more: Json) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": "GPURental",
        "metadata": {
            "name": name,
            "finalizers": [FINALIZER_LEDGER],
            "labels": {LABEL_POOL: pool.id, LABEL_BUDGET: budget},
        },
        "spec": {
            "pool": pool.id,
            **cloud_fields(pool.cloud),
            "capacityType": pool.capacity_type.value,
            "budget": budget,
            "reserved": reserved.decimal(),
            "worstHourly": worst.decimal(),
            **more,
        },
    }


# --- GPUPool ----------------------------------------------------------------------------------------------------------


def pool_of_set(name: PoolId, manifest: PoolManifest, pool_set: ObjectMeta) -> Json:
    """A GPUPool that the set controls: if the set is deleted, the garbage collector deletes the pool."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUPool",
        "metadata": {
            "name": name,
            "labels": dict(manifest.labels),
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": "GPUPoolSet",
                    "name": pool_set.name,
                    "uid": pool_set.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": manifest.spec,
    }


# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventSubject:
    """The object that an event is about. ``namespace`` is empty if the object has none."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Reporter:
    """The reporting controller, such as charterer.dev/operator, and its pod."""

    controller: str
    instance: str


def event(
    subject: EventSubject,
    reporter: Reporter,
    at: Instant,
    *,
    reason: str,
    action: str,
    note: str,
    warning: bool = False,
) -> Json:
    """An event of events.k8s.io/v1.

    The event's name has a digest of its content, so a repeated creation makes no second event. ``reason`` and
    ``action`` are CamelCase words. A ``note`` that is too long is cut to the length that the API accepts.
    """
    content = f"{subject.uid} {reason} {action} {note} {at}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject.name}.{sha256(content.encode()).hexdigest()[:16]}",
            "namespace": subject.namespace or "default",
        },
        "eventTime": format_instant(at),
        "reportingController": reporter.controller,
        "reportingInstance": reporter.instance,
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "action": action,
        "note": note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
        "regarding": {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "name": subject.name,
            "uid": subject.uid,
            **({"namespace": subject.namespace} if subject.namespace else {}),
        },
    }
