"""From an adopted instance to a ready node, to an emptied and ended one, to a folded cost, to nothing."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.budget import FOLDED_KEPT, Mode
from charterer.domain.ids import BudgetId, NodeName
from charterer.domain.job import RunOutcome, RunRecord
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.pod import PodPhase
from charterer.domain.pool import InstanceState, Partition, PriceSegment
from charterer.domain.rental import INSTANCE_ENDED, SEGMENTS_KEPT, VANISHED, Rental, RentalPhase
from charterer.domain.snapshot import Snapshot, Stop
from charterer.domain.steps import (
    Cordon,
    DeleteNode,
    DeletePod,
    FailPod,
    Fold,
    Forget,
    MarkDraining,
    MarkEnded,
    MarkMissing,
    MarkReady,
    Refresh,
    RentalStep,
    Terminate,
    Wait,
)
from charterer.domain.time import after
from charterer.lifecycle.pool import pool_step
from charterer.lifecycle.rental import fold, rental_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import (
    APRIL,
    LISTED,
    MARCH,
    POOL,
    PRICE,
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
    with_uses,
)

MACHINE = instance()
STARTING = rental(machine=MACHINE, phase=RentalPhase.STARTING)
READY = rental(machine=MACHINE)
DRAINING = rental(machine=MACHINE, phase=RentalPhase.DRAINING)
DEAD = ended(MACHINE, at(300))
OVER = rental(machine=MACHINE, phase=RentalPhase.ENDED, ended=at(300), cost=PRICE.cost(300))
FOLDED = budget(balance=balance(folded=frozenset({OVER.uid})))
CORDONED = node(unschedulable=True)
SEEN = survey(MACHINE)
LONG_AFTER = survey(asked=300 + LISTED + 5, target=0)


def ready_on(node: str) -> MarkReady:
    return MarkReady(replace(STARTING, phase=RentalPhase.READY, node=NodeName(node), ready=at(600)))


def ended_at(seconds: float, cost: Money, rental: Rental, because: str = INSTANCE_ENDED) -> MarkEnded:
    over = replace(rental, phase=RentalPhase.ENDED, ended=at(seconds), cost=cost, released_because=because)
    return MarkEnded(over, estimated=because == VANISHED)


def step(snapshot: Snapshot, rental: Rental = READY) -> RentalStep | Wait | None:
    return rental_step(rental.id, LifecycleView.of(with_uses(snapshot)))


def entry(snapshot: Snapshot, rental: Rental = OVER) -> Fold | Wait | None:
    """What adds the rental's cost to its budget's balance; the rental waits for that, or as it says."""
    view, waits = LifecycleView.of(snapshot), step(snapshot, rental)
    found = fold(view.snapshot.rentals[rental.id], view)
    assert isinstance(waits, Wait)
    assert waits == found or (isinstance(found, Fold) and "to add its cost" in waits.reason)
    return found


def past(number: int = 1) -> RunRecord:
    intent = allocation(run=number)
    return RunRecord(number, RunOutcome.STOPPED, intent.option, intent.placements, at(0), at(1), "")


def test_a_rental_without_an_instance_is_the_pools_to_move() -> None:
    assert isinstance(step(snapshot(rental(), survey())), Wait)


def test_a_rental_is_ready_when_its_node_is() -> None:
    assert isinstance(step(snapshot(STARTING, SEEN)), Wait)
    assert isinstance(step(snapshot(STARTING, SEEN, node(ready=False))), Wait)
    assert step(snapshot(STARTING, SEEN, node())) == ready_on("n-i1")
    assert step(snapshot(READY, SEEN, node())) is None


def test_a_node_that_is_ready_before_its_device_plugin_is_waited_for() -> None:
    waited = step(snapshot(STARTING, SEEN, node(gpus=0)))
    assert isinstance(waited, Wait)
    assert "device plugin" in str(waited)


def test_a_node_whose_gpus_are_not_cut_yet_is_waited_for() -> None:
    cut = pool(partition=Partition("1g.5gb"))
    waited = step(snapshot(cut, STARTING, SEEN, node(gpus=4)))
    assert isinstance(waited, Wait)
    assert "nvidia.com/mig-1g.5gb" in str(waited)
    there = node(gpus=0, others={"nvidia.com/mig-1g.5gb": 28})
    assert step(snapshot(cut, STARTING, SEEN, there)) == ready_on(there.name)


def test_a_node_is_found_by_provider_id_whatever_its_name() -> None:
    other = replace(node(), name=NodeName("ip-10-0-0-7"))
    assert step(snapshot(STARTING, SEEN, other)) == ready_on("ip-10-0-0-7")


def test_a_node_of_the_same_name_on_another_machine_is_not_its_own() -> None:
    assert isinstance(step(snapshot(STARTING, SEEN, node(provider_id="fake://i9"))), Wait)


def test_a_new_price_is_recorded_and_a_list_that_lags_takes_nothing_back() -> None:
    dearer = replace(MACHINE, segments=(*MACHINE.segments, PriceSegment(at(60), Price.parse("40"))))
    assert step(snapshot(READY, survey(dearer), node())) == Refresh(READY.as_listed(dearer))
    knows = replace(READY, segments=dearer.segments)
    assert step(snapshot(knows, SEEN, node())) is None
    corrected = replace(MACHINE, segments=(PriceSegment(at(0), Price.parse("40")),))
    assert step(snapshot(READY, survey(corrected), node())) == Refresh(READY.as_listed(corrected))


def test_a_machine_with_more_prices_than_a_record_takes_is_ended_all_the_same() -> None:
    changes = tuple(PriceSegment(at(number / 100), Price(number)) for number in range(SEGMENTS_KEPT + 1))
    full = replace(DRAINING, segments=changes[:-1])
    assert isinstance(step(snapshot(full, survey(replace(MACHINE, segments=changes)), CORDONED)), Terminate)


def test_a_machine_is_ended_whether_or_not_what_the_cloud_says_of_it_can_be_recorded() -> None:
    dearer = replace(MACHINE, segments=(*MACHINE.segments, PriceSegment(at(60), Price.parse("40"))))
    listed = survey(dearer)
    assert isinstance(step(snapshot(DRAINING, listed, node())), Cordon)
    assert isinstance(step(snapshot(DRAINING, listed, CORDONED)), Terminate)
    busy = job(runs=(run(1, pod()),))
    assert step(snapshot(DRAINING, listed, CORDONED, busy)) == Refresh(DRAINING.as_listed(dearer))
    stopping = replace(dearer, state=InstanceState.STOPPING)
    assert step(snapshot(DRAINING, survey(stopping), CORDONED)) == Refresh(DRAINING.as_listed(stopping))
    unknown = replace(DRAINING, node=None, provider_id="")
    assert isinstance(step(snapshot(unknown, SEEN, CORDONED)), Refresh)


def test_a_machine_that_was_stopped_and_started_again_costs_from_its_first_launch() -> None:
    assert step(snapshot(READY, survey(replace(MACHINE, launched=at(200))), node())) is None
    done = step(snapshot(READY, survey(replace(DEAD, launched=at(200))), node()))
    assert done == ended_at(300, PRICE.cost(300), READY)


def test_a_node_name_told_later_is_recorded_once() -> None:
    nameless = replace(READY, node=None)
    assert step(snapshot(nameless, SEEN, node())) == Refresh(READY)
    assert step(snapshot(replace(READY, node=NodeName("other")), SEEN, node())) is None


def test_a_provider_id_told_later_is_recorded_and_never_taken_back() -> None:
    assert step(snapshot(replace(READY, provider_id=""), SEEN, node())) == Refresh(READY)
    assert step(snapshot(READY, survey(replace(MACHINE, provider_id="")), node())) is None


def test_draining_cordons_then_waits_for_pods_then_terminates_that_instance() -> None:
    busy = job(runs=(run(1, pod()),))
    cordon = Cordon(DRAINING.id, NodeName("n-i1"), "node-uid-i1", DRAINING.uid)
    assert step(snapshot(DRAINING, SEEN, node(), busy)) == cordon
    assert isinstance(step(snapshot(DRAINING, SEEN, CORDONED, busy)), Wait)
    done = step(snapshot(DRAINING, SEEN, CORDONED))
    assert done == Terminate(DRAINING.id, POOL, MACHINE, NodeName("n-i1"), at(600), at(1200))


def test_a_finished_pod_holds_its_machine_until_its_run_is_recorded() -> None:
    proof = run(1, pod(phase=PodPhase.SUCCEEDED))
    assert isinstance(step(snapshot(DRAINING, SEEN, CORDONED, job(runs=(proof,)))), Wait)
    recorded = job(runs=(proof,), records=(past(),))
    assert isinstance(step(snapshot(DRAINING, SEEN, CORDONED, recorded)), Terminate)


def test_a_machine_is_ended_after_the_stop_of_its_last_run_is_on_record() -> None:
    left = job(replaced=(allocation(DRAINING.id),))
    waits = step(snapshot(DRAINING, SEEN, CORDONED, left))
    assert waits == Wait("the end of sft-r1 to be on record", until=at(1230))
    assert isinstance(step(snapshot(DRAINING, SEEN, CORDONED, replace(left, records=(past(),)))), Terminate)
    assert isinstance(step(snapshot(DRAINING, SEEN, CORDONED, replace(left, deleting=True))), Terminate)
    kept = replace(left, runs=(run(1, deleting=True, suspended=True),))
    assert step(snapshot(DRAINING, SEEN, CORDONED, kept)) == waits
    done = replace(left, runs=(run(1, pod(phase=PodPhase.SUCCEEDED)),), deleting=True)
    assert isinstance(step(snapshot(DRAINING, SEEN, CORDONED, done)), Terminate)
    watching = budget(id=BudgetId("others"), mode=Mode.OBSERVE)
    assert isinstance(step(snapshot(DRAINING, SEEN, CORDONED, replace(left, budget=watching.id), watching)), Terminate)


def test_a_machine_without_a_node_is_ended_without_waiting_for_one() -> None:
    booting = replace(MACHINE, state=InstanceState.PENDING)
    never = replace(DRAINING, ready=None)
    assert step(snapshot(never, survey(booting))) == Terminate(DRAINING.id, POOL, booting, None, at(600), at(1200))


def test_a_lost_node_holds_nothing_that_could_be_waited_for() -> None:
    silent = node(unschedulable=True, ready=False, not_ready_since=at(500))
    busy = job(runs=(run(1, pod()),))
    assert isinstance(step(snapshot(DRAINING, SEEN, silent, busy)), Terminate)


def test_a_rental_deleted_by_a_person_is_drained() -> None:
    deleted = replace(READY, deleting=True, phase=RentalPhase.DRAINING)
    assert isinstance(step(snapshot(deleted, SEEN, node())), Cordon)


def test_a_rental_is_ended_once_only() -> None:
    assert isinstance(step(snapshot(DRAINING, survey(replace(MACHINE, state=InstanceState.STOPPING)), CORDONED)), Wait)


def test_the_clouds_end_makes_the_cost_final_in_any_phase() -> None:
    for given in (STARTING, READY, DRAINING):
        done = step(snapshot(given, survey(DEAD), node()))
        assert done == ended_at(300, PRICE.cost(300), given)


def test_the_last_price_is_recorded_before_the_end() -> None:
    dearer = replace(DEAD, segments=(*DEAD.segments, PriceSegment(at(60), Price.parse("40"))))
    assert isinstance(step(snapshot(READY, survey(dearer), node())), Refresh)


def test_an_instance_that_two_lists_lack_ended_at_the_latest_when_the_first_was_asked_for() -> None:
    assert step(snapshot(READY, survey(asked=9000))) == MarkMissing(replace(READY, missing_since=at(9000)))
    lacking = replace(READY, missing_since=at(9000))
    assert step(snapshot(lacking, survey(asked=9020))) is None
    done = step(snapshot(lacking, survey(asked=9040)))
    assert done == ended_at(9000, PRICE.cost(9000), lacking, because=VANISHED)


def test_an_instance_that_one_list_lacked_and_the_next_one_has_did_not_end() -> None:
    lacking = replace(READY, missing_since=at(500))
    assert step(snapshot(lacking, SEEN, node())) == MarkMissing(READY)


def test_a_list_that_is_empty_once_ends_nothing_and_lowers_no_target() -> None:
    rentals = [rental(f"a100-{number}", instance(f"i{number}")) for number in range(4)]
    view = LifecycleView.of(snapshot(*rentals, survey(asked=9000, target=4)))
    missing = [MarkMissing(replace(one, missing_since=at(9000))) for one in rentals]
    assert [rental_step(one.id, view) for one in rentals] == missing
    assert pool_step(POOL, view) is None


def test_a_rental_whose_object_is_deleted_shows_that_it_is_to_be_ended() -> None:
    assert step(snapshot(replace(READY, deleting=True), SEEN, node())) == MarkDraining(READY.id, "Deleted")


def test_a_drained_operator_ends_every_rental_also_those_of_budgets_that_only_observe() -> None:
    seen = snapshot(READY, SEEN, node(), budget(mode=Mode.OBSERVE))
    assert step(replace(seen, stop=Stop.RENT)) is None
    assert step(replace(seen, stop=Stop.DRAIN)) == MarkDraining(READY.id, "Stopped")
    leaving = replace(READY, phase=RentalPhase.DRAINING)
    drained = replace(snapshot(leaving, SEEN, node(), budget(mode=Mode.OBSERVE)), stop=Stop.DRAIN)
    assert isinstance(step(drained), Cordon)
    assert step(replace(drained, stop=None)) is None


def test_an_instance_that_the_list_cannot_show_yet_has_not_vanished() -> None:
    young = rental(machine=instance(launched=at(597)))
    assert step(snapshot(young, survey(asked=600)), young) is None


def test_pods_of_a_machine_that_is_gone_are_failed_then_deleted_then_its_node_is() -> None:
    hanging = job(runs=(run(1, pod(allocation="x")),))
    assert step(snapshot(OVER, survey(DEAD), node(), hanging)) == FailPod("research", hanging.runs[0].pods[0])
    failed = pod(phase=PodPhase.FAILED, disrupted=True)
    cleared = job(runs=(run(1, failed),))
    assert step(snapshot(OVER, survey(DEAD), node(), cleared)) == DeletePod("research", failed)
    assert step(snapshot(OVER, survey(DEAD), node())) == DeleteNode(OVER.id, NodeName("n-i1"), "node-uid-i1")


def test_pods_are_failed_also_where_the_node_object_went_first() -> None:
    hanging = job(runs=(run(1, pod()),))
    assert isinstance(step(snapshot(OVER, survey(DEAD), hanging)), FailPod)


def test_pods_of_a_new_machine_under_the_old_name_are_left_alone() -> None:
    running = job(runs=(run(1, pod()),))
    assert isinstance(entry(snapshot(OVER, survey(DEAD), node(provider_id="fake://i9"), running)), Fold)


def test_a_succeeded_pod_is_kept_with_its_node_until_its_run_is_recorded() -> None:
    proof = run(1, pod(phase=PodPhase.SUCCEEDED))
    assert isinstance(entry(snapshot(OVER, survey(DEAD), node(), job(runs=(proof,)))), Fold)
    waiting = step(snapshot(OVER, survey(DEAD), node(), FOLDED, job(runs=(proof,))))
    assert isinstance(waiting, Wait)
    assert "sft-r1" in waiting.reason
    recorded = job(runs=(proof,), records=(past(),))
    assert isinstance(step(snapshot(OVER, survey(DEAD), node(), recorded)), DeleteNode)


def test_a_pod_that_would_keep_its_name_until_its_kubelet_answers_is_deleted_and_one_that_has_ended_is_not() -> None:
    """Kubernetes collects the latter once its Node is gone."""
    going = run(1, pod(phase=PodPhase.FAILED, deleting=True))
    recorded = job(runs=(going,), records=(past(),))
    assert isinstance(step(snapshot(OVER, survey(DEAD), node(), recorded)), DeletePod)
    over = job(runs=(run(1, pod(phase=PodPhase.FAILED)),), records=(past(),))
    assert isinstance(step(snapshot(OVER, survey(DEAD), node(), over)), DeleteNode)


def test_a_ledger_that_is_full_takes_no_further_rental_until_others_are_gone() -> None:
    books = budget(balance=balance(folded=frozenset(f"uid-{number}" for number in range(FOLDED_KEPT))))
    waiting = step(snapshot(OVER, survey(DEAD), books))
    assert isinstance(waiting, Wait)
    assert "has counted" in waiting.reason


def test_the_final_cost_is_folded_with_the_part_that_fell_in_the_period() -> None:
    early = instance(launched=after(MARCH, -3600))
    over = rental(machine=early, phase=RentalPhase.ENDED, ended=after(MARCH, 1800), cost=PRICE.cost(5400))
    done = entry(snapshot(over, survey(ended(early, after(MARCH, 1800)))), over)
    assert done == Fold(over.id, over.uid, over.budget, PRICE.cost(1800), PRICE.cost(5400), MARCH)


def test_a_rental_that_got_nothing_is_folded_with_nothing_and_forgotten() -> None:
    nothing = rental(phase=RentalPhase.ENDED, cost=ZERO)
    done = entry(snapshot(nothing, survey()), nothing)
    assert isinstance(done, Fold)
    assert (done.in_period, done.whole) == (ZERO, ZERO)
    assert step(snapshot(nothing, survey(), FOLDED)) == Forget(nothing.id)


def test_a_rental_of_the_budget_itself_is_folded_whatever_the_clouds_clock_says_of_its_end() -> None:
    deleted = replace(OVER, deleting=True, created=at(3700))
    ahead = budget(balance=balance(), created=at(3600))
    assert isinstance(entry(snapshot(deleted, LONG_AFTER, ahead)), Fold)
    assert step(snapshot(replace(deleted, created=at(0)), LONG_AFTER, ahead)) == Forget(OVER.id)


def test_what_ended_after_the_period_waits_for_the_next_one() -> None:
    late = replace(OVER, ended=after(APRIL, 5))
    waiting = step(snapshot(late, survey(), now=after(APRIL, 6)))
    assert isinstance(waiting, Wait)
    assert waiting.until == APRIL
    opened = budget(balance=balance(period_start=APRIL))
    assert isinstance(entry(snapshot(late, survey(), opened, now=after(APRIL, 6))), Fold)


def test_a_cost_without_a_budget_is_kept() -> None:
    assert isinstance(step(snapshot(OVER, survey(DEAD), budget(id="other"))), Wait)
    assert isinstance(step(snapshot(OVER, survey(DEAD), budget(balance=None))), Wait)


def test_a_rental_is_forgotten_only_when_no_list_can_show_its_instance_again() -> None:
    assert isinstance(step(snapshot(OVER, FOLDED)), Wait)
    assert isinstance(step(snapshot(OVER, FOLDED, survey(DEAD))), Wait)
    assert isinstance(step(snapshot(OVER, FOLDED, survey(asked=300 + LISTED))), Wait)
    assert step(snapshot(OVER, FOLDED, LONG_AFTER)) == Forget(OVER.id)


def test_a_rental_is_not_forgotten_while_its_node_is_going() -> None:
    assert isinstance(step(snapshot(OVER, FOLDED, LONG_AFTER, node(deleting=True))), Wait)


def test_an_instance_that_comes_back_after_its_end_is_ended_again() -> None:
    assert isinstance(step(snapshot(OVER, survey(MACHINE, asked=301))), Wait)
    assert step(snapshot(OVER, survey(MACHINE, asked=306))) == Terminate(OVER.id, POOL, MACHINE, None)


def test_a_budget_that_only_observes_changes_nothing_but_keeps_its_books() -> None:
    watching = budget(mode=Mode.OBSERVE)
    assert step(snapshot(DRAINING, SEEN, node(), watching)) is None
    assert isinstance(step(snapshot(READY, survey(DEAD), node(), watching)), MarkEnded)
    hanging = job(runs=(run(1, pod()),))
    assert isinstance(entry(snapshot(OVER, survey(DEAD), node(), hanging, watching)), Fold)
