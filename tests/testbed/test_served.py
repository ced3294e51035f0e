"""A kind that is installed can be used at once: by kubectl, and by policies that change its objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed.controlplane import ControlPlane
from tests.testbed.served import install_definitions

GADGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.served.example"},
    "spec": {
        "group": "served.example",
        "scope": "Namespaced",
        "names": {"kind": "Gadget", "plural": "gadgets", "shortNames": ["gdg"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            }
        ],
    },
}
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: gadgets}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: ["", served.example], apiVersions: [v1], operations: [CREATE], resources: [configmaps, gadgets]}
  matchConditions: [{name: ours, expression: object.metadata.name == 'served'}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'seen': 'yes'}}]"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: gadgets}
spec: {policyName: gadgets}
"""


@pytest.fixture
def with_policy(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Its policy changes objects already."""
    control_plane.kubectl("apply", "--server-side", "-f", "-", input=POLICY)
    control_plane.wait_until(
        lambda: "labels" in _create(control_plane, "/api/v1", "v1", "ConfigMap")["metadata"], "the policy acts"
    )
    yield control_plane
    control_plane.kubectl("delete", "-f", "-", input=POLICY)
    control_plane.kubectl("delete", "crd", "gadgets.served.example", "--ignore-not-found")


@pytest.mark.programs
def test_a_kind_can_be_used_once_its_definition_is_installed(with_policy: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "gadgets.json").write_text(json.dumps(GADGETS))
    install_definitions(with_policy, tmp_path)
    assert "size" in with_policy.kubectl("explain", "gdg")
    made = _create(with_policy, "/apis/served.example/v1", "served.example/v1", "Gadget")
    assert made["metadata"]["labels"] == {"seen": "yes"}


def _create(plane: ControlPlane, base: str, api_version: str, kind: str) -> dict[str, dict[str, object]]:
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "served"}}
    return plane.call("POST", f"{base}/namespaces/default/{kind.lower()}s?dryRun=All", body)
