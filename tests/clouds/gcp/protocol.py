"""Requests and answers of Compute Engine as Google's own SDK describes them.

Routes come from the SDK's REST stubs, request classes from its clients. Path, query and body together become one
request message; an unknown field or query parameter is refused. Where the SDK types an enum as text, the text is
checked against the enum that stands beside it, for answers too.
"""

from __future__ import annotations

import inspect
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from google.cloud import compute_v1
from google.protobuf import json_format

Message = Any
"""A message of the SDK: its classes have no types."""

SERVICES = (
    "accelerator_types",
    "autoscalers",
    "instance_group_manager_resize_requests",
    "instance_group_managers",
    "instance_templates",
    "instances",
    "machine_types",
    "projects",
    "region_instance_templates",
    "regions",
    "reservations",
    "zone_operations",
    "zones",
)
NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""RFC 1035, as https://cloud.google.com/compute/docs/naming-resources words it."""
_LABEL_KEY = re.compile(r"[a-z][-_a-z0-9]{0,62}")
_LABEL_VALUE = re.compile(r"[-_a-z0-9]{0,63}")
_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
_STATUS |= {409: "ALREADY_EXISTS", 412: "FAILED_PRECONDITION", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
_BOOL, _INTEGERS = 8, frozenset({3, 4, 5, 13})
"""Types of a field in a protobuf descriptor."""


class Fault(Exception):
    """An error that Google answers: HTTP status, ``errors[].reason``, message and headers."""

    def __init__(self, status: int, reason: str, message: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message or reason
        self.headers = dict(headers or {})


THROTTLED = Fault(403, "rateLimitExceeded", "Rate Limit Exceeded", {"Retry-After": "7"})


def invalid(name: str, value: object, why: str) -> Fault:
    """The error for a field that has a bad value."""
    return Fault(400, "invalid", f"Invalid value for field '{name}': '{value}'. {why}")


@dataclass(frozen=True)
class Route:
    """A method of the API, as ``service.method``, with its request class and the field that is its body."""

    verb: str
    pattern: re.Pattern[str]
    name: str
    request: Any
    body: str | None

    @property
    def fields(self) -> dict[str, Any]:
        """Descriptors of the request's fields by their Python names."""
        return {f.name: f for f in self.request.pb(self.request()).DESCRIPTOR.fields}


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def _request_class(client: Any, method: str) -> Any:
    call = getattr(client, f"{method}_unary", None) or getattr(client, method)
    hint = inspect.signature(call).parameters["request"].annotation
    return next(each for each in hint.__args__ if hasattr(each, "pb"))


@cache
def routes() -> tuple[Route, ...]:
    """Every method of the services that this server knows."""
    found = []
    for service in SERVICES:
        base = import_module(f"google.cloud.compute_v1.services.{service}.transports.rest_base")
        prefix = "".join(part.capitalize() for part in service.split("_"))
        client, transport = getattr(compute_v1, f"{prefix}Client"), getattr(base, f"_Base{prefix}RestTransport")
        for name, stub in vars(transport).items():
            if not hasattr(stub, "_get_http_options"):
                continue
            method = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removeprefix("_Base")).lower()
            for option in stub._get_http_options():
                pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", option["uri"]))
                request, known = _request_class(client, method), f"{_camel(service)}.{_camel(method)}"
                found.append(Route(option["method"].upper(), pattern, known, request, option.get("body")))
    return tuple(found)


def request(verb: str, target: str, body: bytes) -> tuple[Route, dict[str, Any], Message]:
    """The route, the request as JSON and as a message; Fault when it does not follow the description."""
    url = urlsplit(target)
    for route in routes():
        found = route.pattern.fullmatch(url.path)
        if found is not None and route.verb == verb:
            break
    else:
        raise Fault(404, "notFound", f"The requested URL {url.path} was not found for {verb}.")
    path = {key: unquote(value) for key, value in found.groupdict().items()}
    fields = route.fields
    data: dict[str, Any] = {fields[key].json_name: value for key, value in path.items()}
    data |= _query(route, path, url.query)
    if route.body is not None:
        if not body:
            raise Fault(400, "required", "Required field 'resource' not specified")
        data[fields[route.body].json_name] = _json(body)
    elif body:
        raise Fault(400, "invalid", f"{route.name} has no body")
    try:
        message = route.request.from_json(json.dumps(data))
    except (json_format.ParseError, TypeError, ValueError) as error:
        raise Fault(400, "invalid", f"Invalid JSON payload received. {error}") from error
    _check(route, path, message)
    return route, data, message


def _json(body: bytes) -> dict[str, Any]:
    try:
        read = json.loads(body)
    except ValueError as error:
        raise Fault(400, "parseError", "Parse Error") from error
    if not isinstance(read, dict):
        raise Fault(400, "parseError", "Parse Error")
    return read


def _query(route: Route, path: Mapping[str, str], query: str) -> dict[str, Any]:
    open_fields = {f.json_name: f for f in route.fields.values() if f.name not in path and f.name != route.body}
    found: dict[str, Any] = {}
    for key, raw in parse_qsl(query, keep_blank_values=True):
        if key in ("alt", "$alt", "prettyPrint"):
            continue
        if key not in open_fields:
            raise Fault(
                400,
                "invalid",
                f'Invalid JSON payload received. Unknown name "{key}": Cannot bind query '
                f"parameter. Field '{key}' could not be found in request message.",
            )
        descriptor = open_fields[key]
        if key in found and not descriptor.is_repeated:
            raise invalid(key, raw, "The parameter was given twice.")
        value: Any = raw
        if descriptor.type == _BOOL:
            if raw not in ("true", "false"):
                raise invalid(key, raw, "Must be true or false.")
            value = raw == "true"
        elif descriptor.type in _INTEGERS:
            if not re.fullmatch(r"-?\d+", raw):
                raise invalid(key, raw, "Must be a number.")
            value = int(raw)
        if descriptor.is_repeated:
            found.setdefault(key, []).append(value)
        else:
            found[key] = value
    return found


def _check(route: Route, path: Mapping[str, str], message: Message) -> None:
    """What the classes do not say: enums in texts, names, request ids, page sizes."""
    for key, value in path.items():
        by_id = key not in ("project", "zone", "region") and value.isdigit()
        if not by_id and not NAME.fullmatch(value):
            raise invalid(_camel(key), value, f"Must be a match of regex '{NAME.pattern}'")
    if route.body is not None and (wrong := _wrong_enums(getattr(message, route.body), "resource")):
        raise Fault(400, "invalid", wrong[0])
    given = {f.name: v for f, v in route.request.pb(message).ListFields()}
    if "request_id" in given:
        check_request_id(given["request_id"])
    if not 0 <= given.get("max_results", 0) <= 500:
        raise invalid("maxResults", given["max_results"], "Must be between 0 and 500, inclusive.")
    if given.get("order_by", "name") not in ("name", "creationTimestamp desc"):
        raise invalid("orderBy", given["order_by"], "Only name and creationTimestamp desc are supported.")


def check_request_id(value: str) -> None:
    """Refuse what is no UUID, and the zero UUID."""
    try:
        good = str(uuid.UUID(value)) == value.lower() and uuid.UUID(value).int != 0
    except ValueError:
        good = False
    if not good:
        raise invalid("requestId", value, "Must be a valid UUID, and not zero.")


def check_name(value: str, where: str) -> None:
    """Refuse a name that is not of RFC 1035."""
    if not NAME.fullmatch(value):
        raise invalid(where, value, f"Must be a match of regex '{NAME.pattern}'")


def check_labels(labels: Mapping[str, str]) -> None:
    """Refuse labels as https://cloud.google.com/compute/docs/labeling-resources limits them (here: ASCII only)."""
    if len(labels) > 64:
        raise invalid("resource.labels", len(labels), "A resource can have up to 64 labels.")
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key):
            raise invalid("resource.labels", key, f"Label key '{key}' violates format constraints.")
        if not _LABEL_VALUE.fullmatch(value):
            raise invalid("resource.labels", value, f"Label value '{value}' violates format constraints.")


