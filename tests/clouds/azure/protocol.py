"""Requests and answers of Azure Resource Manager as the vendor's SDKs describe them.

Routes: the SDK's own request builders are called with place-holders, which tells method, path, API version and query
parameters. Bodies: the SDK's models name every field with its type; from them come closed, strict validators, which
refuse unknown fields, wrong types and words outside an enum at every depth. Answers go through the same validators.
"""

from __future__ import annotations

import datetime
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qs, unquote, urlsplit

import azure.mgmt.compute.models
import azure.mgmt.compute.operations._operations
import azure.mgmt.containerservice.models
import azure.mgmt.containerservice.operations._operations
from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema

Body = dict[str, Any]

COMPUTE, CONTAINERS = "Microsoft.Compute", "Microsoft.ContainerService"
_MODELS = {COMPUTE: azure.mgmt.compute.models, CONTAINERS: azure.mgmt.containerservice.models}
_BUILDERS = {
    COMPUTE: azure.mgmt.compute.operations._operations,
    CONTAINERS: azure.mgmt.containerservice.operations._operations,
}
_OPEN = frozenset({"VirtualMachineSizeTypes", "StorageAccountTypes"})
"""Enums that grow faster than the SDK: the service itself says what is wrong."""


class Fault(Exception):
    """An error that Azure answers, by its HTTP status, code and message, and what it is about."""

    def __init__(
        self, status: int, code: str, message: str = "", headers: Mapping[str, str] | None = None, target: str = ""
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.status, self.code, self.message, self.target = status, code, message or code, target
        self.headers = dict(headers or {})

    @property
    def body(self) -> Body:
        """The error as it is on the wire."""
        target = {"target": self.target} if self.target else {}
        return {"error": {"code": self.code, "message": self.message, **target}}


def throttled(seconds: int = 17, code: str = "TooManyRequests") -> Fault:
    """Too many calls, with the seconds after which to come back; ``code`` may be "SubscriptionRequestsThrottled".

    https://learn.microsoft.com/troubleshoot/azure/virtual-machines/troubleshooting-throttling-errors
    """
    headers = {
        "Retry-After": str(seconds),
        "x-ms-ratelimit-remaining-resource": "Microsoft.Compute/GetVMScaleSet3Min;0",
        "x-ms-ratelimit-remaining-subscription-reads": "11999",
    }
    return Fault(429, code, "The server rejected the request because too many were received.", headers)


@dataclass(frozen=True)
class Call:
    """A call that came: the variable parts of its path, its query, body and headers, and the server's own address."""

    args: Mapping[str, str]
    query: Mapping[str, str]
    body: Body
    headers: Mapping[str, str]
    server: str

    @property
    def group(self) -> str:
        """The resource group."""
        return self.args["resource_group_name"]

    def header(self, name: str) -> str | None:
        """A header by its name, in whatever case."""
        return next((value for key, value in self.headers.items() if key.lower() == name.lower()), None)


@dataclass(frozen=True)
class Answer:
    """Status, headers and body of a good answer."""

    body: Body | None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


# --- bodies --------------------------------------------------------------------------------------------------------


def _is_model(kind: Any) -> bool:
    return inspect.isclass(kind) and any(base.__name__ == "Model" for base in kind.__mro__[1:])


def _fields_of(model: Any) -> dict[str, tuple[str, Any]]:
    """Name on the wire and type of every field, by attribute."""
    module = _MODELS[COMPUTE if model.__module__.startswith("azure.mgmt.compute.") else CONTAINERS]
    fields = {}
    for base in reversed(model.__mro__):
        for attribute, described in vars(base).items():
            if type(described).__name__ == "_RestField":
                hints = get_type_hints(base, {**vars(module), "_models": module, "datetime": datetime})
                fields[attribute] = (described._rest_name_input or attribute, hints[attribute])
    return fields


class _Schemas:
    """Schemas of models; each model once, because they refer to each other."""

    def __init__(self) -> None:
        self.made: dict[str, CoreSchema] = {}

    def of(self, kind: Any) -> CoreSchema:
        """The strict schema of a type."""
        if _is_model(kind):
            return self._model(kind)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Union:
            return self._union([each for each in arguments if each is not type(None)])
        if origin is list:
            return core_schema.list_schema(self.of(arguments[0]))
        if origin is dict:
            return core_schema.dict_schema(core_schema.str_schema(), self.of(arguments[1]))
        if origin is Literal:
            return core_schema.literal_schema(list(arguments))
        if inspect.isclass(kind) and issubclass(kind, Enum):
            return core_schema.literal_schema([each.value for each in kind])
        return _SCALARS[kind]()

    def _union(self, kinds: list[Any]) -> CoreSchema:
        enums = [each for each in kinds if inspect.isclass(each) and issubclass(each, Enum)]
        if enums and enums[0].__name__ not in _OPEN:
            return self.of(enums[0])  # the SDK writes "the enum or any string"
        return self.of(kinds[0]) if len(kinds) == 1 or enums else core_schema.union_schema([self.of(k) for k in kinds])

    def _model(self, model: Any) -> CoreSchema:
        name = f"{model.__module__}.{model.__name__}"
        if name not in self.made:
            self.made[name] = core_schema.any_schema()  # against endless descent
            fields = {
                wire: core_schema.typed_dict_field(self.of(kind), required=type(None) not in get_args(kind))
                for wire, kind in _fields_of(model).values()
            }
            self.made[name] = core_schema.typed_dict_schema(fields, extra_behavior="forbid", strict=True, ref=name)
        return core_schema.definition_reference_schema(name)


_SCALARS: dict[Any, Callable[[], CoreSchema]] = {
    str: lambda: core_schema.str_schema(strict=True),
    int: lambda: core_schema.int_schema(strict=True),
    bool: lambda: core_schema.bool_schema(strict=True),
    float: lambda: core_schema.float_schema(strict=True),
    datetime.datetime: lambda: core_schema.datetime_schema(tz_constraint="aware"),
    datetime.timedelta: lambda: core_schema.timedelta_schema(),
    bytes: lambda: core_schema.str_schema(strict=True),
    Any: lambda: core_schema.any_schema(),
    object: lambda: core_schema.any_schema(),
}


@cache
def _validator(provider: str, model: str) -> SchemaValidator:
    schemas = _Schemas()
    top = schemas.of(getattr(_MODELS[provider], model))
    return SchemaValidator(core_schema.definitions_schema(top, list(schemas.made.values())))


def wrong_with(provider: str, model: str, text: str | bytes) -> str:
    """What is wrong with a JSON text that should be that model; empty when all is well."""
    try:
        _validator(provider, model).validate_json(text)
    except ValidationError as error:
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return ""


# --- routes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Route:
    """How a call looks on the wire. ``query``: the words that each parameter may have; None allows all."""

    method: str
    path: re.Pattern[str]
    version: str
    query: Mapping[str, frozenset[str] | None]


def _words(annotation: Any) -> frozenset[str] | None:
    kinds = [each for outer in get_args(annotation) for each in (get_args(outer) or (outer,))]
    enums = [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, Enum)]
    return frozenset(each.value for each in enums[0]) if enums else None


