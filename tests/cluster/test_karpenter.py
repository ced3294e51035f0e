"""Nodes from a real Karpenter: rented, refused, abandoned, deleted by hand; with Karpenter or the operator away."""

from __future__ import annotations

from charterer.cluster.paths import GPU_POOLS, NODES
from tests.testbed.karpenter_bed import GPU_TYPE, KarpenterBed


async def test_a_job_runs_on_a_node_for_which_karpenter_is_asked_and_it_is_given_back(
    karpenter_bed: KarpenterBed,
) -> None:
    """The claim says whose it is; what the machine costs and is, Karpenter and the Node say."""
    bed = karpenter_bed
    bed.operator()
    await bed.claim_pool()
    await bed.budget()
    await bed.job("train", gpus=8)
    await bed.running("train")
    (claim,), (rental,) = bed.claims(), bed.rentals()
    labels = claim["metadata"]["labels"]
    assert (labels["charterer.dev/pool"], labels["charterer.dev/rental"]) == ("a100", rental["metadata"]["name"])
    assert claim["spec"]["expireAfter"] == "Never"
    assert rental["status"]["providerID"] == claim["status"]["providerID"]
    assert rental["status"]["launchedAt"] == claim["metadata"]["creationTimestamp"]
    pool = bed.mirror.one(GPU_POOLS, "a100")
    assert pool is not None
    quote, offering = pool["status"]["quote"], pool["status"]["offering"]
    assert (quote["hourly"], quote["source"]) == ("32.77", "Karpenter's estimate")
    assert (offering["gpuType"], offering["gpusPerNode"], offering["zone"]) == (GPU_TYPE, 8, "zone-a")
    await bed.finish("train")
    await bed.complete("train")
    await bed.until(lambda: not bed.claims() and not bed.mirror.all(NODES))
