"""A world in which two jobs share a GPU, and each job's node is chosen by the partner there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from charterer.domain.ids import ClassId, Rate
from charterer.domain.profile import PairSpeed, SpeedCurve, ThroughputTable
from charterer.gpu_types import slice_type
from charterer.policy import plan
from tests.factory.declared import NAMESPACE
from tests.worlds import World

V100 = "Tesla-V100-SXM2-16GB"
PLACE = slice_type(V100, "mps-2")
KEPT: Mapping[tuple[str, str], float] = {
    ("light", "light"): 0.95,
    ("light", "heavy"): 0.8,
    ("heavy", "light"): 0.9,
    ("heavy", "heavy"): 0.4,
}


def world_of_pairs(kept: Mapping[tuple[str, str], float] = KEPT, gpus: int = 1, average: float = 0.8) -> World:
    """Nodes of V100s, whole or shared by two jobs, at $2.48 a GPU; an hour of a job is worth $0.30.

    ``kept``: what a class keeps beside another one; ``average``: what the curve of each class says of shared GPUs.
    """
    world = World()
    world.budget()
    world.budgets = {name: replace(budget, fixed_rate=Rate(0.3 / 3600)) for name, budget in world.budgets.items()}
    price = f"{2.48 * gpus:.2f}"
    world.pool("whole", gpus=gpus, price=price, gpu_type=V100)
    world.pool("shared", gpus=gpus, price=price, gpu_type=V100, cut="mps-2")
    one, place = ThroughputTable(((1, 1.0),)), ThroughputTable(((1, average),))
    for name in sorted({own for own, _ in kept} | {"light", "heavy"}):
        made = world.profile(name, one, gpu_type=V100, work_hours=4, others=(SpeedCurve(PLACE, place),))
        pairs = [
            PairSpeed(PLACE, ClassId(NAMESPACE, beside), part, 20)
            for (own, beside), part in kept.items()
            if own == name
        ]
        world.profiles[made.id] = replace(made, pairs=tuple(pairs))
    return world


def come(world: World, *jobs: tuple[str, str], least: float = 0.5) -> None:
    """Jobs of a class come one after the other, and start. ``least``: what each is to keep."""
    for name, profile in jobs:
        made = world.job(name, gpus=1, profile=profile, shared_mib=1024)
        world.jobs[made.id] = replace(made, widths=replace(made.widths, least_kept=least))
        for _ in range(2):
            world.carry_out(plan(world.snapshot()))
            world.everything_starts()
