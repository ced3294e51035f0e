"""Nodes that are there anyway: given back without a cordon, an eviction or an end, and never before their pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from charterer.clouds.existing import ExistingNodes
from charterer.domain.job import RunOutcome, RunRecord
from charterer.domain.money import ZERO
from charterer.domain.pool import Instance
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Stop
from charterer.domain.steps import Forget, MarkEnded, RentalStep, Terminate, Wait
from charterer.lifecycle.adopted import steps_to_close
from charterer.lifecycle.rental import rental_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import (
    NAMED,
    TEAM,
    allocation,
    at,
    balance,
    budget,
    ended,
    instance,
    job,
    node,
    pod,
    pool,
    rental,
    run,
    snapshot,
    survey,
)

OWN = ExistingNodes((("gpus", "own"),), TEAM)
NODE = node("i1", provider_id="", run_labels={})
HERE = allocation("own-1")
TRAITS = replace(NAMED, lag_seconds=1.0, listed_seconds=0.0)
STOPPED = RunRecord(1, RunOutcome.STOPPED, HERE.option, HERE.placements, HERE.since, at(1), "")


def listed(**changes: Any) -> Instance:
    return instance("i1", provider_id="", segments=(), billing_minimum_seconds=0, **changes)


def own(phase: RentalPhase = RentalPhase.DRAINING, **changes: Any) -> Rental:
    fields: dict[str, Any] = {"cloud": OWN, "phase": phase, "released_because": "NodeLost", "released": at(100)}
    return rental("own-1", listed(), **(fields | changes))


def step(mine: Rental, *things: Any, **world: Any) -> RentalStep | Wait | None:
    view = LifecycleView.of(replace(snapshot(mine, pool(cloud=OWN), *things), **world))
    return rental_step(mine.id, replace(view, settled={mine.id: True}))


def test_one_that_drains_is_given_back_at_once_without_a_cordon_and_whatever_else_runs_there() -> None:
    busy = replace(NODE, foreign_gpus=4)
    found = step(own(), busy, survey(listed()))
    assert found == Terminate(own().id, pool().id, listed(), None)


def test_pods_of_jobs_are_waited_for_without_end_also_on_a_node_that_is_lost() -> None:
    lost = replace(NODE, ready=False, not_ready_since=at(0))
    mine = job(allocation=None, replaced=(HERE,), runs=(run(1, pod(node=NODE.name)),), last_run=1)
    found = step(own(), lost, mine, survey(listed()), now=at(1e6))
    assert isinstance(found, Wait)
    assert found.until is None
    assert "1 pod on its node" in found.reason


def test_one_that_ends_is_forgotten_while_its_node_stands() -> None:
    done = ended(listed(), at(500))
    found = step(own(), NODE, survey(done))
    assert isinstance(found, MarkEnded)
    gone = own(RentalPhase.ENDED, ended=at(500), cost=ZERO)
    paid = budget(balance=balance(folded=frozenset({gone.uid})))
    assert step(gone, NODE, paid, survey(asked=900, traits=TRAITS)) == Forget(gone.id)


def test_pods_and_the_node_are_left_to_whoever_they_belong_to() -> None:
    mine = job(allocation=None, runs=(run(1, pod(node=NODE.name)),), last_run=1, records=(STOPPED,))
    gone = own(RentalPhase.ENDED, ended=at(500), cost=ZERO)
    paid = budget(balance=balance(folded=frozenset({gone.uid})))
    assert step(gone, NODE, mine, paid, survey(asked=900, traits=TRAITS)) == Forget(gone.id)


def test_an_object_that_is_given_back_closes_none_of_them() -> None:
    mine = job(records=(STOPPED,), last_run=1)
    view = LifecycleView.of(snapshot(mine, own(), pool(cloud=OWN), NODE, survey(listed())))
    assert steps_to_close(mine, view) == ()


def test_while_all_nodes_are_ended_nobody_waits_for_a_cordon_of_them() -> None:
    view = LifecycleView.of(replace(snapshot(own(), pool(cloud=OWN), NODE, survey(listed())), stop=Stop.DRAIN))
    assert view.open_rental is None
