"""The configuration of a fake cloud: its groups, quotas and faults, as they are in its YAML file and in admin calls."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from charterer import bounded_yaml

# The rule of the bill (docs/fakecloud.md), in integers: micro-dollars, whole seconds, instants in microseconds.
#
# This is the cloud's own arithmetic. The operator's ledger has its own code for the same published rule, and the two
# must agree to the micro-dollar.


SECOND = 1_000_000
"""Microseconds in a second. The same number is micro-dollars in a dollar, and millionths in a factor of 1."""

_HOUR = 3600
_DECIMAL = re.compile(r"(\d{1,9})(?:\.(\d{1,6}))?")


@dataclass(frozen=True, slots=True)
class BillSegment:
    """The price from ``since`` until the next segment or the end."""

    since: int
    micros_per_hour: int


def millionths(decimal: str) -> int:
    """The millionths in a decimal string with up to six decimals. Raises ValueError if it is not one."""
    match = _DECIMAL.fullmatch(decimal)
    if match is None:
        raise ValueError(f"{decimal!r} is not a decimal number with up to six decimals, like 12.50")
    whole, fraction = match.groups()
    return int(whole) * SECOND + int((fraction or "0").ljust(6, "0"))


def decimal(micros: int) -> str:
    """The exact decimal string of a non-negative number of millionths. It has at least two decimals."""
    whole, fraction = divmod(micros, SECOND)
    digits = f"{fraction:06d}"
    return f"{whole}.{digits[:2]}{digits[2:].rstrip('0')}"


def scaled(micros_per_hour: int, factor_millionths: int) -> int:
    """A list price times a factor, rounded to the micro-dollar an hour (half up)."""
    return (micros_per_hour * factor_millionths + SECOND // 2) // SECOND


def billed_seconds(launched: int, until: int, minimum: int) -> int:
    """The time in seconds, rounded up to a whole number, and at least ``minimum``."""
    return max(-((launched - until) // SECOND), minimum)


def cost(segments: Sequence[BillSegment], launched: int, until: int, minimum: int) -> int:
    """The cost of one machine from ``launched`` to ``until``, in micro-dollars.

    Each segment but the last lasts from its ``since`` to the ``since`` of the next segment, rounded down to whole
    seconds. The last segment has the rest of the billed time. n seconds at a price of p an hour cost p·n/3600, rounded
    half up.
    """
    begun = [segment for segment in segments if segment.since <= until]
    lengths = [(later.since - earlier.since) // SECOND for earlier, later in pairwise(begun)]
    lengths.append(billed_seconds(launched, until, minimum) - sum(lengths))
    return sum(
        (segment.micros_per_hour * length + _HOUR // 2) // _HOUR for segment, length in zip(begun, lengths, strict=True)
    )


# Measured start-up times of GPU machines, in seconds from the request to the boot, provisioning and staging included.
# Condensed from the CM-DARE data (see NOTICE). Each GPU type has the twenty quantiles at 2.5 %, 7.5 %, …, 97.5 % of all
# measured starts (51 with a K80, 49 with a P100), on-demand and preemptible, in two regions.


MEASURED: Final[dict[str, tuple[float, ...]]] = {
    "K80": (
        *(61.8, 64.0, 65.8, 66.2, 67.0, 67.5, 68.2, 70.4, 74.4, 78.6),
        *(78.9, 81.4, 82.5, 83.8, 85.0, 85.5, 87.0, 87.7, 89.0, 90.5),
    ),
    "P100": (
        *(62.7, 67.0, 68.2, 68.5, 68.8, 69.6, 70.0, 72.1, 72.6, 75.9),
        *(77.8, 86.6, 89.0, 90.5, 90.8, 91.7, 92.5, 93.4, 94.7, 95.4),
    ),
}


# The base class of all values read from YAML or JSON, and the reader of YAML files that a person names.


class Written(BaseModel):
    """A frozen value whose fields have camelCase names in YAML and JSON. An unknown field is an error that names the
    field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


_SHOWN: Final = 5
"""Most mistakes that are reported one by one. Of further mistakes only the number is reported."""


