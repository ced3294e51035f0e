"""Kubernetes objects that Charterer creates: pools of sets, rentals and events. Pure functions.

The objects of a run are made by its workload (``charterer.workloads``).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from charterer.api.metadata import ObjectMeta
from charterer.api.models.base import Json
from charterer.api.models.clouds.choice import cloud_fields
from charterer.api.models.gpupoolset import PoolManifest
from charterer.api.models.gpurental import GangSpec
from charterer.api.names import (
    API_VERSION,
    FINALIZER_LEDGER,
    LABEL_BUDGET,
    LABEL_POOL,
)
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.plan import Rent
from charterer.domain.pool import Pool
from charterer.domain.steps import RecordOrphan
from charterer.domain.time import Instant, format_instant

_NOTE_BYTES: Final = 1024
"""Longest note that events.k8s.io/v1 accepts."""


# --- GPURental --------------------------------------------------------------------------------------------------------


def rental(rent: Rent, pool: Pool) -> Json:
    """The GPURental of a command to rent in the pool."""
    gang = {} if rent.gang is None else {"gang": GangSpec.from_domain(rent.gang).model_dump(mode="json", by_alias=True)}
    return _rental(rent.rental, pool, rent.budget, rent.reserve, rent.worst, gang)


def orphan_rental(step: RecordOrphan, pool: Pool) -> Json:
    """The GPURental, without a reserve, of an instance of the pool that no rental asked for."""
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
    """A GPUPool that the set controls: when the set is deleted, the garbage collector deletes the pool."""
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
    """The object that an event is about; ``namespace`` is empty for one that has none."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Reporter:
    """The reporting controller, such as charterer.dev/operator, and the pod that it runs in."""

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
    """An event of events.k8s.io/v1, under a name that a repetition would have too, so that it is made only once.

    ``reason`` and ``action`` are CamelCase words; a ``note`` that is too long is cut to what the API accepts.
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
