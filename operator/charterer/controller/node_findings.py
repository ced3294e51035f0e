"""Findings on the Nodes that came before: whether their GPUs are offered, and whether training pods may come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from charterer.domain.ids import NodeName, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.nodes.demands import NodeTaint, passes
from charterer.domain.option import GPU
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import seconds_between
from charterer.gpu_types import is_shared
from charterer.lifecycle.view import NodeIndex, rivals_of
from charterer.providers.provider import PreflightFinding
from charterer.sentences import count, names

_PLUGIN_SECONDS: Final = 120.0
"""Seconds after a node is ready until which its device plugin may still be starting."""
_UNTOLERATED: Final = "untolerated taint"
"""Words of the scheduler (kube-scheduler, plugin TaintToleration) about a pod that does not tolerate one."""


def node_findings(snapshot: Snapshot) -> Mapping[PoolId, Sequence[PreflightFinding]]:
    """About device plugin and taints of pools with Nodes that are ready and stay, and about labels that came."""
    index = NodeIndex.of(snapshot.nodes, rivals_of(snapshot.rentals))
    came: dict[PoolId, dict[RentalId, Node]] = defaultdict(dict)
    settled: dict[PoolId, list[Node]] = defaultdict(list)
    for rental in snapshot.rentals.values():
        node = index.of_rental(rental) if rental.phase in (RentalPhase.STARTING, RentalPhase.READY) else None
        if node is not None and node.ready and not node.deleting and node.departure is None:
            came[rental.pool][rental.id] = node
            if _settled(rental, snapshot):
                settled[rental.pool].append(node)
    found: dict[PoolId, Sequence[PreflightFinding]] = {}
    for name, pool in snapshot.pools.items():
        findings = list(_labels(pool))
        if name in came:
            taints = _taints(pool, came[name], snapshot.jobs.values())
            findings = [*_plugin(pool, settled.get(name, ())), taints, *findings]
        if findings:
            found[name] = tuple(findings)
    return found


def _settled(rental: Rental, snapshot: Snapshot) -> bool:
    """Whether the device plugin has had time since its Node was ready, or should have been."""
    pool = snapshot.pools.get(rental.pool)
    if rental.ready is not None or rental.launched is None or pool is None:
        return rental.ready is not None and seconds_between(rental.ready, snapshot.now) >= _PLUGIN_SECONDS
    return seconds_between(rental.launched, snapshot.now) >= pool.start_seconds + _PLUGIN_SECONDS


def _plugin(pool: Pool, nodes: Sequence[Node]) -> Iterable[PreflightFinding]:
    wanted = 1 if pool.offering is None else pool.offering.gpus_per_node
    noun = "GPU" if pool.partition is None else pool.partition.noun
    without = sorted(node.name for node in nodes if not node.count(pool.resource))
    fewer = sorted((node.name, there) for node in nodes if 0 < (there := node.count(pool.resource)) < wanted)
    if without:
        yield PreflightFinding("device plugin", False, f"no {pool.resource} on {_nodes(without)}: {_advice(pool)}")
    for name, gpus in fewer:
        advice = "see the log of the device plugin there, a GPU may be broken"
        yield PreflightFinding("device plugin", False, f"Node {name} offers {gpus} of {wanted} {noun}s: {advice}")
    if nodes and not without and not fewer:
        yield PreflightFinding("device plugin", True, f"each Node offers {count(wanted, noun)}")


def _advice(pool: Pool) -> str:
    if pool.partition is None:
        maker = "NVIDIA device plugin" if pool.device == GPU else f"device plugin for {pool.device}"
        return f"install the {maker} there, or let it tolerate their taints"
    if is_shared(pool.partition.profile):
        return "spec.sharing says that jobs share their GPUs: set up the device plugin's sharing there as it says"
    return (
        f"spec.partition says that their GPUs are cut into {pool.partition.profile} slices: let the node pool cut them "
        "when nodes come, and see that the device plugin's MIG strategy is spec.partition.strategy"
    )


def _taints(pool: Pool, came: Mapping[RentalId, Node], jobs: Iterable[Job]) -> PreflightFinding:
    """The taints that a template has to tolerate; wrong where a pod waits because its template does not."""
    found: dict[NodeTaint, list[NodeName]] = {}
    tolerated = (pool.device, "NoSchedule")  # as every pod of a run does (``workloads.pod_template``)
    for node in came.values():
        for taint in node.taints:
            if (taint.key, taint.effect) != tolerated and not passes(taint):
                found.setdefault(taint, []).append(node.name)
    declared = pool.cloud.taints
    told = names(f"{taint.text} on {_nodes(sorted(nodes))}" for taint, nodes in found.items())
    if not found:
        return PreflightFinding("taints", True, "none that training pods do not tolerate")
    if waiting := sorted(f"{job.namespace}/{job.name}" for job in jobs if _kept_off(job, came)):
        advice = "remove the taint, or let the job's template tolerate it"
        jobs_named = f"{'TrainingJob' if len(waiting) == 1 else 'TrainingJobs'} {names(waiting)}"
        return PreflightFinding("taints", False, f"{told}, and pods of {jobs_named} do not tolerate it: {advice}")
    known = f" (spec.{pool.cloud.vendor}.taints)" if found.keys() <= set(declared) else ""
    return PreflightFinding("taints", True, f"{told}{known}: a job's template has to tolerate it")


def _labels(pool: Pool) -> Iterable[PreflightFinding]:
    """Whether the nodes that came had the labels that the pool declares: jobs choose it by them."""
    if pool.offering is None or not pool.offering.traits_seen or not pool.node_labels:
        return
    seen = dict(pool.offering.traits.labels)
    lacking = [f"{key}={value}" for key, value in pool.node_labels.items() if seen.get(key) != value]
    if not lacking:
        yield PreflightFinding("labels", True, "nodes have all that spec.labels declares")
        return
    advice = "let the node pool of the cloud give them, or correct spec.labels"
    yield PreflightFinding(
        "labels", False, f"spec.labels declares {names(lacking)}, and nodes that came did not have it: {advice}"
    )


def _kept_off(job: Job, came: Mapping[RentalId, Node]) -> bool:
    """Whether a pod of the job is to run on one of these Nodes, and the scheduler says that a taint keeps it off."""
    if job.allocation is None or job.current_run is None:
        return False
    here = any(place.rental in came for place in job.allocation.placements)
    return here and any(pod.node is None and _UNTOLERATED in pod.trouble for pod in job.current_run.pods)


def _nodes(nodes: Sequence[str]) -> str:
    return f"Node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} Nodes ({names(nodes)})"
