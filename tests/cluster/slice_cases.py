"""Pools of slices or shared GPUs and jobs that take them, as the CRDs accept and refuse them."""

from __future__ import annotations

from tests.cluster.crd_cases import Case, Json, make


def with_resource(kind: str, resource: str) -> Json:
    """The smallest object of a kind with this spec.resource, which pools of a set have in their template."""
    if kind == "GPUPoolSet":
        return make(kind, template={"spec": {"maxNodes": 6, "resource": resource}})
    return make(kind, resource=resource)


SLICE_CASES = (
    Case(
        "GPUPool",
        "how GPUs are cut cannot change: create another GPUPool for the other slices",
        make("GPUPool", "rule-cut", maxNodes=7, partition={"profile": "1g.5gb"}),
        make("GPUPool", "rule-cut", maxNodes=7),
        before=make("GPUPool", "rule-cut", partition={"profile": "1g.5gb"}),
    ),
    Case(
        "GPUPool",
        "how GPUs are cut cannot change: create another GPUPool for the other slices",
        make("GPUPool", "rule-cut", maxNodes=7, partition={"profile": "1g.5gb"}),
        make("GPUPool", "rule-cut", partition={"profile": "1g.10gb"}),
        before=make("GPUPool", "rule-cut", partition={"profile": "1g.5gb"}),
    ),
    Case(
        "TrainingJob",
        "gpus.slices needs gpus.min 1: slices cannot train together, so a job gets one of them or whole GPUs",
        make("TrainingJob", gpus={"min": 1, "max": 8, "slices": ["1g.5gb", "2g.10gb"]}),
        make("TrainingJob", gpus={"min": 2, "max": 8, "slices": ["1g.5gb"]}),
    ),
    Case(
        "GPUPool",
        "how GPUs are shared cannot change: create another GPUPool",
        make("GPUPool", "rule-shared", maxNodes=7, sharing={"jobsPerGpu": 2}),
        make("GPUPool", "rule-shared", sharing={"jobsPerGpu": 3}),
        before=make("GPUPool", "rule-shared", sharing={"jobsPerGpu": 2}),
    ),
    Case(
        "GPUPool",
        "partition and sharing exclude each other: slices are not shared",
        make("GPUPool", sharing={"jobsPerGpu": 2, "mechanism": "MPS", "resource": "nvidia.com/gpu"}),
        make("GPUPool", sharing={"jobsPerGpu": 2}, partition={"profile": "1g.5gb"}),
    ),
    Case(
        "GPUPool",
        "partition and sharing are for nvidia.com/gpu: leave them out, or resource",
        make("GPUPool", resource="amd.com/gpu"),
        make("GPUPool", resource="amd.com/gpu", sharing={"jobsPerGpu": 2}),
    ),
    Case(
        "GPUPool",
        "the resource of a pool's GPUs cannot change: create another GPUPool for the other GPUs",
        make("GPUPool", "rule-resource", maxNodes=7, resource="amd.com/gpu"),
        make("GPUPool", "rule-resource", maxNodes=7),
        before=make("GPUPool", "rule-resource", resource="amd.com/gpu"),
    ),
    *[
        Case(
            kind,
            f"resource: {told}",
            with_resource(kind, "npu.example.com/Model-7"),
            with_resource(kind, wrong),
        )
        for kind in ("GPUPool", "GPUPoolSet", "TrainingJob")
        for told, wrong in (
            ("it must be the name of an extended resource, such as example.com/npu, as nodes show it", "cpu"),
            (
                "under nvidia.com/, amd.com/, aws.amazon.com/, gpu.intel.com/ only nvidia.com/gpu, amd.com/gpu, "
                "gpu.intel.com/i915, gpu.intel.com/xe, aws.amazon.com/neuron are whole GPUs: name one of these",
                "nvidia.com/mig-1g.10gb",
            ),
        )
    ],
    Case(
        "TrainingJob",
        "gpus.shared needs gpus.min 1: a job that shares a GPU has that one only",
        make("TrainingJob", gpus={"min": 1, "max": 8, "shared": {"memory": "6Gi"}}),
        make("TrainingJob", gpus={"min": 2, "max": 8, "shared": {"memory": "6Gi"}}),
    ),
)
SLICE_REFUSED = {
    "one job a GPU": make("GPUPool", sharing={"jobsPerGpu": 1}),
    "an unknown mechanism": make("GPUPool", sharing={"jobsPerGpu": 2, "mechanism": "mps"}),
    "memory without a unit": make("TrainingJob", gpus={"min": 1, "max": 1, "shared": {"memory": "6"}}),
    "no memory": make("TrainingJob", gpus={"min": 1, "max": 1, "shared": {"memory": "0Gi"}}),
    "a profile with media extensions": make("GPUPool", partition={"profile": "1g.5gb+me"}),
    "an unknown strategy": make("GPUPool", partition={"profile": "1g.5gb", "strategy": "mixed"}),
    "slices that are no profiles": make("TrainingJob", gpus={"min": 1, "max": 1, "slices": ["small"]}),
}
