"""Decoding Kueue's AdmissionChecks. Its Workloads are decoded by ``workloads.adopted``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from charterer.api.metadata import ObjectMeta, Raw, true_condition

MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
"""The controller of checks whose queues run their jobs in other clusters; also ``managedBy`` of such a job."""


@dataclass(frozen=True, slots=True)
class DecodedCheck:
    """An AdmissionCheck. ``controller``: who answers it, as it says; ``active``: somebody does."""

    name: str
    resource_version: str
    controller: str
    active: bool


def admission_check(raw: Raw) -> DecodedCheck:
    """Any AdmissionCheck, Charterer's or another's."""
    meta = ObjectMeta.of("AdmissionCheck", raw)
    controller = str((raw.get("spec") or {}).get("controllerName", ""))
    active = true_condition(raw.get("status") or {}, "Active") is not None
    return DecodedCheck(meta.name, meta.resource_version, controller, active)