def problems(error: ValidationError) -> str:
    """A validation error as one line: the written name of each field, what is wrong, and the value."""
    said = [
        f"{'.'.join(str(step) for step in detail['loc']) or 'value'}: {detail['msg']} (got {detail['input']!r:.80})"
        for detail in error.errors(include_url=False)
    ]
    more = len(said) - _SHOWN
    return "; ".join([*said[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def read_yaml(path: Path) -> Any:
    """The content of the file. Raises ValueError if it cannot be read, with the file and the reason."""
    try:
        return bounded_yaml.read(path)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} cannot be used: {error}") from error


# Faults of the cloud's API that are injected on purpose: throttling, errors, lost answers, slowness, empty lists.


class FaultKind(StrEnum):
    """The fault of a call.

    LOST_ANSWER: the call takes effect but gets no answer. LOST_REQUEST: the call has no effect and gets no answer.
    EMPTY_LIST: a list of instances is empty.
    """

    THROTTLE = "throttle"
    ERROR = "error"
    LOST_ANSWER = "lost-answer"
    LOST_REQUEST = "lost-request"
    SLOW = "slow"
    EMPTY_LIST = "empty-list"


class Match(Written):
    """The calls that a fault hits.

    ``method``: an HTTP method, or None for any. ``path``: a shell-style pattern for the path.
    """

    method: str | None = None
    path: str = "*"


class FaultSpec(Written):
    """One fault of the API.

    ``times``: number of calls that the fault hits, or None for all.
    ``probability``: the probability with which the fault hits a matching call.
    ``status``, ``code``, ``message``: the answer, for errors.
    ``retry_after_seconds``: seconds to wait, for throttling.
    ``seconds``: delay of a slow answer after the call took effect.
    """

    kind: FaultKind
    match: Match = Match()
    times: Annotated[int, Field(ge=1)] | None = 1
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    status: Annotated[int, Field(ge=400, le=599)] = 500
    code: str = "InternalError"
    message: str = "an injected fault"
    retry_after_seconds: Annotated[int, Field(ge=0)] = 1
    seconds: Annotated[float, Field(ge=0)] = 1.0


@dataclass(slots=True)
class _Armed:
    spec: FaultSpec
    left: int | None


class Faults:
    """The faults that wait for their calls.

    The faults are only in memory. After a restart there are only the faults of the configuration.
    """

    def __init__(self, seed: int, specs: tuple[FaultSpec, ...] = ()) -> None:
        self._random = random.Random(f"{seed}/faults")
        self._armed = [_Armed(spec, spec.times) for spec in specs]

    def add(self, spec: FaultSpec) -> None:
        """Add a fault. Earlier faults are tried first."""
        self._armed.append(_Armed(spec, spec.times))

    def clear(self) -> None:
        """Remove all faults."""
        self._armed.clear()

    def waiting(self) -> list[FaultSpec]:
        """The faults that can still hit a call. ``times`` of each is the number of calls left."""
        return [fault.spec.model_copy(update={"times": fault.left}) for fault in self._armed]

    def draw(self, method: str, path: str) -> FaultSpec | None:
        """The fault that hits this call, or None if no fault does. The call counts as one of the fault's ``times``."""
        for fault in self._armed:
            match = fault.spec.match
            if match.method not in (None, method) or not fnmatchcase(path, match.path):
                continue
            if self._random.random() >= fault.spec.probability:
                continue
            if fault.left is not None:
                fault.left -= 1
                if fault.left == 0:
                    self._armed.remove(fault)
            return fault.spec
        return None


def _decimal(text: str) -> str:
    millionths(text)
    return text


Decimal = Annotated[str, AfterValidator(_decimal)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=63)]
OrderName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Draws = Annotated[tuple[Seconds, ...], Field(min_length=1)]


class GroupChange(Written):
    """A scheduled change of a group. ``patch`` is applied ``after_seconds`` seconds after the cloud's first start.

    In the file it is flat: ``{afterSeconds: 60, stock: 0}``.
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
    """How the GPUs of a group's Nodes are cut: into ``slices_per_gpu`` slices of a MIG profile.

    ``published``: how a Node shows the slices. With ``mixed``, NVIDIA's device plugin shows a resource for the profile.
    With ``single``, the device plugin shows a resource as for whole GPUs. With ``dra``, NVIDIA's DRA driver shows them
    in ResourceSlices and not on the Node.
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
    """One instance group. Money is a decimal string of dollars, and times are seconds.

    ``hourly_price``: the list price.
    ``orders``: how machines are ordered (docs/fakecloud.md).
    ``spot_factor``: a Spot machine costs the list price times this factor.
    ``reprice_running``: whether the price of a running machine follows later changes. Otherwise it is fixed at launch.
    ``stock``: number of the group's machines that the cloud has, used ones included, or None for unlimited.
    ``startup_seconds``, ``lifetime_seconds``: lists from which the seed draws a value for each machine.
    ``labels``, ``taints``, ``resources``: what the group's Nodes have in addition to what every Node of this cloud has.
    Answers about the group contain them.
    ``resource``: the resource name of whole GPUs.
    ``jobs_per_gpu``: number of jobs that share each GPU of the group's Nodes, or None if no jobs share GPUs.
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
        """The highest price, in micro-dollars an hour, that a machine launched now can ever have."""
        return millionths(self.hourly_price)

    def price_of(self, list_price: int) -> int:
        """The present price of a machine launched at ``list_price``. Both are in micro-dollars an hour."""
        return list_price if self.capacity_type == "OnDemand" else scaled(list_price, millionths(self.spot_factor))

    @property
    def room(self) -> dict[str, str]:
        """The resources that a Node has for pods in addition to its GPUs."""
        return {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), **self.resources}

    @property
    def startup_draws(self) -> tuple[float, ...]:
        """The times from launch to Running among which a machine draws, in unscaled seconds."""
        return MEASURED[self.startup_seconds] if isinstance(self.startup_seconds, str) else self.startup_seconds

    def patched(self, patch: dict[str, Any]) -> GroupSpec:
        """This group with some fields (camelCase names) replaced. ValidationError names the wrong ones."""
        return GroupSpec.model_validate(self.model_dump(by_alias=True) | patch)


class CloudConfig(Written):
    """The whole configuration.

    ``quotas``: the most GPUs of each type at a time. A type that is not named is unlimited.
    """

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
    """The configuration in a YAML file. Raises ValueError with the file and the wrong field if it is invalid."""
    try:
        return CloudConfig.model_validate(read_yaml(path) or {})
    except ValidationError as error:
        raise ValueError(f"{path}: {problems(error)}") from error
