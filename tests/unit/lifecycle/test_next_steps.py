"""All steps of a snapshot at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from charterer.domain.budget import Costs, Mode
from charterer.domain.ids import StepKey, StepKind
from charterer.domain.job import Job
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node, Orphan
from charterer.domain.steps import CreateService, LabelNode, MarkReady, StopOrphan, Wait
from charterer.domain.time import Calendar
from charterer.lifecycle import next_steps
from tests.factory import (
    T0,
    allocation,
    at,
    balance,
    budget,
    instance,
    job,
    node,
    pod,
    rental,
    run,
    snapshot,
    survey,
    with_uses,
)


def test_every_object_has_at_most_one_step_or_wait_under_its_own_key() -> None:
    starting = replace(rental(machine=instance()), phase=RentalPhase.STARTING)
    seen = snapshot(
        starting,
        rental("a100-2"),
        survey(instance(), target=2),
        node(),
        job(allocation=allocation(), has_service=False),
    )
    steps, waits = next_steps(seen)
    assert isinstance(steps[StepKey(StepKind.RENTAL, "a100-1")], MarkReady)
    assert isinstance(steps[StepKey(StepKind.JOB, job().id)], CreateService)
    assert isinstance(waits[StepKey(StepKind.RENTAL, "a100-2")], Wait)
    assert not set(steps) & set(waits)
    assert {key.kind for key in {*steps, *waits}} <= {*StepKind} - {StepKind.BUDGET_GUARD, StepKind.NODE}


def test_a_run_whose_job_is_gone_is_stopped_once() -> None:
    left = Orphan(job().id, "research", budget().id, run(1, pod()))
    steps, _ = next_steps(replace(snapshot(), orphans=(left,)))
    assert steps == {StepKey(StepKind.JOB, left.run.uid): StopOrphan(left)}
    going = run(1, pod(deleting=True), deleting=True)
    for over in (replace(left.run, suspended=True), going, replace(left.run, complete=T0)):
        assert not next_steps(replace(snapshot(), orphans=(replace(left, run=over),)))[0]


def test_a_run_of_a_budget_that_only_observes_is_left_alone() -> None:
    left = Orphan(job().id, "research", budget().id, run(1, pod()))
    assert not next_steps(replace(snapshot(budget(mode=Mode.OBSERVE)), orphans=(left,)))[0]


def test_an_object_whose_step_cannot_be_found_stops_no_other() -> None:
    starting = replace(rental(machine=instance()), phase=RentalPhase.STARTING)
    nowhere = budget(balance=balance(), calendar=Calendar("Nowhere/Here"))
    steps, waits = next_steps(snapshot(starting, nowhere, survey(instance()), node()))
    assert isinstance(steps[StepKey(StepKind.RENTAL, "a100-1")], MarkReady)
    failed = waits[StepKey(StepKind.BUDGET, nowhere.id)]
    assert isinstance(failed.error, LookupError)
    assert "please report it" in failed.reason


class _Counted(dict[str, str]):
    """Labels of a node that count how often they are read."""

    reads = 0

    def __iter__(self) -> Iterator[str]:
        type(self).reads += 1
        return super().__iter__()


def test_work_grows_in_proportion_to_the_cluster() -> None:
    def reads(size: int) -> int:
        things: list[Rental | Node | Job] = []
        machines = []
        for index in range(size):
            machine = instance(f"i{index}")
            machines.append(machine)
            name = f"job-{index}"
            mine = job(name, id=f"{index:08d}-uid", allocation=allocation(f"a100-{index}"))
            pods = run(1, pod(job=name, node=machine.node, allocation=allocation().annotation), job=name)
            labels = _Counted({mine.run_label: "r1"})
            things += [
                rental(f"a100-{index}", machine),
                node(machine.id, run_labels=labels),
                replace(mine, runs=(pods,)),
            ]
        _Counted.reads = 0
        books = budget(balance=balance(costs=Costs(through=at(600))))
        steps, _ = next_steps(with_uses(snapshot(books, survey(*machines), *things)))
        assert not steps
        return _Counted.reads

    assert reads(200) == 2 * reads(100)


def test_labels_of_a_job_that_is_gone_are_taken_off() -> None:
    labelled = node(run_labels={job().run_label: "r1"})
    steps, _ = next_steps(snapshot(labelled))
    done = steps[StepKey(StepKind.NODE, labelled.name)]
    assert isinstance(done, LabelNode)
    assert (done.key, done.value) == (job().run_label, None)
    going = node(run_labels={job().run_label: "r1"}, cordoned_for="uid", unschedulable=True)
    assert StepKey(StepKind.NODE, going.name) not in next_steps(snapshot(going))[0]
