"""Candidate ways to run a group of jobs: numbers of whole GPUs of one pool, or one slice or shared GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from charterer.domain.job import Widths
from charterer.domain.money import Price
from charterer.domain.offered_node import pods_on_node, taken
from charterer.domain.option import MOST_PODS, Interruptions, Option
from charterer.domain.profile import DEFAULT_RESTART_SECONDS, TRIAL_STEP, Profile
from charterer.gpu_types import RelativeSpeed, slice_profile, whole_type
from charterer.policy.options.market import (
    DEFAULT_CHECKPOINT_SECONDS,
    Market,
    MenuKey,
    PoolOffer,
    RunTimes,
    interruptions,
)
from charterer.policy.options.pair_speeds import Parts
from charterer.policy.options.speeds import (
    assumed_speeds,
    exploration_candidates,
    optimistic_speed,
    reference_throughput,
    speed,
)

# The seconds of a checkpoint, for a class that has neither declared nor reported them.
#
# A checkpoint takes a fixed time plus a time in proportion to its bytes. CM-DARE (Li, Walls and Guo, ICDCS 2020)
# measured 20 models. ``tests.bench.predict`` derives the two numbers again, and shows how well a model that is left
# out is predicted.


FIXED_SECONDS: Final = 3.71
SECONDS_PER_PARAMETER: Final = 1.53e-7
"""Seconds for the eight bytes of a parameter (32-bit weights and a momentum) to an object store."""


def checkpoint_seconds(profile: Profile | None) -> float:
    """Seconds to write a checkpoint: as declared or reported, or else by the declared number of parameters.

    If the number of parameters decides, the result is at most ``DEFAULT_CHECKPOINT_SECONDS``. The largest measured
    model had 26 million parameters, and it is not known how the law continues far beyond that.
    """
    if profile is None:
        return DEFAULT_CHECKPOINT_SECONDS
    if profile.checkpoint_seconds is not None:
        return profile.checkpoint_seconds
    if profile.model.parameters is None:
        return DEFAULT_CHECKPOINT_SECONDS
    return min(FIXED_SECONDS + SECONDS_PER_PARAMETER * profile.model.parameters, DEFAULT_CHECKPOINT_SECONDS)


_FINE_NODES = 128
"""Number of nodes up to which every number of nodes is offered."""


@dataclass(frozen=True, slots=True)
class Curves:
    """The speeds of a class of jobs.

    ``profile``: the class's profile, with the highest plausible speeds on the widths in ``trials``; None if unknown.
    ``trials``: for each GPU type, numbers of GPUs that are worth a trial.
    ``reference``: the expected throughput of the option by which work is measured; None if unknown.
    ``variant``: the name of the job's variant to which the curves belong.
    ``parts``: for each type of shared GPUs where partners are chosen, the fraction of its speed on a whole GPU that
    the class is expected to keep. For other types, a curve has the speed.
    """

    profile: Profile | None
    trials: Mapping[str, frozenset[int]]
    reference: float | None = None
    variant: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def restart_seconds(self) -> float:
        """Seconds from stopping a run to training in the next one."""
        return DEFAULT_RESTART_SECONDS if self.profile is None else self.profile.restart_seconds

    @property
    def checkpoint_seconds(self) -> float:
        """Seconds to write a checkpoint."""
        return checkpoint_seconds(self.profile)

    def length(self, speeds: Sequence[float]) -> float | None:
        """Seconds that a job of the class takes with these speeds in its phases; None if the work of a job is not
        known."""
        if self.profile is None or self.profile.mean_work is None or not speeds:
            return None
        ends = [phase.until for phase in self.profile.phases]
        parts = zip(ends, [0.0, *ends], speeds, strict=False)
        return self.profile.mean_work * sum((end - begin) / speed for end, begin, speed in parts)

    def speeds(self, gpu_type: str, gpus: int) -> Sequence[float]:
        """The speed in each phase; empty if the speed of any phase is not known."""
        part = self.parts.get(gpu_type)
        alone = () if part is None else self._on_curve(whole_type(gpu_type), gpus)
        return [part * value for value in alone] if part and alone else self._on_curve(gpu_type, gpus)

    def _on_curve(self, gpu_type: str, gpus: int) -> Sequence[float]:
        if self.profile is None:
            return ()
        phases = range(len(self.profile.phases))
        known = [speed(self.profile, phase, gpu_type, gpus, self.reference) for phase in phases]
        speeds = [value for value in known if value is not None]
        return speeds if len(speeds) == len(known) else ()


def curves_of(profile: Profile | None, explore: bool, parts: Parts = ()) -> Curves:
    """The curves of a class; ``explore``: whether its budget pays for trials of widths that were never measured."""
    if profile is None:
        return Curves(None, {})
    trials = exploration_candidates(profile) if explore else {}
    return Curves(optimistic_speed(profile, trials), trials, reference_throughput(profile), parts=dict(parts))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to run jobs on GPUs of one type.

    ``stages``: for each phase of the class, the option with its speed in that phase.
    ``known``: whether speeds are known. If not, there is one stage, and the speed is the width's fraction of the
    preferred one, times the assumed speed of its GPU type (``assumed_speeds``).
    """

    gpu_type: str
    stages: tuple[Option, ...]
    known: bool

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return self.stages[0].gpus


