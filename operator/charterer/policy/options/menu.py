"""A job's menu: every option that its pools, its widths and its class's curves allow.

Below one node a job is one pod of 1, 2, 4, … GPUs; from one node on it is whole nodes, one pod each. The class's
``preferred`` width is on the menu too where it can be placed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from charterer.domain.ids import ClassId, PoolId
from charterer.domain.job import Job, ResizePolicy, RunOutcome, SpotPolicy, Widths
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.profile import Profile
from charterer.policy.options.optimism import exploration_candidates, optimistic_speed
from charterer.policy.options.speedup import speed
from charterer.policy.options.width_backoff import QuarantinedWidths, untested
from charterer.policy.solve.hull import Hull, Path, hull, path_hull
from charterer.policy.solve.phase_dp import InPlace, OptionTable

if TYPE_CHECKING:
    from charterer.policy.budgets.pool_usage import PathUsage
    from charterer.policy.options.option_value import OptionValues

DEFAULT_RESTART_SECONDS = 30.0
"""From stopping a run to training on in the next, for jobs whose profile does not say."""


@dataclass(frozen=True, slots=True)
class Menu:
    """What may be chosen: ``stages[p]`` are the options with their speeds in phase p, which ends at ``until[p]``.

    ``narrower``: only when the budget's limits force it (no curve is known). ``known``: whether speeds are measured; if
    not, every option has the speed of its share of ``preferred``. ``rigid``: whether the job has one width only.
    ``ways``: the same options as numbers. ``seen``: what ``prospects`` worked out already; ``routed`` and ``walked``:
    what ``routes`` did, by the work of a job and by path.
    """

    stages: tuple[tuple[Option, ...], ...]
    until: tuple[float, ...]
    narrower: tuple[Option, ...]
    known: bool
    rigid: bool
    ways: OptionTable
    seen: dict[Hashable, OptionValues] = field(default_factory=dict, compare=False, repr=False)
    routed: dict[float, Sequence[PathUsage]] = field(default_factory=dict, compare=False, repr=False)
    walked: dict[int, tuple[Path, float, Mapping[PoolId, float]]] = field(
        default_factory=dict, compare=False, repr=False
    )

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


def _option(pool: Pool, gpus: int, gpus_per_node: int, price: Price, speed: float, restart_seconds: float) -> Option:
    share = price.share(gpus, gpus_per_node)
    entry = pool.start_seconds + restart_seconds
    return Option(
        pool=pool.id,
        gpus=gpus,
        speed=speed,
        price=share,
        entry_seconds=entry,
        entry_cost=share.cost(round(entry)),
    )


def build_menu(
    profile: Profile | None,
    widths: Widths,
    gpu_types: Sequence[str],
    spot: SpotPolicy,
    pools: Iterable[Pool],
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
    for pool, gpu_type, node, price in _open(pools, gpu_types, spot):
        nodes[pool.id] = node
        for gpus in offered_widths(node, widths, pool.max_nodes):
            if (gpu_type, gpus) in avoided:
                continue
            speeds = speeds_of.get((gpu_type, gpus))
            if speeds is None:
                speeds = speeds_of[gpu_type, gpus] = _speeds(hoped, gpu_type, gpus)
            if speeds:
                options = [_option(pool, gpus, node, price, speed, restart) for speed in speeds]
                measured.append(
                    [replace(one, trial=True) for one in options] if gpus in to_try.get(gpu_type, ()) else options
                )
            elif gpus <= widths.preferred:
                into = preferred if gpus == widths.preferred else narrower
                into.append(_option(pool, gpus, node, price, gpus / widths.preferred, restart))
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


def _open(pools: Iterable[Pool], gpu_types: Sequence[str], spot: SpotPolicy) -> Iterable[tuple[Pool, str, int, Price]]:
    """The pools that a job may use, with GPU type, GPUs per node and price of a node."""
    for pool in pools:
        if pool.deleting or pool.offering is None or pool.quote is None or pool.offering.gpus_per_node < 1:
            continue
        if pool.capacity_type is CapacityType.SPOT and spot is not SpotPolicy.ALLOWED:
            continue
        if not gpu_types or pool.offering.gpu_type in gpu_types:
            yield pool, pool.offering.gpu_type, pool.offering.gpus_per_node, pool.quote.price


def _speeds(profile: Profile | None, gpu_type: str, gpus: int) -> list[float]:
    """The speed in each phase; empty where one is not known."""
    if profile is None:
        return []
    known = [speed(profile, phase, gpu_type, gpus) for phase in range(len(profile.phases))]
    speeds = [value for value in known if value is not None]
    return speeds if len(speeds) == len(known) else []


_NONE: QuarantinedWidths = frozenset()
_NOWHERE: frozenset[tuple[PoolId, int]] = frozenset()


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
    failed: frozenset[tuple[PoolId, int]] = _NOWHERE


_IDLE = 256
"""So many menus are kept of which no job was in sight in the plan before: the next job of the class needs them."""


class Menus:
    """The menus of one plan, each made once for all jobs that are alike.

    Those of the plan ``before`` are taken over where the class's profile and the pools are what they were. ``explore``
    says whose widths may be tried that were never measured, and what is avoided: before the first menu is asked for.
    """

    def __init__(
        self, profiles: Mapping[ClassId, Profile], pools: Mapping[PoolId, Pool], before: Menus | None = None
    ) -> None:
        self._profiles = profiles
        self._pools = [pools[name] for name in sorted(pools)]
        self._sold = [_sold(pool) for pool in self._pools]
        self._types = {pool.id: "" if pool.offering is None else pool.offering.gpu_type for pool in self._pools}
        self._known: dict[MenuKey, _Known] = {}
        self._before: Mapping[MenuKey, _Known] = {}
        if before is not None and before._sold == self._sold:
            idle = {key: known for key, known in before._before.items() if key not in before._known}
            self._before = before._known | (idle if len(idle) <= _IDLE else {})
        self._exploring: frozenset[ClassId] = frozenset()
        self._avoided: Mapping[ClassId, QuarantinedWidths] = {}

    def explore(self, classes: frozenset[ClassId], avoided: Mapping[ClassId, QuarantinedWidths]) -> None:
        """Classes for whose trials their budget pays, and the widths that are not to be chosen."""
        self._exploring = classes
        self._avoided = avoided

    def key(self, job: Job) -> MenuKey:
        """What decides a job's menu."""
        known = job.class_id if job.class_id in self._profiles else None
        widths, failed = job.widths, _NOWHERE
        elastic = job.resize is ResizePolicy.IN_PLACE
        if known is not None and job.failures:
            ended = (one.option for one in job.records if one.outcome is RunOutcome.FAILED)
            failed = frozenset((option.pool, option.gpus) for option in ended)
        return MenuKey(known, widths.min, widths.preferred, widths.max, job.gpu_types, job.spot, elastic, failed)

    def menu(self, key: MenuKey) -> Menu:
        """The menu of all jobs with this key."""
        return self._of(key).menu

    def hull(self, key: MenuKey, work: float) -> Hull:
        """The hull of that menu for jobs of ``work`` seconds of the reference option."""
        hulls = self._of(key).hulls
        if work not in hulls:
            hulls.clear()
            hulls[work] = self.menu(key).hull(work)
        return hulls[work]

    def _of(self, key: MenuKey) -> _Known:
        known = self._known.get(key)
        if known is None:
            class_id = key.class_id
            profile = None if class_id is None else self._profiles[class_id]
            known = self._before.get(key)
            explore = class_id in self._exploring
            avoided = _NONE if class_id is None else self._avoided.get(class_id, _NONE)
            if profile is not None and key.failed:
                avoided |= untested(profile, frozenset((self._types.get(pool, ""), gpus) for pool, gpus in key.failed))
            if known is None or (known.profile, known.explore, known.avoided) != (profile, explore, avoided):
                widths = Widths(key.least, key.preferred, key.most)
                menu = build_menu(profile, widths, key.gpu_types, key.spot, self._pools, explore, key.elastic, avoided)
                known = _Known(profile, explore, avoided, menu)
            self._known[key] = known
        return known


@dataclass(slots=True)
class _Known:
    """A menu with the profile it was made from, and its hull by the work of the jobs (of one size at a time)."""

    profile: Profile | None
    explore: bool
    avoided: QuarantinedWidths
    menu: Menu
    hulls: dict[float, Hull] = field(default_factory=dict)


def _sold(pool: Pool) -> object:
    """What of a pool decides the menus."""
    price = None if pool.quote is None else pool.quote.price
    return pool.id, pool.offering, price, pool.max_nodes, pool.capacity_type, pool.start_seconds, pool.deleting
