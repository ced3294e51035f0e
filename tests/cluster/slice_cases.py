"""Pools of slices and jobs that take slices, as the CRDs accept and refuse them."""

from __future__ import annotations

from tests.cluster.crd_cases import Case, make

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
)
SLICE_REFUSED = {
    "a profile with media extensions": make("GPUPool", partition={"profile": "1g.5gb+me"}),
    "an unknown strategy": make("GPUPool", partition={"profile": "1g.5gb", "strategy": "mixed"}),
    "slices that are no profiles": make("TrainingJob", gpus={"min": 1, "max": 1, "slices": ["small"]}),
}
