"""Instance templates: what their instances are, and which of their settings would cost money by surprise."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charterer.domain.ids import PoolId
from charterer.domain.pool import CapacityType, Pool
from charterer.providers.errors import InvalidRequest, NotFoundInCloud
from charterer.providers.gcp.calls import Calls, Json
from charterer.providers.gcp.kube_env import KubeEnv, kube_env
from charterer.providers.gcp.names import last
from charterer.providers.gcp.permissions import Call

_KEPT_SECONDS: Final = 300.0
"""For how long a template is used before it is read again."""
_REGIONAL: Final = re.compile(r"(?:.*/)?regions/([^/]+)/instanceTemplates/([^/]+)")
_FLEX_START: Final = "FLEX_START"


@dataclass(frozen=True, slots=True)
class Template:
    """An instance template. ``accelerators``: GPUs that it attaches, by type. ``model``: its provisioning model.

    ``row``: its properties as Compute Engine describes them, without the metadata, in which GKE writes secrets.
    ``env``: what the metadata say of its nodes.
    """

    name: str
    machine_type: str
    accelerators: Mapping[str, int]
    labels: Mapping[str, str]
    model: str
    row: Json
    env: KubeEnv

    @property
    def scheduling(self) -> Json:
        """How its instances are scheduled."""
        found: Json = self.row.get("scheduling", {})
        return found


class InstanceTemplates:
    """Reads templates. ``clock``: seconds that only grow."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._known: dict[str, tuple[float, Template]] = {}

    async def read(self, pool: PoolId, link: str, field: str) -> Template:
        """The template of a link, of ``NAME`` or of ``REGION/NAME``; InvalidRequest when there is none.

        ``field``: where the pool names it, for errors.
        """
        known = self._known.get(link)
        if known is None or self._clock() - known[0] > _KEPT_SECONDS:
            known = self._clock(), await self._read(pool, link, field)
            self._known[link] = known
        return known[1]

    async def _read(self, pool: PoolId, link: str, field: str) -> Template:
        regional = _REGIONAL.fullmatch(full_link(link))
        call = Call.GET_TEMPLATE if regional is None else Call.GET_REGION_TEMPLATE
        where: dict[str, Any] = {} if regional is None else {"region": regional[1]}
        try:
            answer = await self._calls(pool, call, instance_template=last(link), **where)
        except NotFoundInCloud as error:
            message = f"{field}: there is no instance template {last(link)!r}{f' in {regional[1]}' if regional else ''}"
            raise InvalidRequest(pool, call.full_name, error.code, message) from error
        row = answer.body.get("properties", {})
        attached = row.get("guest_accelerators", ())
        scheduling = row.get("scheduling", {})
        model = "SPOT" if scheduling.get("preemptible") else scheduling.get("provisioning_model", "STANDARD")
        return Template(
            name=last(link),
            machine_type=last(row.get("machine_type", "")),
            accelerators={last(each["accelerator_type"]): int(each["accelerator_count"]) for each in attached},
            labels=row.get("labels", {}),
            model=model,
            row={key: value for key, value in row.items() if key != "metadata"},
            env=kube_env(row),
        )


def full_link(name: str) -> str:
    """The link of a template that a pool names by ``NAME`` or ``REGION/NAME``; links stay as they are."""
    if "instanceTemplates/" in name:
        return name
    region, _, short = name.rpartition("/")
    return f"regions/{region}/instanceTemplates/{short}" if region else f"global/instanceTemplates/{short}"


def problems_of(pool: Pool, template: Template, *, flex: bool) -> Sequence[str]:
    """Settings of a template that sell the wrong kind of node, or leave something behind that is billed."""
    wrong, scheduling = [], template.scheduling
    wanted = _FLEX_START if flex else "SPOT" if pool.capacity_type is CapacityType.SPOT else "STANDARD"
    said = "spec.gcp.runSeconds" if flex else f"spec.capacityType {pool.capacity_type.value}"
    bound = {"RESERVATION_BOUND"} if pool.capacity_type is CapacityType.ON_DEMAND else set()
    if template.model not in {wanted, *bound}:
        wrong.append(f"its provisioningModel is {template.model}, but {said} needs {wanted}: make a template with that")
    ends = template.model == "SPOT" or "max_run_duration" in scheduling or "termination_time" in scheduling
    if ends and scheduling.get("instance_termination_action") != "DELETE":
        action = scheduling.get("instance_termination_action", "STOP")
        wrong.append(f"its instanceTerminationAction is {action}, which leaves disks that are billed: set it to DELETE")
    kept = [disk for disk in template.row.get("disks", ()) if not disk.get("auto_delete")]
    if kept:
        wrong.append(f"{len(kept)} of its disks stay and are billed when a node is deleted: set autoDelete on each")
    return wrong
