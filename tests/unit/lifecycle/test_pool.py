"""The group's target follows the rentals that want a node, and every instance gets a rental."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.budget import Mode
from charterer.domain.errors import Problem
from charterer.domain.ids import InstanceId, PoolId
from charterer.domain.money import ZERO, Money
from charterer.domain.order import RefusalKind
from charterer.domain.pool import NO_LAUNCHES, InstanceState, NodeLifetimes, NodeStart
from charterer.domain.rental import VANISHED, Rental, RentalPhase
from charterer.domain.snapshot import Snapshot, Stop
from charterer.domain.steps import (
    Adopt,
    AskCloud,
    CloseUnfulfilled,
    Cool,
    CountLifetimes,
    MarkEnded,
    MarkMissing,
    PoolStep,
    RecordOffer,
    RecordOrphan,
    Reopen,
    Wait,
    Withdraw,
)
from charterer.domain.time import after
from charterer.estimate.waits import with_start
from charterer.lifecycle.pool import order_token, orphan_name, pool_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import (
    POOL,
    PRICE,
    at,
    budget,
    cooled,
    ended,
    instance,
    node,
    pod,
    pool,
    refusal,
    rental,
    run,
    snapshot,
    survey,
)
from tests.factory import job as a_job

ASKED = rental("a100-1")
LATER = rental("a100-2", created=at(5))
LEAVING = replace(ASKED, phase=RentalPhase.DRAINING, released_because="not needed")
COOLING = pool(cooled=cooled(at(700)))


def unfulfilled(rental: Rental, because: str) -> CloseUnfulfilled:
    return CloseUnfulfilled(replace(rental, phase=RentalPhase.ENDED, cost=ZERO, released_because=because))


def vanished(rental: Rental, cost: Money) -> MarkEnded:
    record = replace(rental, ended=rental.missing_since, cost=cost, released_because=VANISHED)
    return MarkEnded(replace(record, phase=RentalPhase.ENDED), estimated=True)


def step(snapshot: Snapshot) -> PoolStep | MarkMissing | MarkEnded | Wait | None:
    return pool_step(POOL, LifecycleView.of(snapshot))


def test_nothing_is_done_before_the_cloud_was_asked() -> None:
    assert isinstance(step(snapshot(ASKED)), Wait)


def test_the_target_is_raised_to_the_number_of_rentals_that_want_a_node() -> None:
    serving = rental("a100-0", instance())
    done = step(snapshot(survey(instance()), serving, ASKED, LATER))
    assert isinstance(done, AskCloud)
    assert done.ask.at_least == 3


def test_a_target_that_is_high_enough_is_left_and_waited_for() -> None:
    assert isinstance(step(snapshot(survey(target=1), ASKED)), Wait)
    assert step(snapshot(survey(instance()), rental("a100-0", instance()))) is None


def test_an_order_has_one_token_for_ever_and_another_rental_of_its_name_another() -> None:
    first, later = step(snapshot(survey(), ASKED)), step(snapshot(survey(asked=620), ASKED))
    again = step(snapshot(survey(), replace(ASKED, uid="made anew")))
    assert isinstance(first, AskCloud)
    assert isinstance(again, AskCloud)
    assert first == later
    assert [order.rental for order in first.ask.orders] == [order.rental for order in again.ask.orders] == [ASKED.id]
    assert first.ask.orders[0].token != again.ask.orders[0].token


def test_a_node_that_still_empties_counts_and_one_about_to_be_ended_does_not() -> None:
    emptying = rental("a100-0", instance(), phase=RentalPhase.DRAINING)
    busy = a_job(runs=(run(1, pod()),))
    cordoned = node(unschedulable=True)
    raised = step(snapshot(survey(instance()), emptying, ASKED, cordoned, busy))
    assert isinstance(raised, AskCloud)
    assert raised.ask.at_least == 2
    assert isinstance(step(snapshot(survey(instance()), emptying, ASKED, cordoned)), Wait)


def test_a_node_without_a_node_object_or_with_one_that_goes_is_about_to_be_ended() -> None:
    emptying = rental("a100-0", instance(), phase=RentalPhase.DRAINING)
    for nodes in [(), (node(deleting=True),)]:
        assert isinstance(step(snapshot(survey(instance()), emptying, ASKED, *nodes)), Wait)
    taking_pods = step(snapshot(survey(instance()), emptying, ASKED, node()))
    assert isinstance(taking_pods, AskCloud)
    assert taking_pods.ask.at_least == 2


def test_the_oldest_waiting_rental_adopts_the_oldest_instance() -> None:
    newer = instance("i2", launched=at(9))
    assert step(snapshot(survey(newer, instance()), LATER, ASKED)) == Adopt(ASKED.id, instance())


def test_instances_that_live_are_adopted_before_those_that_died() -> None:
    dead, alive = ended(instance(), at(9)), instance("i2", launched=at(20))
    assert step(snapshot(survey(dead, alive), ASKED)) == Adopt(ASKED.id, alive)


def test_an_instance_that_has_already_died_is_adopted_too_for_it_is_billed() -> None:
    dead = ended(instance(), at(9))
    assert step(snapshot(survey(dead), ASKED)) == Adopt(ASKED.id, dead)


def test_a_released_rental_takes_what_came_after_all_if_nobody_else_wants_it() -> None:
    assert step(snapshot(survey(instance()), LEAVING)) == Adopt(LEAVING.id, instance())
    assert step(snapshot(survey(instance()), LEAVING, LATER)) == Adopt(LATER.id, instance())


def test_a_leftover_instance_gets_a_rental_paid_by_who_rented_last() -> None:
    older = rental("a100-0", instance())
    newer = rental("a100-1", instance("i2"), created=at(9), budget="other")
    extra = instance("i3")
    seen = snapshot(survey(instance(), instance("i2"), extra), older, newer, budget(), budget(id="other"))
    done = step(seen)
    assert isinstance(done, RecordOrphan)
    assert (done.rental, done.budget, done.instance, done.worst) == ("a100-o-i3", "other", extra, PRICE)


def test_nobody_pays_by_a_budget_that_is_gone_and_the_worst_price_is_known_without_a_quote() -> None:
    orphaned = rental("a100-1", instance(), budget="gone")
    done = step(snapshot(survey(instance(), instance("i2")), orphaned, pool(quote=None)))
    assert isinstance(done, RecordOrphan)
    assert (done.budget, done.worst) == ("team", PRICE)


def test_a_leftover_instance_in_a_pool_without_rentals_is_paid_by_the_first_budget_that_enforces() -> None:
    budgets = [budget(id="a", mode=Mode.OBSERVE), budget(id="c"), budget(id="b")]
    done = step(snapshot(survey(instance()), *budgets))
    assert isinstance(done, RecordOrphan)
    assert done.budget == "b"
    assert isinstance(step(snapshot(survey(instance()), budgets[0])), Wait)


def test_only_its_own_rental_adopts_an_orphan() -> None:
    orphan = rental("a100-o-i1", instance=InstanceId("i1"), created=at(9))
    assert step(snapshot(survey(instance()), ASKED, orphan)) == Adopt(orphan.id, instance())


def test_an_instance_that_left_the_list_unread_is_paid_for_from_when_it_was_known() -> None:
    orphan = rental("a100-o-i1", instance=InstanceId("i1"))
    assert step(snapshot(survey(asked=560), orphan, now=at(560))) == MarkMissing(replace(orphan, missing_since=at(560)))
    missing = replace(orphan, missing_since=at(560))
    closed = step(snapshot(survey(asked=600), missing))
    assert closed == vanished(missing, orphan.worst.cost(560))
    late = replace(missing, created=at(559))
    assert step(snapshot(survey(asked=600), late)) == vanished(late, orphan.worst.cost(60))
    assert step(snapshot(survey(asked=4), orphan)) is None


def test_a_list_as_old_as_the_order_does_not_lack_its_instance_however_old_the_rental_is() -> None:
    named = rental("a100-1", instance=InstanceId("i1"), named=at(600))
    assert step(snapshot(survey(asked=604), named, now=at(604))) is None
    assert step(snapshot(survey(asked=606), named, now=at(606))) == MarkMissing(replace(named, missing_since=at(606)))


def test_nothing_is_recorded_of_a_pool_whose_object_is_gone() -> None:
    over = rental("a100-1", instance(), phase=RentalPhase.ENDED, ended=at(300), cost=PRICE.cost(300))
    left = pool(gone=True, deleting=True)
    assert isinstance(step(snapshot(survey(ended(instance(), at(300))), over)), CountLifetimes)
    assert step(snapshot(survey(ended(instance(), at(300)), target=0), over, left)) is None


def test_an_instance_of_an_ended_rental_is_not_adopted_again() -> None:
    over = rental("a100-0", instance(), phase=RentalPhase.ENDED, ended=at(9))
    counted = pool(lifetimes=NodeLifetimes(at=at(9), counted=(over.uid,)))
    assert isinstance(step(snapshot(counted, survey(ended(instance(), at(9)), target=1), over, ASKED)), Wait)


def test_a_failed_launch_cools_the_pool_then_lowers_the_target_then_closes_the_rental() -> None:
    failed = survey(target=1, refusals=(refusal(5),))
    done = step(snapshot(failed, ASKED))
    assert isinstance(done, Cool)
    assert (done.cool_down.kind, done.cool_down.until) == (RefusalKind.STOCK_OUT, at(900))
    assert step(snapshot(failed, ASKED, COOLING)) == Withdraw(POOL, (), 0)
    closed = step(snapshot(survey(target=0, refusals=(refusal(5),)), ASKED, COOLING))
    assert isinstance(closed, CloseUnfulfilled)
    assert "StockOut" in closed.after.released_because


def test_a_machine_launched_after_a_cool_down_ends_its_doubt_for_good() -> None:
    """Were it only while the machine is there, one that is given back would put the pool in doubt again."""
    doubtful = pool(cooled=cooled(at(500)), offer_recorded=True)
    (refused,) = doubtful.cooled
    came = rental("a100-0", instance(launched=after(refused.since, 1)), phase=RentalPhase.STARTING)
    seen = snapshot(doubtful, survey(instance()), came)
    assert step(seen) == Reopen(POOL, frozenset({refused.since}))
    assert step(replace(seen, pools={POOL: pool(cooled=(), offer_recorded=True)})) is None
    before = rental("a100-0", instance(launched=after(refused.since, -1)), phase=RentalPhase.STARTING)
    assert step(snapshot(doubtful, survey(instance()), before)) is None
    holds = pool(cooled=cooled(at(700)), offer_recorded=True)
    assert step(snapshot(holds, survey(instance()), came)) is None


def test_what_waits_in_a_pool_that_another_ones_refusal_reaches_is_closed_and_not_asked_for_again() -> None:
    (told,) = cooled(at(700), by=PoolId("other"))
    reached = pool(reached=told)
    assert step(snapshot(survey(target=1), ASKED, reached)) == Withdraw(POOL, (), 0)
    closed = step(snapshot(survey(target=0), ASKED, reached))
    assert isinstance(closed, CloseUnfulfilled)
    assert (
        closed.after.released_because == "GPUPool a100 asks for the same as GPUPool other, which was refused: StockOut"
    )


def test_what_was_launched_is_kept_when_the_rest_fails() -> None:
    serving = rental("a100-0", instance())
    failed = survey(instance(), target=2, refusals=(refusal(5),))
    assert step(snapshot(failed, serving, ASKED, COOLING)) == Withdraw(POOL, (), 1)


def test_a_call_that_the_cloud_refused_cools_a_pool_that_counts_like_any_other() -> None:
    refused = refusal(5, kind=RefusalKind.QUOTA_EXCEEDED, code="MaxSizeExceeded", order=order_token(ASKED.uid))
    done = step(snapshot(survey(refusals=(refused,)), ASKED, LATER))
    assert isinstance(done, Cool)
    assert done.cool_down.code == "MaxSizeExceeded"


def test_what_the_pool_has_no_room_for_any_more_is_given_up_latest_first_and_the_rest_is_asked_for() -> None:
    serving, latest = rental("a100-0", instance()), rental("a100-3", created=at(9))
    lowered = pool(max_nodes=2)
    closed = step(snapshot(lowered, survey(instance()), serving, ASKED, LATER, latest))
    assert closed == unfulfilled(LATER, "GPUPool a100 has or awaits all 2 nodes that spec.maxNodes allows")
    done = step(snapshot(lowered, survey(instance()), serving, ASKED))
    assert isinstance(done, AskCloud)
    assert done.ask.at_least == 2


def test_a_target_for_more_than_the_pool_may_have_now_is_lowered_to_what_fits() -> None:
    asked_for = survey(instance(), target=4)
    serving, latest = rental("a100-0", instance()), rental("a100-3", created=at(9))
    assert step(snapshot(pool(max_nodes=2), asked_for, serving, ASKED, LATER, latest)) == Withdraw(POOL, (), 2)


def test_a_failure_older_than_all_that_wait_is_not_theirs() -> None:
    assert isinstance(step(snapshot(survey(target=1, refusals=(refusal(-1),)), ASKED)), Wait)


def test_a_failure_that_was_made_good_is_forgotten() -> None:
    serving = rental("a100-0", instance())
    assert step(snapshot(survey(instance(), refusals=(refusal(5),)), serving)) is None


def test_a_rental_released_before_anything_came_lowers_the_target_and_is_closed() -> None:
    assert step(snapshot(survey(target=1), LEAVING)) == Withdraw(POOL, (), 0)
    assert step(snapshot(survey(target=0), LEAVING)) == unfulfilled(LEAVING, "not needed")
    unsaid = step(snapshot(survey(target=0), replace(LEAVING, released_because="")))
    assert isinstance(unsaid, CloseUnfulfilled)
    assert unsaid.after.released_because


def test_a_rental_deleted_by_a_person_is_released() -> None:
    assert step(snapshot(survey(target=1), replace(ASKED, deleting=True))) == Withdraw(POOL, (), 0)


def test_a_group_is_told_not_to_replace_an_instance_that_died() -> None:
    over = rental("a100-0", instance(), phase=RentalPhase.ENDED, ended=at(9))
    assert step(snapshot(survey(ended(instance(), at(9)), target=1), over)) == Withdraw(POOL, (), 0)


def test_an_instance_the_list_does_not_show_yet_still_counts() -> None:
    fresh = rental("a100-0", instance(launched=at(599)))
    assert step(snapshot(survey(target=1, asked=600), fresh)) is None


def test_a_machine_that_the_list_must_show_and_lacks_is_not_asked_for_a_second_time() -> None:
    """A cloud that drops what ended from its list, as Azure, has lowered its target with it."""
    evicted = rental("a100-0", instance(), missing_since=at(590))
    for first in (replace(evicted, missing_since=None), replace(evicted, missing_since=at(600))):
        assert isinstance(step(snapshot(survey(target=0, asked=600), first, ASKED)), Wait), "one list is not believed"
    done = step(snapshot(survey(target=0, asked=600), evicted, ASKED))
    assert isinstance(done, AskCloud)
    assert done.ask.at_least == 1
    hidden = step(snapshot(survey(target=1, asked=600), evicted, ASKED))
    assert isinstance(hidden, Wait), "it is asked for once the list shows the other again, or never will"


def test_a_stopping_instance_does_not_count() -> None:
    stopping = instance(state=InstanceState.STOPPING)
    assert step(snapshot(survey(stopping, target=0), rental("a100-0", stopping))) is None


def test_a_pool_being_deleted_closes_what_waits() -> None:
    assert isinstance(step(snapshot(survey(), ASKED, pool(deleting=True))), CloseUnfulfilled)


def test_a_stopped_operator_withdraws_what_did_not_come_and_closes_the_rental() -> None:
    asked = replace(snapshot(survey(target=1), ASKED), stop=Stop.RENT)
    assert step(asked) == Withdraw(POOL, (), 0)
    closed = step(replace(snapshot(survey(), ASKED), stop=Stop.RENT))
    assert closed == unfulfilled(ASKED, "a person has stopped the operator")
    came = replace(snapshot(survey(instance()), ASKED), stop=Stop.DRAIN)
    assert step(came) == Adopt(ASKED.id, instance())


def test_nothing_is_asked_for_before_nobody_can_delete_pool_and_budget_from_under_it() -> None:
    assert isinstance(step(snapshot(survey(), ASKED)), AskCloud)
    assert step(snapshot(survey(), ASKED, pool(guarded=False))) == Wait("the finalizer of GPUPool a100")
    assert step(snapshot(survey(), ASKED, budget(guarded=False))) == Wait("the finalizer of GPUBudget team")


def test_nothing_is_asked_for_a_budget_that_only_observes_but_what_came_is_adopted() -> None:
    watching = budget(mode=Mode.OBSERVE)
    assert step(snapshot(survey(), ASKED, watching)) is None
    assert step(snapshot(survey(instance()), ASKED, watching)) == Adopt(ASKED.id, instance())


def test_orphans_have_names_that_the_cluster_takes_and_that_never_meet() -> None:
    odd = [instance("i_1"), instance("I-1"), instance("i-1"), instance("/sub/x" * 80)]
    found = [orphan_name(POOL, "", item) for item in odd]
    assert len(set(found)) == 4
    assert found[2] == "a100-o-i-1"
    assert all(len(name) <= 253 and name.replace("-", "").isalnum() and name == name.lower() for name in found)


def test_an_orphan_has_one_name_for_all_pools_of_its_group_and_another_one_in_another_group() -> None:
    names = {orphan_name(PoolId(name), "group-1", instance("i1")) for name in ("a100", "renamed")}
    assert len(names) == 1
    assert orphan_name(POOL, "group-2", instance("i1")) not in names


def test_an_offer_that_is_not_on_record_is_recorded_once_nothing_else_is_to_be_done() -> None:
    changed = pool(offer_recorded=False)
    recorded = RecordOffer(POOL, changed.offering, changed.quote)
    assert step(snapshot(survey(), changed)) == recorded
    assert isinstance(step(snapshot(survey(), changed, ASKED)), AskCloud)
    assert step(snapshot(survey(target=1), changed, ASKED)) == recorded
    assert step(snapshot(survey(), pool())) is None


def test_how_a_node_started_is_recorded_once_and_not_of_a_machine_that_was_found() -> None:
    machine = instance(launched=at(10))
    ready = rental("a100-1", machine, created=at(0), phase=RentalPhase.READY, ready=at(130))
    told = step(snapshot(survey(machine), node("n-i1"), ready, pool(launches=NO_LAUNCHES)))
    assert isinstance(told, RecordOffer)
    assert told.starts == (NodeStart(at(0), at(10), at(130)),)
    counted = pool(launches=with_start(NO_LAUNCHES, told.starts[0]))
    assert step(snapshot(survey(machine), node("n-i1"), ready, counted)) is None
    found = replace(ready, created=at(120))
    assert step(snapshot(survey(machine), node("n-i1"), found, pool(launches=NO_LAUNCHES))) is None


def test_no_instance_is_adopted_while_a_rental_of_the_pool_cannot_be_read() -> None:
    """It may be that rental's machine, which would then be paid for twice."""
    unread = Problem("GPURental", "", "a100-7", "status.launchedAt", "InvalidStatus", "no time")
    for before in (snapshot(survey(instance())), snapshot(survey(instance()), ASKED)):
        assert isinstance(step(before), RecordOrphan | Adopt)
        waits = step(replace(before, problems=(unread,)))
        assert isinstance(waits, Wait)
        assert "GPURental a100-7 to be readable (status.launchedAt: no time)" in waits.reason
        elsewhere = replace(unread, name="h100-7")
        assert step(replace(before, problems=(elsewhere,))) == step(before)
