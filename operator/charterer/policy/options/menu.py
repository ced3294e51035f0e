"""A job's menu: every option that its pools, its widths and its class's curves allow."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf
from operator import itemgetter
from types import MappingProxyType

from charterer.domain.ids import ClassId, PoolId, Rate
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.pool import Pool
from charterer.domain.profile import Profile
from charterer.gpu_types import RelativeSpeed
from charterer.incremental import Remember, directly
from charterer.policy.options.market import Market, MenuKey, market_of
from charterer.policy.options.pair_speeds import Parts, chosen_parts
from charterer.policy.options.sources import Curves, candidates, curves_of
from charterer.policy.options.speeds import (
    ClassKnowledge,
    QuarantinedWidths,
    assumed_speeds,
    has_curve,
    measuring_profile,
    paced,
    reference_in,
    units_differ,
    untested,
)
from charterer.policy.solve.hull import Hull, hull, path_hull
from charterer.policy.solve.phase_dp import InPlaceResize, OptionTable, key_of

# The most that an hour of a job may cost if its budget sets no limit. It is a multiple of the cost of an hour as the
# job's owner asked.
#
#   γ = 5 · k · max_p c'_p,    c'_p = min(c_p, 4 · c_q)
#
# k is the number of GPUs that its owner prefers, c_p a GPU's price in pool p, and q the cheapest pool whose GPUs are at
# least as fast as those of p.
#
# Nodes that are paid for whether used or not count at the price that is really paid, because a job's time is worth as
# much beside them. Nodes that cost nothing say nothing about the worth of time, so they do not count. If all nodes cost
# nothing, a GPU counts as if it cost a dollar an hour. Any price would do, because no money is spent by it.
#
# The load for which an amount of money was made is measured with the same prices (``usual_dollars``), for the same
# reason.


FACTOR = 5.0
"""The most dollars paid to end a job an hour earlier, as a multiple of the cost of an hour of the job as its owner
asked."""
_DEARER = 4.0
"""A pool's price counts up to this multiple of the price of the cheapest GPUs that are at least as fast. Spot nodes
cost a quarter of the list price or more."""
_NOTIONAL = 1.0 / 3600.0
"""Dollars a second of a GPU, used if no pool has a price."""


def default_ceiling(prices: Mapping[PoolId, float], preferred: int) -> Rate:
    """Dollars that a second of a job of weight 1 may cost if its budget sets no limit; 0 without pools."""
    return Rate(FACTOR * preferred * max(prices.values(), default=0.0))


def usual_dollars(options: Sequence[Option], prices: Mapping[PoolId, float]) -> float:
    """Dollars for the work that the reference option does in a second. In each pool the cheapest width is taken, and
    of the pools the dearest.

    ``prices``: c' by pool, as in the equation above.
    """
    least: dict[PoolId, float] = {}
    for option in options:
        pool = option.pool
        if pool not in prices:
            continue
        dollars = prices[pool] * option.takes / option.speed
        if pool not in least or dollars < least[pool]:
            least[pool] = dollars
    return max(least.values(), default=0.0)


def counted_prices(options: Iterable[Option], preferred: int) -> Mapping[PoolId, float]:
    """c' of the equation above, in dollars a second of a GPU, for each pool whose nodes cost something."""
    asked: dict[PoolId, Option] = {}
    all_options = [*options]
    paid = [option for option in all_options if option.paid_price > Price(0)]
    if not paid:
        return {option.pool: _NOTIONAL for option in all_options}
    for option in paid:
        other = asked.get(option.pool)
        if other is None or abs(option.gpus - preferred) < abs(other.gpus - preferred):
            asked[option.pool] = option
    gpus = [
        (each.speed / each.gpus, each.paid_price.dollars_per_second / each.takes, pool) for pool, each in asked.items()
    ]
    counted: dict[PoolId, float] = {}
    cheapest = inf
    for _, alike in groupby(sorted(gpus, reverse=True), key=itemgetter(0)):
        prices = [(pool, price) for _, price, pool in alike]
        cheapest = min(cheapest, *[price for _, price in prices])  # of GPUs that are at least as fast
        counted |= {pool: min(price, _DEARER * cheapest) for pool, price in prices}
    return counted


_NONE: QuarantinedWidths = frozenset()