@cache
def route(provider: str, operation: str) -> Route:
    """The route of an operation of an SDK, by its name there."""
    module = _BUILDERS[provider]
    builder = getattr(module, f"build_{operation}_request")
    hints = get_type_hints(builder, {**vars(module), "_models": _MODELS[provider]})
    parameters = [p for p in inspect.signature(builder).parameters.values() if p.kind is not p.VAR_KEYWORD]
    parameters = [p for p in parameters if p.name not in ("etag", "match_condition")]
    switches = {p.name for p in parameters if bool in get_args(hints[p.name])}
    request = builder(**{p.name: True if p.name in switches else f"--{p.name}--" for p in parameters})
    url = urlsplit(request.url)
    query: dict[str, frozenset[str] | None] = {}
    given = {key: values[0] for key, values in parse_qs(url.query).items()}
    version = given.pop("api-version")
    for key, value in given.items():
        name = value.strip("-")
        query[key] = frozenset({"true", "false"}) if value == "true" else _words(hints[name])
    path = re.sub(r"--(\w+)--", r"(?P<\1>[^/]+)", unquote(url.path))
    return Route(request.method, re.compile(path, re.IGNORECASE), version, query)


def plain_route(method: str, path: str, version: str, *query: str) -> Route:
    """The route of a call that has no SDK here; ``path`` has its variable parts as {name}."""
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
    return Route(method, re.compile(pattern, re.IGNORECASE), version, dict.fromkeys(query))


def check_query(where: Route, query: Mapping[str, str]) -> None:
    """Refuse another API version, unknown parameters and unknown words."""
    if query.get("api-version") != where.version:
        said = query.get("api-version")
        raise Fault(400, "InvalidApiVersionParameter", f"The api-version '{said}' is invalid; it is {where.version}")
    for key, value in query.items():
        if key in ("api-version", "$skiptoken"):
            continue
        if key not in where.query:
            raise Fault(400, "InvalidParameter", f"The query parameter '{key}' is not in the description")
        words = where.query[key]
        if words is not None and value not in words:
            raise Fault(400, "InvalidParameter", f"{key}: {value!r} is none of {sorted(words)}")
