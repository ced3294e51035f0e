"""The offers of pools: the facts about pools on which menus depend."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, expm1, log, sqrt
from typing import Final, NamedTuple

from charterer.domain.budget import EVERYTHING, Budget
from charterer.domain.ids import ClassId, PoolId
from charterer.domain.job import SpotPolicy, Variant, Widths
from charterer.domain.money import Price
from charterer.domain.node_demands import NO_LIMITS, PodLimits
from charterer.domain.option import GPU, Interruptions
from charterer.domain.pool import CapacityType, Hazard, Pool
from charterer.domain.reasons.waits import NoPoolSelected, PoolsLeftOut, SelectorFact
from charterer.estimate.hazard import LONGEST_HOURS, events_at_ages, events_per_hour, mean_rate
from charterer.gpu_types import may_use
from charterer.incremental import Remember

# The effective speed of an option whose nodes the cloud takes back (docs/theory/policy.md).
#
# A job on n nodes is interrupted Λ = h·(q + (1 − q)·n) times an hour. h is the mean death rate of a node over the
# job's own length, and q the fraction of deaths that take all nodes of a pool. The job writes a checkpoint of δ
# seconds every τ = √(2δ/Λ) seconds (Young 1974). An interruption loses the work since the last checkpoint, takes a
# restart of r seconds, and takes T seconds to boot a node. The effective speed is the speed times φ, the fraction of
# the time in which the job does work that is not lost. Its nodes are paid for all the time, so one factor is enough
# for time and money. An event simulation agrees to 1 % if φ is above one half.


DEFAULT_CHECKPOINT_SECONDS: Final = 30.0
"""Seconds to write a checkpoint, for classes that have not reported any checkpoint. They suffice for some gigabytes
to a network file system."""
LONGEST_INTERVAL_SECONDS: Final = 7200.0
"""Most seconds between two checkpoints. The limit also bounds the work that is lost by a fault of the job itself."""
LEAST_INTERVAL: Final = 10.0
"""Least interval between two checkpoints, as a multiple of the seconds of a checkpoint. So checkpoints take at most a
tenth of the time."""
NOTICE_SECONDS: Final = 20.0
"""Longest checkpoint, in seconds, that can still be written after a notice. The shortest notice of a cloud is 30
seconds, and a trainer learns of a notice within 10 seconds."""
_LEAST_SURPRISING: Final = 0.05
_LEAST_WRITE_SECONDS: Final = 0.5
"""Least seconds that a checkpoint counts as. So even a checkpoint that takes no time is written only every few
minutes."""
LEAST_KEPT: Final = 1e-3
"""Least fraction of its speed that an option keeps, so that numbers stay finite. No job chooses an option that keeps
so little."""
_GRID: Final = log(1.05)
"""Grid of 5 % to which rates are rounded. Rates fall with every second without a death, and each new rate means new
menus. A rate that is wrong by 5 % costs less than 0.1 %."""
_JOINT_GRID: Final = 20.0
_SECONDS: Final = 3600.0


class NodeHazard(NamedTuple):
    """The facts of a pool's hazard on which options depend: ``rates``, ``joint`` and ``measured``, rounded."""

    rates: tuple[float, ...]
    joint: float
    measured: bool


def node_hazard(hazard: Hazard | None) -> NodeHazard | None:
    """The rounded hazard; None if no node is expected to be taken back."""
    if hazard is None or hazard.never:
        return None
    rates = tuple([exp(round(log(rate) / _GRID) * _GRID) if rate > 0.0 else 0.0 for rate in hazard.rates])
    return NodeHazard(rates, round(hazard.joint * _JOINT_GRID) / _JOINT_GRID, hazard.measured)


def checkpoint_interval(write_seconds: float, per_hour: float) -> float:
    """The seconds of training between two checkpoints with which the least time is lost.

    ``per_hour``: interruptions an hour.
    """
    best = sqrt(2.0 * write_seconds * _SECONDS / per_hour) if per_hour > 0.0 else LONGEST_INTERVAL_SECONDS
    return min(max(best, LEAST_INTERVAL * write_seconds), max(LONGEST_INTERVAL_SECONDS, LEAST_INTERVAL * write_seconds))


def advised_checkpoint_interval(hazard: Hazard, ages: Sequence[float], write_seconds: float | None) -> float:
    """The seconds of training after which a run should save its work again. The trainer is told this number.

    ``ages``: ages of its nodes in hours. ``write_seconds``: seconds of a checkpoint; None if the trainer has not said.

    If a checkpoint fits into the shortest notice that clouds give, only deaths without notice lose work. At least a
    twentieth of the deaths counts as deaths without notice.
    """
    seconds = max(DEFAULT_CHECKPOINT_SECONDS if write_seconds is None else write_seconds, _LEAST_WRITE_SECONDS)
    surprising = max(1.0 - hazard.announced, _LEAST_SURPRISING) if seconds <= NOTICE_SECONDS else 1.0
    return checkpoint_interval(seconds, events_at_ages(hazard, ages) * surprising)


