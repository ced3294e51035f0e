"""Instance templates: what instances they make, and which settings would cause surprising costs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from charterer.api.metadata import thousandths
from charterer.domain.ids import PoolId
from charterer.domain.pool import CapacityType, Offering, Pool
from charterer.gpu_types.accelerators import accelerator_of, counted_otherwise, gce_gpu, label_advice, part_of_a_gpu
from charterer.providers.errors import InvalidRequest, NotFoundInCloud
from charterer.providers.gcp.calls import Calls, Json
from charterer.providers.gcp.listing import last
from charterer.providers.gcp.permissions import Call
from charterer.providers.provider import NO_TEMPLATE, NodeTemplate

# The nodes of an instance template, as its metadata declares them. GKE writes the entry for the cluster autoscaler.
#
# https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/gce/templates.go


_ENTRY: Final = "kube-env"
_VARIABLES: Final = "AUTOSCALER_ENV_VARS"
_LINES: Final = re.compile(rf"^{_VARIABLES}:.*(?:\n[ \t].*)*", re.MULTILINE)
"""The only entry of the YAML document that is read. The entry may continue in indented lines."""
_NAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "arch": ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
    "os": ("kubernetes.io/os", "beta.kubernetes.io/os"),
}
"""Variables whose values are the values of labels."""


@dataclass(frozen=True, slots=True)
class KubeEnv:
    """The template of the nodes, and the amount of each resource that the kubelet reserves."""

    nodes: NodeTemplate = NO_TEMPLATE
    reserved: Mapping[str, str] = field(default_factory=dict)

    def left(self, resource: str, amount: int) -> str:
        """The quantity that pods may have of ``amount`` thousandths. It is below 0 if more is reserved than there
        is.
        """
        try:
            kept = thousandths(self.reserved.get(resource, "0"))
        except ValueError:
            kept = 0
        return f"{amount - kept}m"


def kube_env(properties: Json) -> KubeEnv:
    """The facts in the metadata of a template's properties."""
    entries = properties.get("metadata", {}).get("items", ())
    text = next((each.get("value", "") for each in entries if each.get("key") == _ENTRY), "")
    variables = _variables(text)
    labels = dict(_pairs(variables.get("node_labels", "")))
    for name, keys in _NAMED.items():
        labels |= dict.fromkeys(keys, variables[name]) if variables.get(name) else {}
    taints, resources = _pairs(variables.get("node_taints", "")), _pairs(variables.get("extended_resources", ""))
    return KubeEnv(NodeTemplate(labels, taints, dict(resources)), dict(_pairs(variables.get("kube_reserved", ""))))


def _variables(text: str) -> Mapping[str, str]:
    """The variables by name. They are written ``NAME=VALUE;NAME=VALUE``."""
    found = _LINES.search(text)
    try:
        document = yaml.safe_load("" if found is None else found[0])
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    line = document.get(_VARIABLES) if isinstance(document, dict) else None
    parts = [part.partition("=") for part in str(line or "").split(";")]
    return {name.strip(): value.strip(" \"'") for name, equals, value in parts if equals}


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The pairs of ``KEY=VALUE,KEY=VALUE``. Parts without an equals sign are ignored."""
    parts = [part.partition("=") for part in text.split(",")]
    return tuple([(key.strip(), value.strip()) for key, equals, value in parts if equals])


_KEPT_SECONDS: Final = 300.0
"""Seconds for which a template is used before it is read again."""
_REGIONAL: Final = re.compile(r"(?:.*/)?regions/([^/]+)/instanceTemplates/([^/]+)")
_FLEX_START: Final = "FLEX_START"


@dataclass(frozen=True, slots=True)
class Template:
    """An instance template.

    ``accelerators``: for each type, the GPUs that the template attaches.
    ``model``: its provisioning model.
    ``row``: its properties as Compute Engine describes them, without the metadata, because GKE writes secrets into the
    metadata.
    ``env``: the facts about its nodes in the metadata.
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
        """How the template's instances are scheduled."""
        found: Json = self.row.get("scheduling", {})
        return found


class InstanceTemplates:
    """Reads templates. ``clock``: seconds of a clock that never goes back."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._known: dict[str, tuple[float, Template]] = {}

    async def read(self, pool: PoolId, link: str, field: str) -> Template:
        """The template with a link, or named ``NAME`` or ``REGION/NAME``. Raises InvalidRequest if there is none.

        ``field``: the field in which the pool names the template, for errors.
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
    """The link of a template that a pool names as ``NAME`` or ``REGION/NAME``. If the name is a link already, it is
    returned.
    """
    if "instanceTemplates/" in name:
        return name
    region, _, short = name.rpartition("/")
    return f"regions/{region}/instanceTemplates/{short}" if region else f"global/instanceTemplates/{short}"


