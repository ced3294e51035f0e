"""Paths of resources."""

from __future__ import annotations

import pytest

from charterer.cluster.paths import GPU_BUDGETS, NAMESPACES, NODES, PODS, TRAINING_JOBS, resource_in


def test_paths_are_those_of_the_api() -> None:
    assert TRAINING_JOBS.all() == "/apis/charterer.dev/v1alpha1/trainingjobs"
    assert TRAINING_JOBS.status("sft", "ml") == "/apis/charterer.dev/v1alpha1/namespaces/ml/trainingjobs/sft/status"
    assert PODS.one("sft-r1-0", "ml") == "/api/v1/namespaces/ml/pods/sft-r1-0"
    assert NODES.one("gpu-1") == "/api/v1/nodes/gpu-1"
    assert str(GPU_BUDGETS) == "gpubudgets.charterer.dev"


def test_a_name_cannot_lead_elsewhere() -> None:
    assert PODS.one("../secrets/x", "ml") == "/api/v1/namespaces/ml/pods/..%2Fsecrets%2Fx"


def test_a_namespace_is_neither_forgotten_nor_given_where_there_is_none() -> None:
    with pytest.raises(ValueError, match="needs its namespace"):
        PODS.one("x")
    with pytest.raises(ValueError, match="not namespaced"):
        NODES.one("x", "ml")


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        (TRAINING_JOBS.all("ml"), "trainingjobs"),
        (TRAINING_JOBS.one("sft", "ml"), "trainingjobs"),
        (TRAINING_JOBS.status("sft", "ml"), "trainingjobs/status"),
        (PODS.status("sft-r1-0", "ml"), "pods/status"),
        (NODES.one("gpu-1"), "nodes"),
        (GPU_BUDGETS.status("team"), "gpubudgets/status"),
        (NAMESPACES.one("ml"), "namespaces"),
    ],
)
def test_a_path_tells_its_resource(path: str, resource: str) -> None:
    assert resource_in(path) == resource
