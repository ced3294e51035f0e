"""When a kind can be used everywhere on the testbed's API server.

The condition Established says only that the API server stores objects of the kind. Two of its parts learn of the kind
later and by themselves: discovery, which kubectl reads, and the types of MutatingAdmissionPolicies. Until then kubectl
answers that there is no such resource, and a policy that would change an object refuses it with status 503.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.testbed.controlplane import ControlPlane, ControlPlaneError

_PROBE = "testbed-probe"
_TYPE_UNKNOWN = "There can be a delay"
"""The API server answers so if a policy would change an object of a kind that its policies do not know yet."""
_POLICY = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": _PROBE},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "objectSelector": {"matchLabels": {_PROBE: "true"}},
                "resourceRules": [
                    {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}
                ],
            },
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {
                        "expression": f"[JSONPatch{{op: 'add', path: '/metadata/labels/{_PROBE}', value: 'changed'}}]"
                    },
                }
            ],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": _PROBE},
        "spec": {"policyName": _PROBE},
    },
]


def install_definitions(plane: ControlPlane, *paths: Path) -> None:
    """Apply CustomResourceDefinitions, by file or folder, and return once their kinds can be used."""
    files = [argument for path in paths for argument in ("-f", str(path))]
    applied = plane.kubectl("apply", "--server-side", "-o", "name", *files)
    wait_until_served(plane, [line.partition("/")[2] for line in applied.splitlines()])


def wait_until_served(plane: ControlPlane, definitions: Sequence[str]) -> None:
    """Return once these CustomResourceDefinitions are established, kubectl finds them and policies may change them."""
    specs = [_established(plane, name) for name in definitions]
    plane.wait_until(partial(_found, plane, definitions), f"kubectl finds {', '.join(definitions)}")
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": _POLICY})
    plane.kubectl("apply", "--server-side", "-f", "-", input=items)
    try:
        plane.wait_until(partial(_acts, plane), "policies act")
        for spec in specs:
            plane.wait_until(partial(_changed, plane, spec), f"policies know {spec['names']['kind']}")
    finally:
        plane.kubectl("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", _PROBE)


def _established(plane: ControlPlane, name: str) -> dict[str, Any]:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    found: dict[str, Any] = {}

    def established() -> bool:
        found.update(plane.call("GET", path))
        # A new definition has no status yet, which `kubectl wait` takes for a failure.
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    plane.wait_until(established, f"{name} is established")
    spec: dict[str, Any] = found["spec"]
    return spec


def _found(plane: ControlPlane, names: Sequence[str]) -> bool:
    """Return whether kubectl finds these resources. The command also renews what kubectl remembers for six hours."""
    return set(names) <= set(plane.kubectl("api-resources", "-o", "name").split())


def _acts(plane: ControlPlane) -> bool:
    """Return whether the policy changes objects of a kind that every API server knows."""
    created = _create(plane, "/api/v1", "v1", "ConfigMap", "configmaps")
    return bool(created["metadata"]["labels"][_PROBE] == "changed")


def _changed(plane: ControlPlane, spec: dict[str, Any]) -> bool:
    """Return whether a policy may change objects of this kind. What is refused for its content was changed before."""
    group, version = spec["group"], next(each["name"] for each in spec["versions"] if each["served"])
    base, names = f"/apis/{group}/{version}", spec["names"]
    try:
        _create(plane, base, f"{group}/{version}", names["kind"], names["plural"], spec["scope"] == "Namespaced")
    except ControlPlaneError as error:
        return _TYPE_UNKNOWN not in str(error)
    return True


def _create(
    plane: ControlPlane, base: str, api_version: str, kind: str, plural: str, namespaced: bool = True
) -> dict[str, Any]:
    """Ask for an empty object by a dry run, which stores nothing."""
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": _PROBE, "labels": {_PROBE: "true"}}}
    folder = f"{base}/namespaces/default/{plural}" if namespaced else f"{base}/{plural}"
    return plane.call("POST", f"{folder}?dryRun=All", body)
