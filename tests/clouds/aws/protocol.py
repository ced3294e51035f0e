"""Requests and answers of AWS as botocore's own service models describe them: protocols ec2, query and json.

A request is parsed by the model's input shape and then checked: unknown fields, missing or mistyped ones, enums,
patterns and bounds (which boto3 never checks). What was parsed is serialised again and compared with what came, so that
a wrong wire name cannot hide. An answer is written from the output shape and must survive botocore's parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import botocore.session
from botocore import parsers, serialize, validate

Params = dict[str, Any]

SERVICES = {name: name for name in ("ec2", "autoscaling", "sqs", "pricing", "sts")}
SERVICES |= {"servicequotas": "service-quotas"}
"""The service's name in a request's signature, and in botocore."""


_OPEN = frozenset({"InstanceType"})
"""Enums that grow faster than the SDK: the service itself says what is wrong."""


class Fault(Exception):
    """An error that AWS answers, by its code, message and HTTP status."""

    def __init__(self, code: str, message: str = "", status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status = code, message or code, status


THROTTLED = Fault("RequestLimitExceeded", "Request limit exceeded.", 503)


@cache
def model_of(service: str) -> Any:
    """Botocore's model of a service, by the name in the request's signature."""
    return botocore.session.get_session().get_service_model(SERVICES[service])


def _wire_name(shape: Any, key: str, protocol: str) -> str:
    if protocol != "ec2":
        return str(shape.serialization.get("name", key))
    if name := shape.serialization.get("queryName"):
        return str(name)
    name = str(shape.serialization.get("name", key))
    return name[0].upper() + name[1:]


def _scalar(raw: str, kind: str) -> Any:
    match kind:
        case "integer" | "long":
            return int(raw)
        case "float" | "double":
            return float(raw)
        case "boolean":
            return raw == "true"
        case _:
            return raw


def _parse(form: Mapping[str, str], shape: Any, prefix: str, protocol: str) -> Any:
    """The value of ``shape`` under ``prefix`` of a flat form; None when absent."""
    below = [key for key in form if not prefix or key == prefix or key.startswith(prefix + ".")]
    if not below:
        return None
    if shape.type_name == "structure":
        found = {}
        for key, member in shape.members.items():
            name = _wire_name(member, key, protocol)
            value = _parse(form, member, f"{prefix}.{name}" if prefix else name, protocol)
            if value is not None:
                found[key] = value
        return found
    if shape.type_name == "list":
        flat = protocol == "ec2" or shape.serialization.get("flattened")
        base = prefix if flat else f"{prefix}.{shape.member.serialization.get('name', 'member')}"
        heads = {key[len(base) + 1 :].split(".")[0] for key in below}
        return [
            _parse(form, shape.member, f"{base}.{n}", protocol) for n in sorted(int(h) for h in heads if h.isdigit())
        ]
    return _scalar(form[prefix], shape.type_name)


def _size(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    return value if isinstance(value, int | float) else len(value) if isinstance(value, str | list) else None


def _beyond(value: Any, shape: Any, path: str) -> list[str]:
    """What boto3 does not check: enums, patterns, bounds."""
    if shape.type_name == "structure":
        return [wrong for key, v in value.items() for wrong in _beyond(v, shape.members[key], f"{path}.{key}")]
    wrong = []
    most, size = shape.metadata.get("max"), _size(value)
    if most is not None and size is not None and size > most:
        wrong.append(f"{path}: {size} > {most}")
    if shape.type_name == "list":
        return wrong + [w for i, v in enumerate(value) for w in _beyond(v, shape.member, f"{path}[{i}]")]
    if shape.name not in _OPEN and getattr(shape, "enum", None) and value not in shape.enum:
        wrong.append(f"{path}: {value!r} is not in the model's enum {shape.name}")
    pattern = shape.metadata.get("pattern")
    if pattern and isinstance(value, str) and "\\u" not in pattern and not re.fullmatch(pattern, value):
        wrong.append(f"{path}: {value!r} does not match {pattern}")
    return wrong


def _flat(params: Params) -> dict[str, str]:
    return {key: str(value) for key, value in params.items()}


def request(service: str, headers: Mapping[str, str], body: bytes) -> tuple[Any, Params]:
    """The operation and its parameters; Fault when the request does not follow the model."""
    model = model_of(service)
    protocol = model.metadata["protocol"]
    if protocol == "json":
        operation = model.operation_model(headers["X-Amz-Target"].split(".")[1])
        params = json.loads(body or b"{}")
        same = json.loads(_serialised(params, operation, protocol) or b"{}") == params
    else:
        form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        operation = model.operation_model(form["Action"])
        fields = {key: value for key, value in form.items() if key not in ("Action", "Version")}
        params = _parse(fields, operation.input_shape, "", protocol) or {} if operation.input_shape else {}
        same = _flat(_serialised(params, operation, protocol)) == form
    report = validate.ParamValidator().validate(params, operation.input_shape) if operation.input_shape else None
    wrong = [report.generate_report()] if report is not None and report.has_errors() else []
    if operation.input_shape is not None:
        wrong += _beyond(params, operation.input_shape, operation.name)
    if not same:
        wrong.append("the request has fields that are not in the model")
    if wrong:
        raise Fault("ValidationError", "; ".join(wrong))
    return operation, params


def _serialised(params: Params, operation: Any, protocol: str) -> Any:
    return serialize.create_serializer(protocol).serialize_to_request(params, operation)["body"]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)


def _xml(value: Any, shape: Any, name: str, protocol: str) -> str:
    if value is None:
        return ""
    if shape.type_name == "structure":
        unknown = set(value) - set(shape.members)
        assert not unknown, f"the answer of this server has fields outside the model: {unknown}"
        members = shape.members.items()
        inner = "".join(_xml(value.get(k), m, m.serialization.get("name", k), protocol) for k, m in members)
    elif shape.type_name == "list":
        item = shape.member.serialization.get("name", "item" if protocol == "ec2" else "member")
        inner = "".join(_xml(each, shape.member, item, protocol) for each in value)
    else:
        inner = escape(_text(value))
    return f"<{name}>{inner}</{name}>"


def answer(operation: Any, result: Params) -> str:
    """The body of a good answer, which botocore reads back as the same."""
    protocol = operation.service_model.metadata["protocol"]
    name, shape = operation.name, operation.output_shape
    inner = "" if shape is None or protocol == "json" else _xml(result, shape, "X", protocol)[3:-4]
    if protocol == "json":
        body = json.dumps(result)
    elif protocol == "ec2":
        body = f"<{name}Response><requestId>r</requestId>{inner}</{name}Response>"
    else:
        meta = "<ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>"
        body = f"<{name}Response><{name}Result>{inner}</{name}Result>{meta}</{name}Response>"
    reply = {"body": body.encode(), "headers": {}, "status_code": 200}
    parsed = parsers.create_parser(protocol).parse(reply, shape)
    lost = {key for key in result if result[key] not in (None, [], "") and result[key] != parsed.get(key)}
    assert not lost, f"botocore does not read back {lost} of the answer to {name}: {body}"
    return body


def error(service: str, fault: Fault) -> str:
    """The body of an error."""
    code, message = fault.code, escape(fault.message)
    match model_of(service).metadata["protocol"]:
        case "json":
            return json.dumps({"__type": f"com.amazonaws#{code}", "message": fault.message})
        case "ec2":
            inner = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
            return f"<Response><Errors>{inner}</Errors><RequestID>r</RequestID></Response>"
        case _:
            inner = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
            return f"<ErrorResponse>{inner}<RequestId>r</RequestId></ErrorResponse>"
