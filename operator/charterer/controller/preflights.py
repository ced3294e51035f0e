"""Preflights of pools find failures before nodes are rented. Each pool has one when it is new or changed, and every
hour.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from charterer.domain.ids import NodeName, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.node_demands import NodeTaint, passes
from charterer.domain.option import GPU
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import seconds_between
from charterer.gpu_types import is_shared
from charterer.lifecycle.view import NodeIndex, rivals_of
from charterer.providers.accounts import Accounts
from charterer.providers.errors import ProviderError
from charterer.providers.provider import PreflightFinding
from charterer.sentences import count, names

# Findings on the pool's own Nodes: whether their GPUs are offered, and whether training pods can be scheduled there.


_PLUGIN_SECONDS: Final = 120.0
"""Seconds after a node is ready in which its device plugin may still be starting."""
_UNTOLERATED: Final = "untolerated taint"
"""The scheduler's text (kube-scheduler, plugin TaintToleration) about a pod that does not tolerate a taint."""


def node_findings(snapshot: Snapshot) -> Mapping[PoolId, Sequence[PreflightFinding]]:
    """Findings about each pool. The Nodes that are ready and not about to leave show the device plugin and the taints.
    Earlier Nodes show the labels.
    """
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
    """Whether the device plugin has had time to start. The time counts from when the Node became ready or should have
    become ready.
    """
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
    """The taints that a job's template has to tolerate. The finding is bad if a pod waits because its template does not
    tolerate a taint.
    """
    found: dict[NodeTaint, list[NodeName]] = {}
    tolerated = (pool.device, "NoSchedule")  # every pod of a run tolerates it (``workloads.workload``)
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
    """Whether the pool's Nodes had the labels that the pool declares. Jobs choose the pool by these labels."""
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
    """Whether the job is placed on one of these Nodes, and the scheduler says that a taint repels one of its pods."""
    if job.allocation is None or job.current_run is None:
        return False
    here = any(place.rental in came for place in job.allocation.placements)
    return here and any(pod.node is None and _UNTOLERATED in pod.trouble for pod in job.current_run.pods)


def _nodes(nodes: Sequence[str]) -> str:
    return f"Node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} Nodes ({names(nodes)})"


@dataclass(frozen=True, slots=True)
class PreflightPace:
    """Seconds between two checks for due pools, and from a good or a failed preflight to the pool's next one."""

    look_seconds: float = 5.0
    well_seconds: float = 3600.0
    failed_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class _Checked:
    """The uid and generation of a checked pool, and when its next preflight is due, in seconds of the clock."""

    pool: tuple[str, int]
    due: float


class Preflights:
    """Keeps ``latest`` current until ``run`` is cancelled. ``changed`` is called when a pool's findings change.

    Use this class only in the running event loop's thread, because it reads that loop's clock. ``pools`` returns the
    existing pools, and ``snapshot`` the last snapshot, which has their Nodes. The findings on Nodes stay after the
    Nodes have ended, because later Nodes are likely to be equal.
    """

    def __init__(
        self,
        accounts: Accounts,
        pools: Callable[[], Mapping[PoolId, Pool]],
        changed: Callable[[], None],
        snapshot: Callable[[], Snapshot | None],
        pace: PreflightPace | None = None,
    ) -> None:
        self._accounts = accounts
        self._pools = pools
        self._changed = changed
        self._pace = PreflightPace() if pace is None else pace
        self._clock = asyncio.get_running_loop().time
        self._snapshot = snapshot
        self._checked: dict[PoolId, _Checked] = {}
        self._of_clouds: dict[PoolId, Sequence[PreflightFinding]] = {}
        self._of_nodes: dict[PoolId, Sequence[PreflightFinding]] = {}
        self.latest: dict[PoolId, Sequence[PreflightFinding]] = {}

    async def run(self) -> None:
        """Check the pools that are due, forever. All due pools are checked together, so a slow cloud delays the next
        check.
        """
        while True:
            pools = {name: pool for name, pool in self._pools().items() if not pool.gone and not pool.deleting}
            for name in self.latest.keys() - pools.keys():
                for by_pool in (self.latest, self._of_clouds, self._of_nodes):
                    by_pool.pop(name, None)
            await asyncio.gather(*(self._check(pool) for pool in pools.values() if self._is_due(pool)))
            self._look_at_nodes(pools)
            await asyncio.sleep(self._pace.look_seconds)

    def _is_due(self, pool: Pool) -> bool:
        checked = self._checked.get(pool.id)
        return checked is None or checked.pool != (pool.uid, pool.generation) or self._clock() >= checked.due

    async def _check(self, pool: Pool) -> None:
        findings = await findings_of(self._accounts, pool)
        well = all(finding.well for finding in findings)
        due = self._clock() + (self._pace.well_seconds if well else self._pace.failed_seconds)
        self._checked[pool.id] = _Checked((pool.uid, pool.generation), due)
        self._of_clouds[pool.id] = findings
        self._tell(pool.id)

    def _look_at_nodes(self, pools: Mapping[PoolId, Pool]) -> None:
        snapshot = self._snapshot()
        for name, found in {} if snapshot is None else node_findings(snapshot).items():
            if name in pools:
                self._of_nodes[name] = found
                self._tell(name)

    def _tell(self, pool: PoolId) -> None:
        findings = (*self._of_clouds.get(pool, ()), *self._of_nodes.get(pool, ()))
        if self.latest.get(pool) != findings:
            self.latest[pool] = findings
            self._changed()


async def findings_of(accounts: Accounts, pool: Pool) -> Sequence[PreflightFinding]:
    """The findings of the pool's cloud. If the cloud cannot be reached, that is a finding too."""
    try:
        return tuple(await accounts.account_of(pool).preflight(pool))
    except ProviderError as error:
        return (PreflightFinding("cloud", False, error.said),)
