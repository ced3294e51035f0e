"""People with some rights in a cluster, and what they create there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.testbed.controlplane import ControlPlane


def person(plane: ControlPlane, name: str, *roles: str) -> Path:
    """A kubeconfig of a ServiceAccount that has these ClusterRoles in the namespace of the same name."""
    for words in (("create", "namespace", name), ("create", "serviceaccount", name, "-n", name)):
        plane.kubectl(*words)
    for role in roles:
        binding = (
            "create",
            "rolebinding",
            f"{name}-{role}",
            f"--clusterrole={role}",
            f"--serviceaccount={name}:{name}",
        )
        plane.kubectl(*binding, "-n", name)
    return plane.service_account_kubeconfig(name, name)


def pod(name: str, namespace: str, metadata: Mapping[str, Any] | None = None, **spec: Any) -> str:
    made = {"name": name, "namespace": namespace, **(metadata or {})}
    containers = {"containers": [{"name": "t", "image": "train:1"}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": containers | spec})


def batch_job(name: str, namespace: str, metadata: Mapping[str, Any], **spec: Any) -> str:
    """A Job with these metadata and these fields of its pods."""
    template = json.loads(pod(name, namespace, metadata, **spec))
    whole = {"restartPolicy": "Never", **template["spec"]}
    body = {"template": {"metadata": dict(metadata), "spec": whole}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": template["metadata"], "spec": body}
    return json.dumps(job)


def training_job(namespace: str, image: str = "train:1", words: str = "") -> str:
    container = {"name": "t", "image": image, **({"args": [words]} if words else {})}
    spec = {"gpus": {"min": 1, "max": 8}, "template": {"spec": {"containers": [container]}}}
    metadata = {"name": "train", "namespace": namespace}
    job = {"apiVersion": "charterer.dev/v1alpha1", "kind": "TrainingJob", "metadata": metadata, "spec": spec}
    return json.dumps(job)
