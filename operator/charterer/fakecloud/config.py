"""The configuration of a fake cloud: its groups, quotas and faults, as its YAML file and its admin calls write them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from charterer.fakecloud.base import Written, problems, read_yaml
from charterer.fakecloud.bill import millionths, scaled
from charterer.fakecloud.faults import FaultSpec
from charterer.fakecloud.startup import MEASURED


def _decimal(text: str) -> str:
    millionths(text)
    return text


Decimal = Annotated[str, AfterValidator(_decimal)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=63)]
OrderName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Draws = Annotated[tuple[Seconds, ...], Field(min_length=1)]


class GroupChange(Written):
    """A scheduled change of a group: ``patch`` is applied ``after_seconds`` after the cloud's first start.

    It is written flat: ``{afterSeconds: 60, stock: 0}``.
    """

    after_seconds: Seconds
    patch: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        if isinstance(value, dict) and "patch" not in value:
            patch = {name: new for name, new in value.items() if name != "afterSeconds"}
            return {"afterSeconds": value.get("afterSeconds"), "patch": patch}
        return value


class CutGpus(Written):
    """How the GPUs of a group's Nodes are cut: ``slices_per_gpu`` slices of a MIG profile.

    ``published``: how a Node shows them. By NVIDIA's device plugin ``mixed`` (a resource for the profile) or ``single``
    (as whole GPUs), or by its DRA driver: in ResourceSlices, and not in the Node.
    """

    profile: Annotated[str, Field(pattern=r"^[1-7]g[.][0-9]{1,3}gb$")]
    slices_per_gpu: Annotated[int, Field(ge=2, le=7)]
    published: Literal["mixed", "single", "dra"] = "mixed"


class GroupTaint(Written):
    """A taint of a group's Nodes."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class GroupSpec(Written):
    """One instance group. Money is a decimal string of dollars, times are seconds.

    ``hourly_price`` is the list price; a Spot machine costs that times ``spot_factor``, fixed at its launch unless
    ``reprice_running``. ``orders``: how machines are asked for (docs/fakecloud.md). ``stock``: number of machines of
    the group that the cloud has, including those in use (None: unlimited). ``startup_seconds`` and ``lifetime_seconds``
    are lists that each machine draws from by the seed. ``jobs_per_gpu``: jobs that share each GPU of its Nodes; None:
    none do. ``resource``: how its Nodes name whole GPUs. ``labels``, ``taints`` and ``resources``: those that its Nodes
    have beside what each Node of this cloud has; the answers about the group say them.
    """

    name: Name
    instance_type: str
    gpu_type: str
    gpus_per_instance: Annotated[int, Field(ge=1, le=64)]
    zone: Name
    hourly_price: Decimal
    max_size: Annotated[int, Field(ge=0)]
    orders: Literal["counted", "named", "replying"] = "counted"
    capacity_type: Literal["OnDemand", "Spot"] = "OnDemand"
    startup_seconds: Literal["K80", "P100"] | Draws = (0.0,)
    startup_scale: Seconds = 1.0
    spot_factor: Decimal = "0.35"
    reprice_running: bool = False
    billing_minimum_seconds: Annotated[int, Field(ge=0)] = 0
    min_size: Annotated[int, Field(ge=0)] = 0
    initial_target: Annotated[int, Field(ge=0)] = 0
    stock: Annotated[int, Field(ge=0)] | None = None
    stop_seconds: Seconds = 0.0
    retry_seconds: Annotated[float, Field(gt=0)] = 30.0
    heal_seconds: Seconds = 0.0
    list_lag_seconds: Seconds = 0.0
    listed_seconds: Seconds = 300.0
    lifetime_seconds: Draws | None = None
    notice_seconds: Seconds = 120.0
    cpu: str = "32"
    memory: str = "256Gi"
    pods: int = 110
    labels: dict[str, str] = Field(default_factory=dict)
    taints: tuple[GroupTaint, ...] = ()
    resources: dict[str, str] = Field(default_factory=dict)
    cut: CutGpus | None = None
    resource: str = "nvidia.com/gpu"
    jobs_per_gpu: Annotated[int, Field(ge=2, le=8)] | None = None
    node_object: Literal["delete", "silent"] = "delete"
    node_deletion_seconds: Seconds = 5.0
    changes: tuple[GroupChange, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if millionths(self.spot_factor) > millionths("1"):
            raise ValueError(f"spotFactor {self.spot_factor} is above 1; spot never costs more than the list price")
        if self.initial_target > self.max_size:
            raise ValueError(f"initialTarget {self.initial_target} is above maxSize {self.max_size}")
        plain = self.model_dump(by_alias=True, exclude={"changes"})
        for change in self.changes:
            if change.patch.keys() & {"name", "changes", "initialTarget"}:
                raise ValueError("changes: name, changes and initialTarget cannot be changed on a schedule")
            plain |= change.patch
            GroupSpec.model_validate(plain)
        return self

    @property
    def list_price(self) -> int:
        """The most that a machine launched now can ever cost, in micro-dollars an hour."""
        return millionths(self.hourly_price)

    def price_of(self, list_price: int) -> int:
        """The present price of a machine launched at ``list_price``, both in micro-dollars an hour."""
        return list_price if self.capacity_type == "OnDemand" else scaled(list_price, millionths(self.spot_factor))

    @property
    def room(self) -> dict[str, str]:
        """What a Node has for pods beside its GPUs."""
        return {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), **self.resources}

    @property
    def startup_draws(self) -> tuple[float, ...]:
        """The seconds from launch to Running that a machine draws from, unscaled."""
        return MEASURED[self.startup_seconds] if isinstance(self.startup_seconds, str) else self.startup_seconds

    def patched(self, patch: dict[str, Any]) -> GroupSpec:
        """This group with some fields replaced (camelCase names); ValidationError names the wrong ones."""
        return GroupSpec.model_validate(self.model_dump(by_alias=True) | patch)


class CloudConfig(Written):
    """The whole file. ``quotas``: the most GPUs of a type at a time; a type that is not named is unlimited."""

    seed: int = 0
    token: str | None = None
    quotas: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    groups: tuple[GroupSpec, ...] = ()
    faults: tuple[FaultSpec, ...] = ()

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [group.name for group in self.groups]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"groups: the name {twice[0]!r} is used twice")
        return self


def load_config(path: Path) -> CloudConfig:
    """The configuration in a YAML file; ValueError names the file and the wrong field."""
    try:
        return CloudConfig.model_validate(read_yaml(path) or {})
    except ValidationError as error:
        raise ValueError(f"{path}: {problems(error)}") from error
