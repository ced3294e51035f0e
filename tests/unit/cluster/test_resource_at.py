"""Which resource a path names, for the counter of writes."""

from __future__ import annotations

import pytest

from purser.cluster.client import resource_at
from purser.cluster.paths import GPU_RENTALS, NAMESPACES, PODS, TRAINING_JOBS


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        (TRAINING_JOBS.all("ml"), "trainingjobs"),
        (TRAINING_JOBS.one("a", "ml"), "trainingjobs"),
        (TRAINING_JOBS.status("a", "ml"), "trainingjobs/status"),
        (GPU_RENTALS.status("a100-1"), "gpurentals/status"),
        (PODS.one("p", "ml"), "pods"),
        (NAMESPACES.one("ml"), "namespaces"),
    ],
)
def test_a_path_names_its_resource_and_subresource(path: str, resource: str) -> None:
    assert resource_at(path) == resource
