"""Whatever stands in statuses, others are planned for, no node of another budget is held, and no machine is lost.

``CHARTERER_FUZZ_WORLDS`` sets the number of worlds; a world that fails is named by its seed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable

import pytest

from charterer.api.models.base import dump
from charterer.controller.status.publisher import viewed_objects
from charterer.domain.plan import Allocate, Plan, Release, Rent
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import Adopt, CloseUnfulfilled, Forget, LabelNode, RecordOrphan, Terminate
from charterer.incremental import Memo
from charterer.lifecycle.next_steps import next_steps
from charterer.policy.set_aside import plan_around
from tests import lanes
from tests.property.forged_status import EVIL, HONEST, TwoTeams
from tests.property.schema_check import check

WORLDS = int(os.environ.get("CHARTERER_FUZZ_WORLDS", lanes.examples(320)))
PARTS = 4
FORGED = 4
"""Number of times that the statuses of one world are forged."""


def planned(snapshot: Snapshot) -> Plan:
    """The plan, which no object is set aside for, with the views that it gives."""
    made = plan_around(snapshot, Memo(), {})
    assert made.error is None, made.error
    assert not made.faults, [fault.error for fault in made.faults.values()]
    for viewed in viewed_objects(snapshot, made.plan, {}):
        check(viewed.kind.name, dump(viewed.make(snapshot)))
    return made.plan


def of_budget(plan: Plan, snapshot: Snapshot, budget: str) -> Counter[Hashable]:
    """What the plan does for a budget; nodes yet to be rented count by their pool."""
    done: Counter[Hashable] = Counter()
    for command in plan.commands:
        match command:
            case Rent() if command.budget == budget:
                done["rent", command.pool] += 1
            case Release() if snapshot.rentals[command.rental].budget == budget:
                done["release", command.rental] += 1
            case Allocate() if snapshot.jobs[command.job].budget == budget:
                done["allocate", command.job, command.allocation] += 1
    return done


def others_are_served_as_before(world: TwoTeams, plain: Counter[Hashable]) -> None:
    """What is forged of one budget's jobs changes nothing for the other, whose nodes it does not get either."""
    forged = world.look(world.forged(only_evil_jobs=True))
    plan = planned(forged)
    assert of_budget(plan, forged, HONEST) == plain
    paid_by_others = {name for name, rental in forged.rentals.items() if rental.budget == HONEST}
    for command in plan.commands:
        if isinstance(command, Allocate) and command.allocation is not None and forged.jobs[command.job].budget == EVIL:
            assert not {place.rental for place in command.allocation.placements} & paid_by_others
    steps, waits = next_steps(forged)
    assert not [wait.error for wait in waits.values() if wait.error is not None]
    nodes = {forged.rentals[name].node for name in paid_by_others}
    labels = [step for step in steps.values() if isinstance(step, LabelNode) and step.value is not None]
    assert not [step for step in labels if forged.jobs[step.job].budget == EVIL and step.node in nodes]


def no_machine_is_lost_or_taken_twice(world: TwoTeams) -> None:
    """Statuses of jobs, rentals and budgets are forged or garbled; all that cannot be read is there all the same."""
    forged = world.look(world.forged(only_evil_jobs=False))
    plan = planned(forged)
    there = set(world.world.rentals)
    rented = [command.rental for command in plan.commands if isinstance(command, Rent)]
    assert len(set(rented)) == len(rented)
    assert not set(rented) & there
    steps, waits = next_steps(forged)
    assert not [wait.error for wait in waits.values() if wait.error is not None]
    named = Counter(rental.instance for rental in forged.rentals.values())
    alive = {
        rental.instance
        for rental in world.world.rentals.values()
        if rental.instance is not None and rental.phase is not RentalPhase.ENDED
    }
    unread = {problem.name for problem in forged.problems if problem.kind == "GPURental"}
    theirs = {rental.instance for name, rental in world.world.rentals.items() if name in unread}
    for step in steps.values():
        match step:
            case Adopt() | RecordOrphan():
                assert step.instance.id not in theirs, "taken from a rental that cannot be read"
                own = isinstance(step, Adopt) and forged.rentals[step.rental].instance == step.instance.id
                assert named[step.instance.id] == (1 if own else 0), "taken from another rental"
            case Forget() | CloseUnfulfilled():
                instance = forged.rentals[step.rental].instance
                assert instance not in alive or named[instance] > 1, "a machine that lives is forgotten"
            case Terminate():
                rental = forged.rentals[step.rental]
                assert rental.phase in (RentalPhase.DRAINING, RentalPhase.ENDED) or rental.deleting


@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_stands_in_statuses_others_are_served_as_before_and_no_machine_is_lost(part: int) -> None:
    for seed in range(part, WORLDS // FORGED, PARTS):
        try:
            world = TwoTeams(seed)
            before = world.look(world.stored)
            assert not [job.doubts for job in before.jobs.values() if job.doubts], "an honest allocation is doubted"
            plain = of_budget(planned(before), before, HONEST)
            for _ in range(FORGED // 2):
                others_are_served_as_before(world, plain)
                no_machine_is_lost_or_taken_twice(world)
        except Exception as error:
            error.add_note(f"TwoTeams({seed})")
            raise
