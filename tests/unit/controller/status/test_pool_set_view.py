"""What a GPUPoolSet shows: how many pools it has, which are not as declared, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from charterer.api.models.base import ConditionStatus
from charterer.api.models.gpupool import PoolState
from charterer.api.models.gpupoolset import GPUPoolSetStatus
from charterer.cluster.events import Recorder
from charterer.controller.outcome import ActionOutcome
from charterer.controller.status.events import Events, transitions
from charterer.controller.status.publisher import FailedPoolSteps, pool_set_view, viewed_pool_sets
from charterer.domain.ids import PoolId, PoolSetId
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.pool_set import DeclaredPool, PoolSet
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import CreatePool, DeletePool, EditPool
from tests import factory as make
from tests.unit.controller.status.test_events import Heard

SET, A, B = PoolSetId("gpu"), PoolId("gpu-a"), PoolId("gpu-b")


def own(name: PoolId, **changes: object) -> Pool:
    """A pool of the set."""
    return make.pool(**{"id": name, "uid": f"uid-{name}", "set_uid": "uid-gpu", **changes})


def a_set(*pools: Pool) -> PoolSet:
    declared = {pool.id: DeclaredPool.of(pool) for pool in pools}
    return PoolSet(SET, "uid-gpu", 3, make.T0, deleting=False, pools=declared)


def seen(pool_set: PoolSet, *pools: Pool) -> Snapshot:
    there = {pool.id: pool for pool in pools}
    return replace(make.snapshot(*pools), pool_sets={SET: pool_set}, declared_pools=there)


def view(
    snapshot: Snapshot, failed: FailedPoolSteps | None = None, states: Mapping[PoolId, PoolState] | None = None
) -> GPUPoolSetStatus:
    return pool_set_view(snapshot.pool_sets[SET], failed or FailedPoolSteps(), states or {}, snapshot)


def said(shown: GPUPoolSetStatus) -> tuple[str, str, str, str]:
    (ready,) = shown.conditions
    assert ready.observed_generation == 3
    return str(shown.state), ready.status, ready.reason, ready.message


def test_a_set_whose_pools_are_as_declared_is_ready_and_counts_them() -> None:
    pools = own(A), own(B)
    rented = [make.rental(id=f"gpu-a-{n}", pool=A, phase=phase) for n, phase in enumerate(RentalPhase)]
    snapshot = seen(a_set(*pools), *pools)
    snapshot = replace(snapshot, rentals={rental.id: rental for rental in rented})
    shown = view(snapshot, states={A: PoolState.FULL, B: PoolState.COOLING})
    assert said(shown) == ("Ready", "True", "AsDeclared", "2 GPUPools are as declared")
    assert (shown.pools, shown.ready_pools, shown.nodes) == (2, 1, len(RentalPhase) - 1)


def test_while_pools_are_made_nothing_is_wrong() -> None:
    shown = view(seen(a_set(own(A), own(B)), own(A)))
    assert said(shown) == ("Changing", "Unknown", "Changing", "1 GPUPool is being created, changed or deleted")
    after = shown.model_dump(mode="json", by_alias=True)
    assert list(transitions({}, after)) == []


def test_a_name_that_is_taken_is_told_with_who_has_it() -> None:
    state, status, reason, message = said(view(seen(a_set(own(A)), own(A, set_uid=""))))
    assert (state, status, reason) == ("Incomplete", ConditionStatus.FALSE, "NameTaken")
    assert message.startswith("GPUPool gpu-a: is there and is not this set's, so it is left alone: delete it")
    other = PoolSet(PoolSetId("g"), "uid-g", 1, make.T0, deleting=False, pools={A: DeclaredPool.of(own(A))})
    snapshot = seen(a_set(own(A)), own(A, set_uid="uid-g"))
    snapshot = replace(snapshot, pool_sets={**snapshot.pool_sets, other.id: other})
    assert "is there and is GPUPoolSet g's" in said(view(snapshot))[3]


def test_what_cannot_change_is_told_with_the_field_and_both_values() -> None:
    there = own(A, capacity_type=CapacityType.SPOT)
    state, _, reason, message = said(view(seen(a_set(own(A)), there)))
    assert (state, reason) == ("Incomplete", "CannotChange")
    assert "spec.capacityType is 'Spot' there and 'OnDemand' here, which cannot be changed in a GPUPool" in message
    assert "kubectl delete gpupool gpu-a" in message


def test_of_many_obstacles_three_are_named() -> None:
    names = [PoolId(f"gpu-{letter}") for letter in "abcde"]
    snapshot = seen(a_set(*[own(name) for name in names]), *[own(name, set_uid="") for name in names])
    message = said(view(snapshot))[3]
    assert message.count("GPUPool gpu-") == 3
    assert message.endswith("; and 2 more")


def test_a_step_that_fails_is_told_until_one_succeeds() -> None:
    failed = FailedPoolSteps()
    snapshot = seen(a_set(own(A)))
    failed.done(CreatePool(SET, A), ActionOutcome.FAILED, "Invalid: spec.price: exactly one")
    assert said(view(snapshot, failed)) == (
        "Incomplete",
        "False",
        "Failing",
        "GPUPool gpu-a: Invalid: spec.price: exactly one",
    )
    failed.done(CreatePool(SET, A), ActionOutcome.STALE, "")
    assert said(view(snapshot, failed))[0] == "Incomplete"
    failed.done(CreatePool(SET, A), ActionOutcome.DONE, "")
    assert said(view(snapshot, failed))[0] == "Changing"


def test_failures_of_pools_that_nobody_wants_are_forgotten() -> None:
    failed = FailedPoolSteps()
    failed.done(EditPool(SET, A), ActionOutcome.HELD, "a webhook")
    failed.done(EditPool(SET, B), ActionOutcome.HELD, "a webhook")
    failed.retain(seen(a_set(own(A))))
    assert failed.among([A, B]) == {A: "a webhook"}


def test_a_set_that_is_being_deleted_says_so() -> None:
    state, status, reason, _ = said(view(seen(replace(a_set(own(A)), deleting=True), own(A))))
    assert (state, status, reason) == ("Deleting", "False", "Draining")


def test_each_set_is_shown_with_the_states_of_its_pools() -> None:
    pool = own(A)
    snapshot = replace(seen(a_set(pool), pool), surveys={A: make.survey(pool=A)})
    (viewed,) = viewed_pool_sets(snapshot, {}, FailedPoolSteps())
    shown = viewed.make(snapshot)
    assert isinstance(shown, GPUPoolSetStatus)
    assert (viewed.key.name, shown.ready_pools) == ("gpu", 1)
    assert list(viewed_pool_sets(make.snapshot(), {}, FailedPoolSteps())) == []


def test_what_was_done_with_a_pool_is_an_event_of_its_set() -> None:
    heard = Heard()
    events, snapshot = Events(cast(Recorder, heard)), seen(a_set(own(A)), own(A))
    for step in (CreatePool(SET, A), EditPool(SET, A), DeletePool(SET, A, "uid-gpu-a")):
        events.done(step, snapshot)
    events.failed(EditPool(SET, A), "Invalid: no", snapshot)
    assert heard.events == [
        ("GPUPoolSet", "PoolCreated", "GPUPool gpu-a", False),
        ("GPUPoolSet", "PoolChanged", "GPUPool gpu-a", False),
        ("GPUPoolSet", "PoolRemoved", "GPUPool gpu-a", False),
        ("GPUPoolSet", "Failing", "EditPool: Invalid: no", True),
    ]