def problems_of(pool: Pool, template: Template, *, flex: bool) -> Sequence[str]:
    """Settings of a template by which it sells the wrong kind of node, or leaves something behind that is billed."""
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


# The hardware of a pool's node: the GPUs of its machine type, or those that its template attaches.


@dataclass(frozen=True, slots=True)
class MachineType:
    """A machine type.

    ``gpus``: its own GPUs, by accelerator type.
    ``told_otherwise``: a sentence if Compute Engine lists another number of GPUs than Charterer's table. The table's
    number is used. Otherwise empty.
    ``vcpus``: virtual CPUs.
    ``memory``: MiB.
    """

    gpus: Mapping[str, int]
    told_otherwise: str
    vcpus: int
    memory: int


class GceHardware:
    """Reads machine types. Each is read only once, because its facts never change."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._types: dict[tuple[str, str], MachineType] = {}

    async def offering(self, pool: Pool, template: Template, zone: str, group: str, said: str) -> Offering:
        """One node of the pool. Raises InvalidRequest if the node has no GPU. ``said``: the GPU type in the pool's
        spec.
        """
        gpus = await self.gpus(pool.id, template, zone)
        own = gce_gpu(accelerator_of(template.machine_type))
        if template.machine_type in own.parts:
            message = part_of_a_gpu(template.machine_type, f"an {accelerator_of(template.machine_type)}")
            raise InvalidRequest(pool.id, "spec.gcp", "PartOfAGpu", message)
        if not gpus:
            message = (
                f"{template.machine_type} has no GPU, and instance template {template.name} attaches none: "
                "make a template with NVIDIA GPUs"
            )
            raise InvalidRequest(pool.id, "spec.gcp", "NoGpu", message)
        [(accelerator, count), *others] = gpus.items()
        if others:
            message = f"instance template {template.name} attaches several types of GPUs: make one with one type"
            raise InvalidRequest(pool.id, "spec.gcp", "SeveralGpus", message)
        product = said or gce_gpu(accelerator).label
        if not product:
            message = label_advice(accelerator, gce_gpu(accelerator))
            raise InvalidRequest(pool.id, "spec.gcp.gpuType", "UnknownGpu", message)
        attached = f"+{accelerator}" if template.accelerators and template.machine_type.startswith("n1-") else ""
        machine, env = await self._type(pool.id, template, zone), template.env
        room = {
            "cpu": env.left("cpu", machine.vcpus * 1000),
            "memory": env.left("memory", machine.memory * 2**20 * 1000),
        }
        traits = env.nodes.traits(room)
        return Offering(product, count, f"{template.machine_type}{attached}", zone, group, traits=traits)

    async def gpus(self, pool: PoolId, template: Template, zone: str) -> Mapping[str, int]:
        """GPUs of a node by accelerator type. Raises InvalidRequest if the zone does not offer the machine type."""
        return (await self._type(pool, template, zone)).gpus or template.accelerators

    async def told_otherwise(self, pool: PoolId, template: Template, zone: str) -> str:
        """A sentence if Compute Engine lists another number of GPUs than the machine type has, or an empty text if the
        numbers agree.
        """
        return (await self._type(pool, template, zone)).told_otherwise

    async def _type(self, pool: PoolId, template: Template, zone: str) -> MachineType:
        key = template.machine_type, zone
        if key not in self._types:
            try:
                answer = await self._calls(pool, Call.GET_TYPE, zone=zone, machine_type=template.machine_type)
            except NotFoundInCloud as error:
                message = (
                    f"instance template {template.name} names machine type {template.machine_type!r}, which {zone} "
                    "does not offer: choose another type, or another zone"
                )
                raise InvalidRequest(pool, Call.GET_TYPE.full_name, error.code, message) from error
            row = answer.body
            listed = {
                each["guest_accelerator_type"]: int(each["guest_accelerator_count"])
                for each in row.get("accelerators", ())
            }
            name = template.machine_type
            known = {kind: gce_gpu(kind).gpus.get(name, count) for kind, count in listed.items()}
            wrong = "; ".join(filter(None, (counted_otherwise(name, listed[kind], known[kind]) for kind in listed)))
            self._types[key] = MachineType(known, wrong, int(row.get("guest_cpus", 0)), int(row.get("memory_mb", 0)))
        return self._types[key]
