"""Curves of classes on GPU types that they never ran on, on measured V100, P100 and K80 (Gavel)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random

import pytest

from charterer.domain.ids import ClassId
from charterer.domain.profile import BatchTerms
from charterer.domain.time import Instant
from charterer.estimate.learner import Learner
from charterer.estimate.observation import Observation

DATA = Path(os.environ.get("CHARTERER_DATA_DIR") or Path(__file__).resolve().parents[4] / "shared" / "data")
pytestmark = pytest.mark.skipif(not (DATA / "gavel").is_dir(), reason=f"the measured data is not here: {DATA}")

TYPES = ("V100", "P100", "K80")
WIDTHS = (1, 2, 4)
BATCH = 1 << 10
"""Any one batch size: steps of a recipe are the same steps on every type."""

Found = tuple[float, bool]
"""log(predicted ÷ true speed), and whether the interval holds the truth."""


@cache
def speeds() -> Mapping[str, Mapping[str, Mapping[int, float]]]:
    """Steps a second by kind of job, type and GPUs; kinds that were measured on all types and on one GPU at least."""
    raw = json.loads((DATA / "gavel" / "simulation_throughputs.json").read_text())
    kinds = sorted({key.split("'")[1] for key in raw["v100"]})
    found: dict[str, dict[str, dict[int, float]]] = {}
    for kind in kinds:
        by_type = {
            gpu_type: {
                gpus: rate
                for gpus in WIDTHS
                if (rate := raw[gpu_type.lower()].get(str((kind, gpus)), {}).get("null", 0.0))
            }
            for gpu_type in TYPES
        }
        if all(1 in by_width for by_width in by_type.values()):
            found[kind] = by_type
    return found


def family(kind: str) -> str:
    return kind.split(" (")[0]


def report(known: Learner, kind: str, gpu_type: str) -> None:
    draw = Random(f"{kind}/{gpu_type}")
    for _ in range(20):
        for gpus, rate in speeds()[kind][gpu_type].items():
            seconds = math.exp(draw.gauss(0.0, 0.05)) / rate
            known.report(
                Observation(ClassId("team", kind), gpu_type, 1, gpus, BATCH, seconds, draw.random(), Instant(0))
            )


def predicted(kind: str, seen: str, other: str, others: tuple[str, ...]) -> Iterator[Found]:
    """A class that ran on ``seen``, on ``other``; the classes ``others`` ran on both."""
    terms = BatchTerms(BATCH, BATCH, BATCH)
    known = Learner({ClassId("team", name): terms for name in (kind, *others)}, dict.fromkeys(TYPES, 4))
    for name in others:
        for gpu_type in (seen, other):
            report(known, name, gpu_type)
        known.profile(ClassId("team", name), WIDTHS)
    report(known, kind, seen)
    learned = known.profile(ClassId("team", kind), WIDTHS, (seen, other))
    for gpus, rate in speeds()[kind][other].items():
        entry = learned.entry(0, gpus, other)
        yield math.log(entry.goodput / rate), entry.low <= rate <= entry.high


def every(others: int) -> list[Found]:
    """One kind of each family, all pairs of types; ``others``: how many kinds of other families ran on both."""
    kinds = {family(kind): kind for kind in speeds()}
    found: list[Found] = []
    for name, kind in kinds.items():
        helpers = tuple(other for of, other in kinds.items() if of != name)[:others]
        for seen in TYPES:
            for there in TYPES:
                if seen != there:
                    found += predicted(kind, seen, there, helpers)
    return found


@pytest.mark.parametrize(("others", "error"), [(0, 0.4), (5, 0.35)])
def test_the_interval_on_a_type_that_a_class_never_ran_on_holds_the_truth(others: int, error: float) -> None:
    """The intervals are 90 % ones; half of the predictions are nearer than ``error`` (in logarithms).

    Without data sheets it was 1.1 where no other class ran on both types."""
    found = every(others)
    assert sum(holds for _, holds in found) / len(found) >= 0.85
    assert sorted(abs(off) for off, _ in found)[len(found) // 2] < error
