"""Reading of raw objects: metadata, spec and status by a model, and the error for an unreadable field."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from charterer.api.models.base import ApiModel, Condition
from charterer.domain.errors import InvalidObject, Problem
from charterer.domain.time import Instant, parse_instant

# The cause of a failed connection, in the words of the operating system.


def connection_error(error: Exception) -> str:
    """The cause of a failed connection: ``Connection refused``, ``Name or service not known``.

    If a library has wrapped the error, its attribute ``certificate_error`` or ``os_error`` is the cause.
    """
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    match cause:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {cause.verify_message}"
        case ssl.SSLError():
            return f"TLS fails: {(cause.reason or str(cause)).replace('_', ' ').lower()}"
        case OSError() if cause.errno is not None and cause.errno > 0:
            return os.strerror(cause.errno)
        case OSError() if cause.strerror:
            return cause.strerror
    return str(cause) or type(cause).__name__


# Comparison of statuses. Numbers change a little all the time, and not every change is worth a write.


def differs_by(ratio: float, new: Any, old: Any, ignored: AbstractSet[str] = frozenset()) -> bool:
    """Whether two JSON values differ. Numbers, also in strings, differ by more than ``ratio`` of the larger one.

    ``ignored``: keys of objects that do not count, at any depth.
    """
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        keys = (new.keys() | old.keys()) - ignored
        return any(differs_by(ratio, new.get(key), old.get(key), ignored) for key in keys)
    if isinstance(new, list) and isinstance(old, list):
        return len(new) != len(old) or any(differs_by(ratio, a, b, ignored) for a, b in zip(new, old, strict=True))
    if new == old:
        return False
    try:
        a, b = float(new), float(old)
    except (TypeError, ValueError):
        return True
    return abs(a - b) > ratio * max(abs(a), abs(b))


Raw = Mapping[str, Any]
"""An object as the API server sends it."""

_M = TypeVar("_M", bound=ApiModel)


@dataclass(frozen=True, slots=True)
class Controller:
    """The controlling owner of an object (``ownerReferences`` with ``controller: true``), in the object's namespace."""

    group: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """The relevant part of metadata. The caller provides ``kind``, because items of a list have none.

    ``deleted``: time of the deletion request plus the grace period, which only pods have, or None without a deletion.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created: Instant
    deleting: bool
    deleted: Instant | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    finalizers: tuple[str, ...]
    controller: Controller | None

    @classmethod
    def of(cls, kind: str, raw: Raw) -> ObjectMeta:
        """Read metadata. Raises ValueError or KeyError if the API server's own fields are missing."""
        metadata = raw["metadata"]
        return cls(
            kind=kind,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            generation=metadata.get("generation", 0),
            created=parse_instant(metadata["creationTimestamp"]),
            deleting="deletionTimestamp" in metadata,
            deleted=parse_instant(metadata["deletionTimestamp"]) if metadata.get("deletionTimestamp") else None,
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
            finalizers=tuple(metadata.get("finalizers") or ()),
            controller=controller_of(raw),
        )

    def invalid(self, field: str, reason: str, message: str) -> InvalidObject:
        """The error to raise about one field of this object."""
        return InvalidObject(Problem(self.kind, self.namespace, self.name, field, reason, message))

    def read(self, model: type[_M], part: str, raw: Raw) -> _M:
        """Read ``spec`` or ``status`` with its model. Raises InvalidObject, which names the first invalid field."""
        try:
            return model.model_validate(raw.get(part) or {})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = part + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
            message = first["msg"].removeprefix("Value error, ")
            raise self.invalid(field, f"Invalid{part.title()}", message) from error


def true_condition(status: Raw, kind: str) -> Raw | None:
    """The condition of this type in a raw status, if it is True."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") == "True":
            holding: Raw = condition
            return holding
    return None


def controller_of(raw: Raw) -> Controller | None:
    """The controlling owner of the object, or None if it has none. The API server allows at most one."""
    for owner in raw["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = str(owner.get("apiVersion", "")).rpartition("/")[0]
            return Controller(group, str(owner.get("kind", "")), str(owner.get("name", "")), str(owner.get("uid", "")))
    return None


_SUFFIXES: Final[Mapping[str, Decimal]] = {
    **{suffix: Decimal(1000) ** -power for power, suffix in enumerate(("m", "u", "n"), start=1)},
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}


_LARGEST_QUANTITY: Final = 2**63


def whole_quantity(quantity: object) -> int:
    """A Kubernetes quantity such as ``8``, ``"8"``, ``"1k"`` or ``"8000m"``. Raises ValueError if it is not whole."""
    value = _quantity(quantity)
    if value is not None and value == int(value):
        return int(value)
    raise ValueError(f"{str(quantity)!r:.40} is not a whole number")


def thousandths(quantity: object) -> int:
    """Thousandths of a Kubernetes quantity, rounded up. Raises ValueError if it is none, or below 0."""
    value = _quantity(quantity)
    if value is None:
        raise ValueError(f"{str(quantity)!r:.40} is not a quantity")
    return int((value * 1000).to_integral_value(ROUND_CEILING))


def _quantity(quantity: object) -> Decimal | None:
    """The value of a Kubernetes quantity, or None if it is none, below 0, or above the largest allowed one."""
    text = str(quantity)
    digits = text.rstrip("numkKMGTPEi")
    try:
        value = Decimal(digits) * _SUFFIXES[text[len(digits) :]]
    except (ArithmeticError, KeyError):
        return None
    return value if 0 <= value < _LARGEST_QUANTITY else None


def gpus_of(container: Raw, resource: str) -> int:
    """GPUs in the container's limits, which requests must equal. Raises ValueError if they are no whole number."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return whole_quantity(limits.get(resource, 0))


class _Conditions(ApiModel):
    conditions: tuple[Condition, ...] = ()


def conditions(status: Raw) -> tuple[Condition, ...]:
    """The conditions in a status of any of Charterer's kinds. If they cannot be read, there are none."""
    try:
        return _Conditions.model_validate(status).conditions
    except ValidationError:
        return ()