class RunTimes(NamedTuple):
    """Seconds to write a checkpoint, to restart, and to boot a node."""

    checkpoint: float
    restart: float
    boot: float


def interruptions(
    hazard: NodeHazard, nodes: int, seconds: float | None, times: RunTimes, narrower: float | None
) -> Interruptions:
    """The effect of interruptions on a job. ``seconds``: the job's length; None if unknown. ``nodes``: its number of
    nodes.

    ``narrower``: its speed with one node less, as a fraction of its speed with all nodes; None if it cannot run with
    one node less.
    """
    rate = mean_rate(hazard.rates, LONGEST_HOURS if seconds is None else seconds / _SECONDS)
    per_hour = events_per_hour(rate, hazard.joint, nodes)
    waiting = waiting_speed(per_hour, times)
    kept = waiting
    if nodes > 1 and narrower is not None:
        alone = (1.0 - hazard.joint) * nodes
        shrinking = max(waiting, shrinking_speed(per_hour, times, narrower))
        kept = (alone * shrinking + hazard.joint * waiting) / (alone + hazard.joint)
    interval = checkpoint_interval(times.checkpoint, per_hour)
    return Interruptions(
        rate, hazard.joint, per_hour, interval, times.checkpoint, max(kept, LEAST_KEPT), hazard.measured
    )


def waiting_speed(per_hour: float, times: RunTimes) -> float:
    """φ of a job that waits for a new node: equation (3) of docs/theory/policy.md."""
    rate = per_hour / _SECONDS
    if rate <= 0.0:
        return 1.0
    interval = _interval(rate, times)
    segment = rate * (interval + times.checkpoint)
    again = exp(-rate * (times.boot + times.restart) - segment)
    return rate * interval * again / -expm1(-segment)


def shrinking_speed(per_hour: float, times: RunTimes, narrower: float) -> float:
    """φ of a job that goes on with one node less until the new one is there: equation (4) of docs/theory/policy.md.

    ``narrower``: as in ``interruptions``. A value above 1 counts as 1, because otherwise a job with a falling curve
    would gain by each death.
    """
    rate = per_hour / _SECONDS
    if rate <= 0.0:
        return 1.0
    interval = _interval(rate, times)
    away = max(times.boot - times.restart, 0.0)
    stalled = times.restart + (times.restart + times.checkpoint) * exp(-rate * away)
    segment = rate * (interval + times.checkpoint)
    undisturbed = exp(-segment - rate * stalled)
    slower = rate * away * (1.0 - min(narrower, 1.0))
    return undisturbed / (-expm1(-segment) / (rate * interval) + slower * undisturbed)


def goes_on(narrower: float, wait: float, restart: float, write_seconds: float) -> bool:
    """Whether a job that lost nodes gains by running on its remaining nodes until new nodes are ready: σ·(T − r) > δ.

    ``narrower``: σ, its speed on the remaining nodes, as a fraction of its speed with all nodes. ``wait``: T, seconds
    until all nodes are ready.
    """
    return narrower * (wait - restart) > write_seconds


def _interval(rate: float, times: RunTimes) -> float:
    """The checkpoint interval with which a speed is computed. It has no upper bound, so that a rate near 0 costs
    nothing."""
    return max(sqrt(2.0 * times.checkpoint / rate), LEAST_INTERVAL * times.checkpoint, 1.0)


# The pools that a budget's ``spec.poolSelector`` excludes.


def no_pool(budget: Budget, pools: Mapping[PoolId, Pool]) -> NoPoolSelected | None:
    """The fact that the budget may rent in no pool, with all pools and their labels; None if there is a pool in which
    it may rent."""
    if budget.pool_selector == EVERYTHING or len(_others(budget, pools)) < len(pools):
        return None
    there = [(pool.id, tuple([f"{key}={value}" for key, value in pool.labels.items()])) for pool in pools.values()]
    return NoPoolSelected(budget.id, budget.pool_selector, tuple(there))


def left_out(budget: Budget, pools: Mapping[PoolId, Pool]) -> SelectorFact | None:
    """The fact that names the pools in which the budget may not rent; None if it may rent in all pools."""
    others = _others(budget, pools)
    if not 0 < len(others) < len(pools):
        return no_pool(budget, pools)
    return PoolsLeftOut(budget.id, budget.pool_selector, tuple(others))


def _others(budget: Budget, pools: Mapping[PoolId, Pool]) -> list[PoolId]:
    return [name for name, pool in pools.items() if not budget.pool_selector.matches(pool.labels)]


# The key of a job's menu: jobs with equal keys have the same options.


NOWHERE: frozenset[tuple[PoolId, int, str]] = frozenset()