@dataclass(frozen=True, slots=True)
class Menu:
    """The options of a job.

    ``stages[p]``: the options with their speeds in phase p.
    ``until[p]``: the fraction of the work at which phase p ends.
    ``narrower``: options that are used only if the budget's limits force it, because no curve is known.
    ``known``: whether speeds are measured. If not, the speed of an option is its fraction of the preferred width,
    times the assumed speed of its GPU type.
    ``rigid``: whether the job has only one width.
    ``table``: the same options as numbers.
    ``ceiling``: the most dollars that a second of a job of weight 1 may cost if its budget sets no limit.
    ``usual``: the least usual cost, in dollars, of the work that the reference option does in a second.
    """

    stages: tuple[tuple[Option, ...], ...]
    until: tuple[float, ...]
    narrower: tuple[Option, ...]
    known: bool
    rigid: bool
    table: OptionTable
    ceiling: Rate
    usual: float = 0.0

    @property
    def options(self) -> tuple[Option, ...]:
        """The options with their speeds in the first phase."""
        return self.stages[0]

    def phase(self, done: float) -> int:
        """The index of the phase of a job of whose work the fraction ``done`` is done."""
        return min(bisect_right(self.until, done), len(self.until) - 1)

    def speed(self, option: Option, done: float) -> float:
        """The option's speed when the fraction ``done`` of the work is done. If the option is not on the menu, the
        result is its recorded speed."""
        at = self.table.index.get(key_of(option))
        return option.speed if at is None else self.stages[self.phase(done)][at].speed

    def hull(self, work: float) -> Hull:
        """The hull of the options or paths of a new job of ``work`` seconds of the reference option."""
        if len(self.stages) == 1:
            return hull(self.options, work)
        return path_hull(self.stages, self.table, self.until, work)


def build_menu(
    key: MenuKey,
    profile: Profile | None,
    market: Market,
    explore: bool = False,
    quarantined: QuarantinedWidths = _NONE,
    others: tuple[ClassKnowledge, ...] = (),
    parts: Parts = (),
) -> Menu:
    """The menu of jobs with one key.

    ``explore``: whether widths to try count with the highest speed that is plausible.
    ``quarantined``: widths of the class that must not be chosen now.
    ``others``: what is known about the classes of the variants.
    ``parts``: the fractions of its speed that the class keeps on shared GPUs if partners are chosen.

    If no class has a curve for any of the GPU types, the menu contains only the preferred width, or the widest
    offered width below it. No wider width is chosen before a speed is known, and no width above ``TRIAL_STEP`` times
    the preferred width before the class has reported. If a GPU type or variant has a curve, those without a curve are
    left out, except for trials. Quarantined widths, and widths on which the jobs themselves failed, are left out
    unless no other width remains.
    """
    measure = measuring_profile([profile, *[other.profile for other in others]])
    curves = curves_of(profile, explore, parts)
    avoided = quarantined | _failed(key, "", profile, market)
    everything = list(candidates(key, market, curves))
    chosen = [candidate for candidate in everything if (candidate.gpu_type, candidate.gpus) not in avoided]
    restart = curves.restart_seconds
    for variant, other in zip(key.variants, others, strict=True):
        if measure is not None and other.profile is not None and has_curve(other.profile):
            of_variant = _variant_curves(variant.name, other, measure, profile)
            restart = max(restart, of_variant.restart_seconds)
            avoided = other.quarantined | _failed(key, variant.name, other.profile, market)
            found = [each for each in candidates(key.of(variant), market, of_variant) if each.known]
            chosen += [each for each in found if (each.gpu_type, each.gpus) not in avoided]
    if not any(candidate.known for candidate in chosen):
        chosen = everything
    stages_of = [candidate.stages for candidate in chosen if candidate.known]
    rigid = key.least == key.most and not key.variants
    if measure is not None and stages_of:
        firsts = [stages[0] for stages in stages_of]
        own, priced = [option for option in firsts if not option.variant] or firsts, _of_givers(firsts, market)
        prices = counted_prices(priced, key.preferred)
        usual = usual_dollars(priced, prices)
        if len(own) < len(firsts):
            prices = counted_prices(_of_givers(own, market), key.preferred)
        if key.tries and explore:
            stages_of += _to_try(key, others, stages_of, market)
        stages = tuple(zip(*stages_of, strict=True))
        until = tuple(phase.until for phase in measure.phases)
        nodes = {offer.pool: offer.gpus_per_node for offer, _ in market.open_to(key)}
        resize = (profile or measure).resize_seconds
        in_place = InPlaceResize(resize, nodes, key.fewest_pods) if key.fewest_pods else None
        table = OptionTable.of(stages, restart, in_place)
        ceiling = default_ceiling(prices, key.preferred)
        return Menu(stages, until, (), True, rigid, table, ceiling, usual)
    options = [candidate.stages[0] for candidate in chosen]
    widest = max([option.gpus for option in options], default=0)
    widest_options = tuple(option for option in options if option.gpus == widest)
    narrower = tuple(option for option in options if option.gpus < widest)
    table = OptionTable.of((widest_options,), restart)
    priced = _of_givers(widest_options, market)
    prices = counted_prices(priced, key.preferred)
    ceiling, usual = default_ceiling(prices, key.preferred), usual_dollars(priced, prices)
    return Menu((widest_options,), (1.0,), narrower, False, rigid, table, ceiling, usual)


def _of_givers(options: Sequence[Option], market: Market) -> Sequence[Option]:
    """The options in pools that have ever given a node. If no pool has given a node, the result is all options,
    because nothing is known then."""
    return [option for option in options if market.offers[option.pool].gave_nodes] or options