@cache
def _enum_of(kind: Any, name: str) -> frozenset[str] | None:
    """The words of a text field that has an enum beside it; some words are only in the enum's description."""
    enum = vars(kind).get("".join(part.capitalize() for part in name.split("_")))
    if not (isinstance(enum, type) and issubclass(enum, IntEnum)):
        return None
    told = re.search(r"Additional supported values which may be not listed[^:]*:([A-Z_0-9\s]+)", enum.__doc__ or "")
    words = {*enum.__members__, *(re.findall(r"[A-Z_0-9]{2,}", told.group(1)) if told else ())}
    return frozenset(word for word in words if not word.startswith("UNDEFINED_"))


def _wrong_enums(message: Message, path: str) -> list[str]:
    kind: Any = type(message)
    wrong: list[str] = []
    for descriptor, _ in kind.pb(message).ListFields():
        name = descriptor.name if descriptor.name in kind.meta.fields else f"{descriptor.name}_"
        value, where = getattr(message, name), f"{path}.{descriptor.json_name}"
        if descriptor.message_type is not None:
            mapped = descriptor.message_type.GetOptions().map_entry
            below = list(value.values() if mapped else value if descriptor.is_repeated else [value])
            wrong += [w for each in below if hasattr(type(each), "pb") for w in _wrong_enums(each, where)]
        elif (words := _enum_of(kind, name)) is not None and isinstance(value, str) and value not in words:
            wrong.append(f"Invalid value for field '{where}': '{value}'. It is not one of {', '.join(sorted(words))}")
    return wrong


def answer(message: Message) -> str:
    """The body of a good answer."""
    wrong = _wrong_enums(message, type(message).__name__)
    assert not wrong, f"the answer of this server is outside the description: {wrong}"
    text: str = type(message).to_json(message, use_integers_for_enums=False, always_print_fields_with_no_presence=False)
    return text


def error(fault: Fault) -> str:
    """The body of an error."""
    domain = "usageLimits" if "imitExceeded" in fault.reason else "global"
    each = {"message": fault.message, "domain": domain, "reason": fault.reason}
    status = {"status": _STATUS[fault.status]} if fault.status in _STATUS else {}
    return json.dumps({"error": {"code": fault.status, "message": fault.message, "errors": [each], **status}})
