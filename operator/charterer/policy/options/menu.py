"""A job's menu: every option that its pools, its widths and its class's curves allow.

Below one node a job is one pod of 1, 2, 4, … GPUs; from one node on it is whole nodes, one pod each. The class's
``preferred`` width is on the menu too where it can be placed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from charterer.domain.ids import ClassId, PoolId
from charterer.domain.job import SpotPolicy, Widths
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.profile import Profile
from charterer.incremental import Remember, directly
from charterer.policy.options.optimism import exploration_candidates, optimistic_speed
from charterer.policy.options.speedup import speed
from charterer.policy.options.width_backoff import QuarantinedWidths, untested
from charterer.policy.solve.hull import Hull, hull, path_hull
from charterer.policy.solve.phase_dp import InPlace, OptionTable

DEFAULT_RESTART_SECONDS = 30.0
"""From stopping a run to training on in the next, for jobs whose profile does not say."""


@dataclass(frozen=True, slots=True)
class Menu:
    """What may be chosen: ``stages[p]`` are the options with their speeds in phase p, which ends at ``until[p]``.

    ``narrower``: only when the budget's limits force it (no curve is known). ``known``: whether speeds are measured; if
    not, every option has the speed of its share of ``preferred``. ``rigid``: whether the job has one width only.
    ``ways``: the same options as numbers.
    """

    stages: tuple[tuple[Option, ...], ...]
    until: tuple[float, ...]
    narrower: tuple[Option, ...]
    known: bool
    rigid: bool
    ways: OptionTable

    @property
    def options(self) -> tuple[Option, ...]:
        """The options as a job meets them first."""
        return self.stages[0]

    def phase(self, done: float) -> int:
        """Which phase a job is in, of whose work the part ``done`` is done."""
        return min(bisect_right(self.until, done), len(self.until) - 1)

    def hull(self, work: float) -> Hull:
        """The hull of its ways to run a new job of ``work`` seconds of the reference option."""
        if len(self.stages) == 1:
            return hull(self.options, work)
        return path_hull(self.stages, self.ways, self.until, work)


def offered_widths(gpus_per_node: int, widths: Widths, max_nodes: int) -> list[int]:
    """Numbers of GPUs, ascending: powers of two below a node, whole nodes up to ``max_nodes``, and ``preferred``."""
    below = [1 << power for power in range(gpus_per_node.bit_length()) if 1 << power < gpus_per_node]
    nodes = range(1, min(max_nodes, widths.max // gpus_per_node) + 1)
    offered = {*below, *(count * gpus_per_node for count in nodes)}
    if widths.preferred < gpus_per_node:
        offered.add(widths.preferred)
    return sorted(gpus for gpus in offered if widths.min <= gpus <= widths.max)


def _option(offer: PoolOffer, gpus: int, price: Price, speed: float, restart_seconds: float) -> Option:
    share = price.share(gpus, offer.gpus_per_node)
    entry = offer.start_seconds + restart_seconds
    return Option(
        pool=offer.pool,
        gpus=gpus,
        speed=speed,
        price=share,
        entry_seconds=entry,
        entry_cost=share.cost(round(entry)),
    )


class PoolOffer(NamedTuple):
    """What of a pool decides menus. ``price``: of a node; None where it has no quote. ``gpus_per_node``: 0 where it has
    no offering.
    """

    pool: PoolId
    gpu_type: str
    gpus_per_node: int
    price: Price | None
    max_nodes: int
    capacity_type: CapacityType
    start_seconds: float
    deleting: bool


def pool_offer(pool: Pool) -> PoolOffer:
    """What a pool offers."""
    return PoolOffer(
        pool=pool.id,
        gpu_type="" if pool.offering is None else pool.offering.gpu_type,
        gpus_per_node=0 if pool.offering is None else pool.offering.gpus_per_node,
        price=None if pool.quote is None else pool.quote.price,
        max_nodes=pool.max_nodes,
        capacity_type=pool.capacity_type,
        start_seconds=pool.start_seconds,
        deleting=pool.deleting,
    )


def build_menu(
    profile: Profile | None,
    widths: Widths,
    gpu_types: Sequence[str],
    spot: SpotPolicy,
    pools: Iterable[PoolOffer],
    explore: bool = False,
    elastic: bool = False,
    avoided: QuarantinedWidths = frozenset(),
) -> Menu:
    """The options over ``pools`` that offer an allowed GPU type at a known price (``gpu_types`` empty: any type).

    Where the class has a curve for none of these types, the menu is ``preferred`` alone (or the widest below it that
    is offered): never wider before something is known of it. GPU types without a curve are not mixed with types that
    have one. An option needs a speed in every phase of the class. ``explore``: widths to try are as fast as hoped.
    ``elastic``: the jobs are resized in place where they can be.
    ``avoided`` widths are left out, unless nothing else is left.
    """
    restart = profile.restart_seconds if profile else DEFAULT_RESTART_SECONDS
    measured: list[list[Option]] = []
    preferred: list[Option] = []
    narrower: list[Option] = []
    nodes: dict[PoolId, int] = {}
    to_try = exploration_candidates(profile) if profile is not None and explore else {}
    hoped = optimistic_speed(profile, to_try) if profile is not None else None
    speeds_of: dict[tuple[str, int], Sequence[float]] = {}
    for pool, price in _open(pools, gpu_types, spot):
        gpu_type, node = pool.gpu_type, pool.gpus_per_node
        nodes[pool.pool] = node
        for gpus in offered_widths(node, widths, pool.max_nodes):
            if (gpu_type, gpus) in avoided:
                continue
            speeds = speeds_of.get((gpu_type, gpus))
            if speeds is None:
                speeds = speeds_of[gpu_type, gpus] = _speeds(hoped, gpu_type, gpus)
            if speeds:
                options = [_option(pool, gpus, price, speed, restart) for speed in speeds]
                measured.append(
                    [replace(one, trial=True) for one in options] if gpus in to_try.get(gpu_type, ()) else options
                )
            elif gpus <= widths.preferred:
                into = preferred if gpus == widths.preferred else narrower
                into.append(_option(pool, gpus, price, gpus / widths.preferred, restart))
    if avoided and not measured:
        return build_menu(profile, widths, gpu_types, spot, pools, explore, elastic)
    rigid = widths.min == widths.max
    if profile is not None and measured:
        stages = tuple(zip(*measured, strict=True))
        until = tuple(phase.until for phase in profile.phases)
        in_place = InPlace(profile.resize_seconds, nodes) if elastic else None
        return Menu(stages, until, (), True, rigid, OptionTable.of(stages, restart, in_place))
    if not preferred and narrower:  # preferred is no whole number of nodes: then the widest below it
        widest = max(option.gpus for option in narrower)
        preferred = [option for option in narrower if option.gpus == widest]
        narrower = [option for option in narrower if option.gpus != widest]
    return Menu((tuple(preferred),), (1.0,), tuple(narrower), False, rigid, OptionTable.of((preferred,), restart))


def _open(offers: Iterable[PoolOffer], gpu_types: Sequence[str], spot: SpotPolicy) -> Iterable[tuple[PoolOffer, Price]]:
    """The pools that a job may use, each with the price of a node."""
    for offer in offers:
        if offer.deleting or offer.price is None or offer.gpus_per_node < 1:
            continue
        if offer.capacity_type is CapacityType.SPOT and spot is not SpotPolicy.ALLOWED:
            continue
        if not gpu_types or offer.gpu_type in gpu_types:
            yield offer, offer.price


def _speeds(profile: Profile | None, gpu_type: str, gpus: int) -> list[float]:
    """The speed in each phase; empty where one is not known."""
    if profile is None:
        return []
    known = [speed(profile, phase, gpu_type, gpus) for phase in range(len(profile.phases))]
    speeds = [value for value in known if value is not None]
    return speeds if len(speeds) == len(known) else []


_NONE: QuarantinedWidths = frozenset()
NOWHERE: frozenset[tuple[PoolId, int]] = frozenset()


class MenuKey(NamedTuple):
    """What decides a job's menu. ``class_id``: None where no curve is known; ``elastic``: whether it is resized in
    place; ``failed``: where runs of it failed."""

    class_id: ClassId | None
    least: int
    preferred: int
    most: int
    gpu_types: tuple[str, ...] = ()
    spot: SpotPolicy = SpotPolicy.NEVER
    elastic: bool = False
    failed: frozenset[tuple[PoolId, int]] = NOWHERE


class Menus:
    """The menus of one plan. ``exploring``: classes for whose trials their budget pays; ``quarantined``: by class, the
    widths that are not to be chosen now.
    """

    def __init__(
        self,
        profiles: Mapping[ClassId, Profile],
        pools: Mapping[PoolId, Pool],
        exploring: frozenset[ClassId] = frozenset(),
        quarantined: Mapping[ClassId, QuarantinedWidths] = MappingProxyType({}),
        remember: Remember = directly,
    ) -> None:
        self._profiles = profiles
        self.market = remember(_market, tuple([pool_offer(pools[name]) for name in sorted(pools)]))
        self._exploring = exploring
        self._quarantined = quarantined
        self._remember = remember

    def menu(self, key: MenuKey) -> Menu:
        """The menu of all jobs with this key."""
        class_id = key.class_id
        profile = None if class_id is None else self._profiles[class_id]
        avoided = _NONE if class_id is None else self._quarantined.get(class_id, _NONE)
        return self._remember(_menu, profile, key, self.market, class_id in self._exploring, avoided)

    def hull(self, key: MenuKey, work: float) -> Hull:
        """The hull of that menu for jobs of ``work`` seconds of the reference option."""
        return self._remember(Menu.hull, self.menu(key), work)


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """What all pools offer; the same object for as long as nothing changes by which jobs choose."""

    offers: Mapping[PoolId, PoolOffer]


def _market(offers: Sequence[PoolOffer]) -> Market:
    return Market({offer.pool: offer for offer in offers})


def _menu(profile: Profile | None, key: MenuKey, market: Market, explore: bool, quarantined: QuarantinedWidths) -> Menu:
    if profile is not None and key.failed:
        failed = [(market.offers.get(pool), gpus) for pool, gpus in key.failed]
        widths_failed = frozenset(("" if offer is None else offer.gpu_type, gpus) for offer, gpus in failed)
        quarantined |= untested(profile, widths_failed)
    widths = Widths(key.least, key.preferred, key.most)
    return build_menu(
        profile, widths, key.gpu_types, key.spot, market.offers.values(), explore, key.elastic, quarantined
    )
