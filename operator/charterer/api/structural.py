"""Structural schemas of models, as the API server wants them in a CustomResourceDefinition."""

from __future__ import annotations

from charterer.api.models.base import ApiModel, Json


def structural(model: type[ApiModel], *, defaults: bool) -> Json:
    """The structural schema of a model: references inlined, nulls and titles gone; ``defaults`` False drops those too.

    The API server fills defaults in; in a status they would show values that nobody wrote.
    """
    schema: Json = model.model_json_schema(by_alias=True, mode="validation")
    return _structural(schema, schema.get("$defs", {}), defaults)


def _structural(node: Json, definitions: Json, defaults: bool) -> Json:
    node = _without_null(_inlined(node, definitions))
    node = _inlined(node, definitions)
    result: Json = {}
    for key, value in node.items():
        match key:
            case "title" | "$defs":
                continue
            case "default" if value is None or not defaults or value in ([], {}):
                continue
            case "additionalProperties" if isinstance(value, bool):
                continue
            case "const":
                result["enum"] = [value]
            case "description":
                result[key] = " ".join(value.split())
            case "exclusiveMinimum" if not isinstance(value, bool):
                result |= {"minimum": value, "exclusiveMinimum": True}
            case "properties":
                result[key] = {name: _structural(child, definitions, defaults) for name, child in value.items()}
            case "items" | "additionalProperties":
                result[key] = _structural(value, definitions, defaults)
            case _:
                result[key] = value
    return result


def _inlined(node: Json, definitions: Json) -> Json:
    """The target of a ``$ref``; what stands beside the reference (description, default) takes precedence over it."""
    if "$ref" not in node:
        return node
    target: Json = definitions[node["$ref"].rsplit("/", 1)[1]]
    return target | {key: value for key, value in node.items() if key != "$ref"}


def _without_null(node: Json) -> Json:
    """Kubernetes says "absent", not null: ``X | None`` is X, with the description of the field."""
    if "anyOf" not in node:
        return node
    kept: Json
    (kept,) = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
    return kept | {key: value for key, value in node.items() if key != "anyOf"}


def partial_schema(schema: Json) -> Json:
    """The structural schema of an object of which any fields may be absent, such as one that is merged into another.

    Rules that compare several fields, or a field with its former value, do not hold for a part. Items of lists stay
    whole.
    """
    if "properties" not in schema:
        rules = [each for each in schema.get("x-kubernetes-validations", ()) if "oldSelf" not in each["rule"]]
        kept = {key: value for key, value in schema.items() if key not in ("x-kubernetes-validations", "default")}
        return {**kept, "x-kubernetes-validations": rules} if rules else kept
    properties = {name: partial_schema(child) for name, child in schema["properties"].items()}
    left_out = ("properties", "required", "x-kubernetes-validations", "default")
    return {**{key: value for key, value in schema.items() if key not in left_out}, "properties": properties}