def candidates(key: MenuKey, market: Market, curves: Curves) -> Iterator[Candidate]:
    """The ways to run the jobs of a key within their widths on the pools that are open to them. Each way occurs once.

    A job that needs less than a node is one pod of 1, 2, 4, … GPUs. A wider job has whole nodes with one pod each.
    The ``preferred`` width is offered too if it can be placed. If no speed is known, no wider width than this is
    offered. Before its class has reported anything, no width above ``TRIAL_STEP`` times the preferred width is
    offered.
    """
    speeds_of: dict[tuple[str, int], Sequence[float]] = {}
    widths_of: dict[tuple[str, int, int, int | None], Sequence[tuple[int, int]]] = {}
    offers = market.open_to(key)
    assumed: Mapping[str, RelativeSpeed] = {}
    unproven = curves.profile is not None and curves.profile.unproven
    most = TRIAL_STEP * key.preferred if unproven else key.most
    limits = dict(key.limits)
    for offer, price in offers:
        pods = limits.get(offer.pool)
        alike = offer.gpu_type, offer.gpus_per_node, offer.max_nodes, pods
        if alike not in widths_of:
            widths_of[alike] = [
                (gpus, needs)
                for gpus in offered_widths(offer.gpu_type, offer.gpus_per_node, key.widths, offer.max_nodes, pods)
                if gpus <= most and (needs := taken(gpus, offer.gpus_per_node, key.each, pods)) is not None
            ]
        for gpus, takes in widths_of[alike]:
            width = offer.gpu_type, gpus
            if width not in speeds_of:
                speeds_of[width] = curves.speeds(*width)
            lost = None if offer.hazard is None else _interruptions(offer, gpus, takes, curves, speeds_of[width])
            if speeds_of[width]:
                trial = gpus in curves.trials.get(offer.gpu_type, ())
                stages = [_option(offer, gpus, takes, price, value, curves, trial, lost) for value in speeds_of[width]]
                yield Candidate(offer.gpu_type, tuple(stages), known=True)
            elif gpus <= key.preferred:
                assumed = assumed or assumed_speeds(offers)
                share = assumed[offer.gpu_type].estimate * gpus / key.preferred
                option = _option(offer, gpus, takes, price, share, curves, False, lost)
                yield Candidate(offer.gpu_type, (option,), known=False)


def offered_widths(
    gpu_type: str, gpus_per_node: int, widths: Widths, max_nodes: int, pods: int | None = None
) -> list[int]:
    """Numbers of GPUs, ascending: powers of two below a node, whole nodes up to ``max_nodes``, and ``preferred``.

    If the job fixes the GPUs of a pod, a node is full with as many pods as it can take, and each width that the job
    names is offered too. ``pods``: the number of the job's pods for which a node has enough resources other than
    GPUs; None if these do not limit it. A job gets only one slice or one shared GPU. Slices cannot train together,
    and two places may be on the same GPU.

    Below ``_FINE_NODES``, every number of nodes is offered. Above it, 64 numbers are offered for each doubling, so a
    menu stays small however wide a job may be. Numbers that the job's widths name are always offered.
    """
    if slice_profile(gpu_type):
        return [1] if widths.min == 1 and max_nodes else []
    each, named = widths.each, (widths.min, widths.preferred, widths.max)
    full = pods_on_node(gpus_per_node, each, pods) * each if each else gpus_per_node
    if not full:
        return []
    most = min(max_nodes, widths.max // full, MOST_PODS)
    nodes = {count for width in named if 1 <= (count := width // full) <= most}
    count = 1
    while count <= most:
        nodes.add(count)
        count += 1 if count < _FINE_NODES else 1 << (count // _FINE_NODES).bit_length()
    offered = {1 << power for power in range(gpus_per_node.bit_length()) if 1 << power < gpus_per_node}
    offered |= {count * full for count in nodes}
    if each:
        offered |= set(named)
    elif widths.preferred < gpus_per_node:
        offered.add(widths.preferred)
    return [
        gpus
        for gpus in sorted(offered)
        if widths.min <= gpus <= widths.max
        and (takes := taken(gpus, gpus_per_node, each, pods)) is not None
        and takes <= max_nodes * gpus_per_node
    ]


def _interruptions(
    offer: PoolOffer, gpus: int, takes: int, curves: Curves, speeds: Sequence[float]
) -> Interruptions | None:
    """The effect of interruptions on a width; None if the pool's nodes are not taken back."""
    if offer.hazard is None:
        return None
    nodes = -(-takes // offer.gpus_per_node)
    fewer = curves.speeds(offer.gpu_type, gpus - offer.gpus_per_node) if nodes > 1 else ()
    times = RunTimes(curves.checkpoint_seconds, curves.restart_seconds, offer.start_seconds)
    narrower = fewer[0] / speeds[0] if fewer and speeds else None
    return interruptions(offer.hazard, nodes, curves.length(speeds), times, narrower)


def _option(
    offer: PoolOffer,
    gpus: int,
    takes: int,
    price: Price,
    speed: float,
    curves: Curves,
    trial: bool,
    lost: Interruptions | None,
) -> Option:
    hourly = price.for_gpus(takes, offer.gpus_per_node)
    entry = offer.start_seconds + curves.restart_seconds
    return Option(
        pool=offer.pool,
        gpus=gpus,
        speed=speed if lost is None else speed * lost.kept,
        price=hourly,
        entry_seconds=entry,
        entry_cost=hourly.cost(round(entry)),
        trial=trial,
        resource=offer.resource,
        slice=slice_profile(offer.gpu_type),
        interruptions=lost,
        variant=curves.variant,
        paid=None if offer.paid is None else offer.paid.for_gpus(takes, offer.gpus_per_node),
        empty=takes - gpus,
    )
