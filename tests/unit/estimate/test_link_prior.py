"""Synchronisation from the number of parameters, once another class has shown the link."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from charterer.domain.ids import ClassId
from charterer.domain.profile import ModelFacts
from charterer.estimate.fitting import fit
from charterer.estimate.learner import Learner
from charterer.estimate.observation import split
from charterer.estimate.priors import BASE, MeasuredLink, Told, sync_priors
from charterer.estimate.throughput import LinearPrior, Misfit, Unknown
from tests.unit.estimate.trainers import NODE_GPUS, UNKNOWNS, Trainer, shape

OTHER = Trainer("other")
"""Its synchronisation takes 0.25 s between nodes."""
SMALL = replace(
    OTHER,
    name="small",
    unknowns=tuple(value - (math.log(10.0) if at == Unknown.NODE_SYNC else 0.0) for at, value in enumerate(UNKNOWNS)),
)
"""A tenth of that."""


def known(parameters: float | None) -> Learner:
    """A learner to which ``other`` reported from all widths, and ``small`` from one GPU."""
    learner = Learner({each.class_id: each.terms for each in (OTHER, SMALL)}, {"A": NODE_GPUS})
    learner.describe(OTHER.class_id, ModelFacts(parameters=1e8))
    if parameters is not None:
        learner.describe(SMALL.class_id, ModelFacts(parameters=parameters))
    for report in OTHER.reports((1, 2, 4, 8, 16), 200):
        learner.report(report)
    learner.step_times(OTHER.class_id, "A")
    for report in SMALL.reports((1,), 40):
        learner.report(report)
    return learner


def error_on_two_nodes(parameters: float | None) -> float:
    """Log of predicted seconds over the true ones, at the smallest batch, where synchronising counts most."""
    where = split(SMALL.terms, shape(8), SMALL.own)
    found = known(parameters).step_times(SMALL.class_id, "A").predict(where)
    return found.mean - math.log(SMALL.seconds(8, SMALL.own))


def test_a_smaller_model_synchronises_sooner_before_it_ran_on_two_nodes() -> None:
    assert abs(error_on_two_nodes(1e7)) < 0.25
    assert error_on_two_nodes(None) > 0.5


def test_what_is_measured_outweighs_the_number_of_parameters() -> None:
    learner = known(1e9)
    for report in SMALL.reports((1, 8), 60, seed=1):
        learner.report(report)
    where = split(SMALL.terms, shape(8), SMALL.own)
    found = learner.step_times(SMALL.class_id, "A").predict(where)
    assert found.mean == pytest.approx(math.log(SMALL.seconds(8, SMALL.own)), abs=0.1)


def test_a_link_that_nobody_used_says_nothing() -> None:
    learner = Learner({OTHER.class_id: OTHER.terms}, {"A": NODE_GPUS})
    for report in OTHER.reports((1,), 40):
        learner.report(report)
    link = MeasuredLink.of(1e8, learner.step_times(OTHER.class_id, "A"))
    assert sync_priors(1e7, BASE, Told([link], [])) == {}
    assert sync_priors(None, BASE, Told([link], [])) == {}
    assert sync_priors(1e7, BASE, Told([], [])) == {}


def test_seconds_of_synchronising_hold_whatever_computing_takes() -> None:
    """The prior is of both unknowns together: computing that turns out slower leaves the seconds where they were."""
    sums = {Unknown.NODE_SYNC: LinearPrior({Unknown.NODE_SYNC: 1.0, Unknown.COMPUTE: 1.0}, (math.log(0.2), 0.01))}
    empty = fit({}, 128, BASE, Misfit(), 1.0, sums=sums)
    assert empty.unknowns[Unknown.NODE_SYNC] + empty.unknowns[Unknown.COMPUTE] == pytest.approx(math.log(0.2))
    slow = Trainer(unknowns=(math.log(5.0), *UNKNOWNS[1:]))
    learner = Learner({ClassId("team", "resnet"): slow.terms}, {"A": NODE_GPUS})
    for report in slow.reports((1,), 40):
        learner.report(report)
    cells = learner.state(slow.class_id).times["A"].cells
    found = fit(cells, slow.local, BASE, Misfit(), 0.0025, sums=sums)
    assert found.unknowns[Unknown.COMPUTE] == pytest.approx(math.log(5.0), abs=0.1)
    assert found.unknowns[Unknown.NODE_SYNC] + found.unknowns[Unknown.COMPUTE] == pytest.approx(math.log(0.2), abs=1e-3)
    assert found.informed[Unknown.NODE_SYNC] == pytest.approx(0.0, abs=1e-6)


def test_what_a_class_is_off_on_one_node_it_is_expected_to_be_off_on_several() -> None:
    """Both links are known from another class; this one turns out ten times as fast on the node."""
    local, node = Unknown.LOCAL_SYNC, Unknown.NODE_SYNC
    link = MeasuredLink({local: (math.log(1e-9), 1e-4), node: (math.log(1e-8), 1e-4)})
    sums = sync_priors(1e8, BASE, Told([link, link, link, link], []))
    before = fit({}, 128, BASE, Misfit(), 1.0, sums=sums)
    fast = Trainer(
        unknowns=tuple(
            value + (math.log(0.1 * 0.1 / 0.05) if at == local else 0.0) for at, value in enumerate(UNKNOWNS)
        )
    )
    learner = Learner({fast.class_id: fast.terms}, {"A": NODE_GPUS})
    for report in fast.reports((1, 2, 4), 200):
        learner.report(report)
    cells = learner.state(fast.class_id).times["A"].cells
    after = fit(cells, fast.local, BASE, Misfit(), 0.0025, sums=sums)
    compute = Unknown.COMPUTE
    moved = [
        after.unknowns[sync] + after.unknowns[compute] - before.unknowns[sync] - before.unknowns[compute]
        for sync in (local, node)
    ]
    assert abs(moved[0]) > 0.1
    assert moved[1] == pytest.approx(moved[0], rel=0.35)