class MenuKey(NamedTuple):
    """The properties of a job that decide its menu. Jobs with equal keys have the same options.

    ``class_id``: the job's class; None if no curve is known.
    ``least``, ``preferred``, ``most``: numbers of GPUs.
    ``fewest_pods``: the least number of pods before and after a resize in place; 0 if the job is never resized in
    place.
    ``failed``: pools, numbers of GPUs and variants with which its runs failed.
    ``slices``: MIG profiles of the slices that it accepts instead of a GPU.
    ``shared_mib``: GPU memory in MiB that it needs on a shared GPU; 0 if it shares no GPU.
    ``variants``: its variants besides the template.
    ``tries``: whether it may try variants without a curve.
    ``each``: GPUs of every pod; 0 if the node decides the number.
    ``limits``: pools whose nodes take fewer of its pods than they have GPUs for, or none.
    """

    class_id: ClassId | None
    least: int
    preferred: int
    most: int
    gpu_types: tuple[str, ...] = ()
    spot: SpotPolicy = SpotPolicy.NEVER
    fewest_pods: int = 0
    failed: frozenset[tuple[PoolId, int, str]] = NOWHERE
    slices: tuple[str, ...] = ()
    shared_mib: int = 0
    variants: tuple[Variant, ...] = ()
    tries: bool = False
    each: int = 0
    limits: PodLimits = NO_LIMITS

    @property
    def widths(self) -> Widths:
        """The numbers of GPUs that the job may have."""
        return Widths(self.least, self.preferred, self.most, self.slices, self.shared_mib, each=self.each)

    def of(self, variant: Variant) -> MenuKey:
        """The key with the class, widths and slices of a variant."""
        return self._replace(
            class_id=variant.class_id,
            least=variant.least,
            preferred=variant.preferred,
            most=variant.most,
            slices=variant.slices,
            shared_mib=variant.shared_mib,
        )


NodeKind = tuple[str, CapacityType, str]


class PoolOffer(NamedTuple):
    """A pool's offer.

    ``gpus_per_node``: 0 if the pool has no offering.
    ``price``: the price of a node that decisions use; None if the pool has no quote.
    ``start_seconds``: seconds from the request for a node until it is ready.
    ``resource``: resource name of its nodes' GPUs or slices.
    ``hazard``: the rate at which nodes are taken back; None if none are.
    ``paid``: the price that is really paid, if nodes are paid for whether used or not; None if that is ``price``.
    ``gave_nodes``: whether the pool ever gave a node.
    """

    pool: PoolId
    gpu_type: str
    gpus_per_node: int
    price: Price | None
    max_nodes: int
    capacity_type: CapacityType
    start_seconds: float
    closed: bool
    resource: str = GPU
    hazard: NodeHazard | None = None
    paid: Price | None = None
    gave_nodes: bool = False

    @property
    def kind(self) -> NodeKind:
        """A key that is equal for pools whose nodes differ only in size."""
        return self.gpu_type, self.capacity_type, self.resource


def pool_offer(pool: Pool) -> PoolOffer:
    """The offer of a pool."""
    return PoolOffer(
        pool=pool.id,
        gpu_type="" if pool.offering is None else pool.offering.gpu_type,
        gpus_per_node=pool.gpus_per_node,
        price=pool.marginal,
        max_nodes=pool.max_nodes,
        capacity_type=pool.capacity_type,
        start_seconds=pool.likely_start_seconds,
        closed=bool(pool.closed_because),
        resource=GPU if pool.offering is None else pool.offering.resource,
        hazard=node_hazard(pool.hazard),
        paid=None if pool.committed is None or pool.quote is None else pool.quote.price,
        gave_nodes=pool.gave_nodes,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """The offers of pools, by name. The object stays the same as long as nothing changes that matters for the choices
    of jobs.

    ``of_one_size``: kinds of nodes that exist in one size only.
    """

    offers: Mapping[PoolId, PoolOffer]
    of_one_size: frozenset[NodeKind]

    def without(self, pools: Collection[PoolId]) -> Market:
        """The market as if these pools were closed."""
        offers = self.offers.values()
        return market(offer._replace(closed=offer.closed or offer.pool in pools) for offer in offers)

    def open_to(self, key: MenuKey) -> list[tuple[PoolOffer, Price]]:
        """The pools that jobs of this key may use, each with the price of a node."""
        unfit = {pool for pool, pods in key.limits if not pods}
        return [
            (offer, offer.price)
            for offer in self.offers.values()
            if not offer.closed
            and offer.pool not in unfit
            and offer.price is not None
            and offer.gpus_per_node > 0
            and (offer.capacity_type is not CapacityType.SPOT or key.spot is SpotPolicy.ALLOWED)
            and may_use(offer.gpu_type, key.gpu_types, key.slices, key.shared_mib)
        ]


def market(offers: Iterable[PoolOffer]) -> Market:
    """The market of some pools."""
    by_name = {offer.pool: offer for offer in offers}
    sizes: dict[NodeKind, set[int]] = {}
    for offer in by_name.values():
        sizes.setdefault(offer.kind, set()).add(offer.gpus_per_node)
    return Market(by_name, frozenset([kind for kind, found in sizes.items() if len(found) == 1]))


def market_of(pools: Mapping[PoolId, Pool], remember: Remember) -> Market:
    """The market of these pools, which is the same object as long as their offers stay the same."""
    return remember(market, tuple([pool_offer(pools[name]) for name in sorted(pools)]))
