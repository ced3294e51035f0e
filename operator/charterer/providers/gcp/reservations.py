"""A reservation that a pool's nodes are made in: what it has, and when it ends."""

from __future__ import annotations

from charterer.clouds.gcp import GcpTemplate
from charterer.domain.pool import Pool
from charterer.providers.errors import InvalidRequest, NotFoundInCloud
from charterer.providers.gcp.calls import Calls
from charterer.providers.gcp.permissions import Call
from charterer.providers.gcp.template import Template
from charterer.providers.provider import PreflightFinding


async def reservation_finding(calls: Calls, pool: Pool, cloud: GcpTemplate, template: Template) -> PreflightFinding:
    """Whether the reservation is there, has the pool's machine type, and is ready."""
    try:
        answer = await calls(pool.id, Call.GET_RESERVATION, zone=cloud.zone, reservation=cloud.reservation)
    except NotFoundInCloud as error:
        message = f"there is no reservation {cloud.reservation!r} in {cloud.zone} of project {cloud.project}"
        raise InvalidRequest(pool.id, "spec.gcp.reservation", error.code, message) from error
    row = answer.body
    kept = row.get("specific_reservation", {})
    kind = kept.get("instance_properties", {}).get("machine_type", "")
    count, used = int(kept.get("count", 0)), int(kept.get("in_use_count", 0))
    told = f"{cloud.reservation}: {count - used} of {count} {kind} are free"
    wrong = []
    if kind != template.machine_type:
        wrong.append(f"instance template {template.name} has {template.machine_type}: name a reservation of that")
    if (status := row.get("status", "")) != "READY":
        wrong.append(f"it is {status}: wait until it is READY")
    if not row.get("specific_reservation_required"):
        wrong.append("it is not specific: without spec.gcp.reservation, nodes use it by themselves")
    if end := row.get("delete_at_time"):
        told += f"; it ends at {end}"
    return PreflightFinding("reservation", not wrong, f"{told}; {'; '.join(wrong)}" if wrong else told)
