"""Preflights of pools, which find what would fail: when a pool is new or changed, and every hour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from charterer.controller.node_findings import node_findings
from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.domain.snapshot import Snapshot
from charterer.providers.accounts import Accounts
from charterer.providers.errors import ProviderError
from charterer.providers.provider import PreflightFinding


@dataclass(frozen=True, slots=True)
class PreflightPace:
    """Seconds between two looks for a pool that was due, and until a pool is looked at again that was well, or not."""

    look_seconds: float = 5.0
    well_seconds: float = 3600.0
    failed_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class _Checked:
    """Which pool was looked at, by its uid and generation, and when the next look is due."""

    pool: tuple[str, int]
    due: float


class Preflights:
    """Keeps ``latest`` current until ``run`` is cancelled; ``changed`` is called when a pool's findings do.

    For the running event loop's thread only, whose clock it uses. ``pools`` gives the pools there are, ``snapshot`` the
    last one, in which their Nodes are. What Nodes showed is kept when they are gone: the next ones are likely alike.
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
        """Look at whatever is due, forever. Pools are looked at together; a slow cloud delays the next look only."""
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
    """The findings of the pool's cloud; a cloud that cannot be asked is a finding too."""
    try:
        return tuple(await accounts.account_of(pool).preflight(pool))
    except ProviderError as error:
        return (PreflightFinding("cloud", False, error.said),)