def _variant_curves(name: str, known: ClassKnowledge, measure: Profile, template: Profile | None) -> Curves:
    """The curves of a variant in the phases of ``measure``; no curves if the variant's throughput has another
    unit."""
    profile = known.profile
    if profile is None or units_differ(profile, measure):
        return Curves(None, {}, variant=name)
    curves = curves_of(profile, known.explore, known.parts)
    hoped = profile if curves.profile is None else curves.profile
    work = None if template is None else template.mean_work
    in_phases = replace(paced(hoped, [phase.until for phase in measure.phases]), mean_work=work)
    return Curves(in_phases, curves.trials, reference_in(profile, measure), name, curves.parts)


def _to_try(
    key: MenuKey,
    others: Iterable[ClassKnowledge],
    stages: Sequence[tuple[Option, ...]],
    market: Market,
) -> list[tuple[Option, ...]]:
    """For each variant without a curve, one width in each pool. Each counts as as fast as the fastest option of
    ``stages`` in the same phase."""
    hope = [max(option.speed for option in stage) for stage in zip(*stages, strict=True)]
    found: list[tuple[Option, ...]] = []
    for variant, other in zip(key.variants, others, strict=True):
        if has_curve(other.profile):
            continue
        avoided = other.quarantined | _failed(key, variant.name, None, market)
        widest: dict[PoolId, Option] = {}
        for each in candidates(key.of(variant), market, Curves(None, {}, variant=variant.name)):
            if (each.gpu_type, each.gpus) not in avoided:
                widest[each.stages[0].pool] = each.stages[0]
        for option in widest.values():
            kept = 1.0 if option.interruptions is None else option.interruptions.kept
            found.append(tuple(replace(option, speed=speed * kept, trial=True) for speed in hope))
    return found


def _failed(key: MenuKey, variant: str, profile: Profile | None, market: Market) -> QuarantinedWidths:
    """The GPU types and widths on which runs of the jobs failed before the variant's class was measured at these
    widths."""
    offers = [(market.offers.get(pool), gpus) for pool, gpus, name in key.failed if name == variant]
    widths = frozenset(("" if offer is None else offer.gpu_type, gpus) for offer, gpus in offers)
    if variant and not has_curve(profile):
        return widths
    return untested(profile, widths) if profile is not None and widths else _NONE


class Menus:
    """The menus of jobs that may use ``pools``.

    ``exploring``: classes whose budget pays for trials.
    ``quarantined``: for each class, the widths that must not be chosen now.
    """

    def __init__(
        self,
        profiles: Mapping[ClassId, Profile],
        pools: Mapping[PoolId, Pool],
        exploring: frozenset[ClassId] = frozenset(),
        quarantined: Mapping[ClassId, QuarantinedWidths] = MappingProxyType({}),
        remember: Remember = directly,
    ) -> None:
        self._market = market_of(pools, remember)
        self._profiles = profiles
        self._parts = chosen_parts(profiles, pools.values(), remember)
        self._exploring = exploring
        self._quarantined = quarantined
        self._remember = remember
        self._variants = True
        self._made: dict[MenuKey, Menu] = {}

    def without(self, pools: Collection[PoolId]) -> Menus:
        """The menus as if these pools were closed."""
        other = copy(self)
        other._made = {}
        other._market = self._remember(Market.without, self._market, frozenset(pools))
        return other

    def without_variants(self) -> Menus:
        """The menus without variants: jobs train only as their templates say."""
        other = copy(self)
        other._variants, other._made = False, {}
        return other

    def menu(self, key: MenuKey) -> Menu:
        """The menu of all jobs with this key."""
        if key not in self._made:
            self._made[key] = self._menu(key)
        return self._made[key]

    def _menu(self, key: MenuKey) -> Menu:
        if key.variants and not self._variants:
            key = key._replace(variants=())
        class_id = key.class_id
        own = ClassKnowledge(None) if class_id is None else self._known(class_id)
        others = tuple([self._known(variant.class_id) for variant in key.variants])
        return self._remember(
            build_menu, key, own.profile, self._market, own.explore, own.quarantined, others, own.parts
        )

    def assumed_speeds(self, key: MenuKey) -> Mapping[str, RelativeSpeed]:
        """The assumed speeds of GPU types from which the menu is made; empty if its speeds are measured."""
        return {} if self.menu(key).known else assumed_speeds(self._market.open_to(key))

    def _known(self, class_id: ClassId) -> ClassKnowledge:
        quarantined = self._quarantined.get(class_id, _NONE)
        parts = tuple(self._parts.get(class_id, {}).items())
        return ClassKnowledge(self._profiles.get(class_id), class_id in self._exploring, quarantined, parts)

    def hull(self, key: MenuKey, work: float, weight: float, ceiling: Rate | None) -> Hull:
        """The hull of the key's menu for jobs of ``work`` seconds of the reference option, up to a ceiling.

        ``ceiling``: the most dollars that a second of a job of weight 1 may cost; None for the menu's default.
        """
        menu = self.menu(key)
        whole = self._remember(Menu.hull, menu, work)
        return self._remember(Hull.below, whole, weight * (menu.ceiling if ceiling is None else ceiling))
