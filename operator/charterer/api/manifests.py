"""Kubernetes objects that Charterer creates: rentals and events. Pure functions.

The objects of a run are made by its workload (``charterer.workloads``).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from charterer.api.models.base import Json
from charterer.api.names import (
    API_VERSION,
    FINALIZER_LEDGER,
    LABEL_BUDGET,
    LABEL_POOL,
)
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.plan import Rent
from charterer.domain.steps import RecordOrphan
from charterer.domain.time import Instant, format_instant

_FOREIGN_QUEUES: Final = "kueue.x-k8s.io/"
_VOLUME: Final = "charterer"
_LOST_NODE_SECONDS: Final = 30
_TOKEN_SECONDS: Final = 3600
_NOTE_BYTES: Final = 1024


# --- GPURental --------------------------------------------------------------------------------------------------------


def rental(rent: Rent, token: str) -> Json:
    """The GPURental that a command to rent asks for."""
    return _rental(rent.rental, rent.pool, rent.budget, rent.reserve, rent.worst, {"token": token})


def orphan_rental(step: RecordOrphan, reserved: Money = ZERO) -> Json:
    """The GPURental of an instance that nobody had asked for."""
    return _rental(step.rental, step.pool, step.budget, reserved, step.worst, {"instance": step.instance.id})


def _rental(name: str, pool: PoolId, budget: BudgetId, reserved: Money, worst: Price, more: Json) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": "GPURental",
        "metadata": {
            "name": name,
            "finalizers": [FINALIZER_LEDGER],
            "labels": {LABEL_POOL: pool, LABEL_BUDGET: budget},
        },
        "spec": {
            "pool": pool,
            "budget": budget,
            "reserved": reserved.decimal(),
            "worstHourly": worst.decimal(),
            **more,
        },
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
    """Who reports: the controller's name, such as charterer.dev/operator, and the pod it runs in."""

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
    """An event of events.k8s.io/v1, under a name by which repeating it is "already exists".

    ``reason`` and ``action`` are CamelCase words; a longer ``note`` is cut to what the API takes.
    """
    what = f"{subject.uid} {reason} {action} {note} {at}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject.name}.{sha256(what.encode()).hexdigest()[:16]}",
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
