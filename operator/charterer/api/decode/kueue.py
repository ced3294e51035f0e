"""Decoding Kueue's AdmissionCheck. Its Workloads are decoded by ``workloads.adopted``."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.api.metadata import ObjectMeta, Raw, true_condition
from charterer.api.names import KUEUE_CHECK


@dataclass(frozen=True, slots=True)
class DecodedCheck:
    """The AdmissionCheck of Charterer's name. ``controller``: who answers it, as it says; ``active``: somebody does."""

    resource_version: str
    controller: str
    active: bool


def admission_check(raw: Raw) -> DecodedCheck | None:
    """The check of Charterer's name; None for any other."""
    meta = ObjectMeta.of("AdmissionCheck", raw)
    if meta.name != KUEUE_CHECK:
        return None
    controller = str((raw.get("spec") or {}).get("controllerName", ""))
    return DecodedCheck(
        meta.resource_version, controller, true_condition(raw.get("status") or {}, "Active") is not None
    )
