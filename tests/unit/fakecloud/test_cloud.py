"""Groups and machines on a clock that the test moves."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from charterer.tools.fakecloud.config import SECOND
from charterer.tools.fakecloud.http import bill_json, instance_json, quote_json
from charterer.tools.fakecloud.records import MachinePhase
from tests.unit.fakecloud.world import World, config, refused

# --- targets ---------------------------------------------------------------------------------------------------------


def test_a_group_launches_as_many_machines_as_its_target_and_they_start_up() -> None:
    world = World(config())
    world.cloud.set_target("a100", 3)
    assert world.states() == [MachinePhase.PENDING] * 3
    world.wait(60)
    assert world.states() == [MachinePhase.RUNNING] * 3


def test_a_target_below_what_exists_is_refused() -> None:
    world = World(config())
    world.cloud.set_target("a100", 2)
    with refused("WouldTerminate"):
        world.cloud.set_target("a100", 1)
    assert len(world.alive()) == 2


def test_a_target_that_is_not_what_the_caller_expected_is_left_alone_and_told() -> None:
    world = World(config())
    world.cloud.set_target("a100", 2)
    with refused("TargetChanged") as caught:
        world.cloud.set_target("a100", 3, expected=0)
    assert caught.value.details == {"target": 2}


def test_a_group_is_never_made_smaller_than_its_minimum() -> None:
    world = World(config({"minSize": 1, "initialTarget": 1}))
    with refused("MinSizeReached"):
        world.cloud.terminate("a100", world.alive()[0], decrement=True)
    assert len(world.alive()) == 1


def test_unknown_groups_and_instances_are_named() -> None:
    world = World(config())
    with refused("GroupNotFound"):
        world.cloud.set_target("b200", 1)
    with refused("InstanceNotFound"):
        world.cloud.terminate("a100", "i-nobody", decrement=True)


# --- ending ----------------------------------------------------------------------------------------------------------


def test_terminating_with_decrement_ends_that_machine_and_no_other_comes() -> None:
    world = World(config({"stopSeconds": 10}))
    world.cloud.set_target("a100", 2)
    kept, victim = world.alive()
    assert world.cloud.terminate("a100", victim, decrement=True).state(world.now) is MachinePhase.STOPPING
    world.wait(10)
    assert world.alive() == [kept]
    assert world.cloud.group("a100").target == 1


def test_terminating_twice_lowers_the_target_once() -> None:
    world = World(config({"stopSeconds": 10}))
    world.cloud.set_target("a100", 3)
    victim = world.alive()[0]
    for _ in range(2):
        world.cloud.terminate("a100", victim, decrement=True)
    world.wait(20)
    world.cloud.terminate("a100", victim, decrement=True)
    assert world.cloud.group("a100").target == 2


def test_terminating_without_decrement_brings_another_machine() -> None:
    world = World(config())
    world.cloud.set_target("a100", 1)
    [victim] = world.alive()
    world.cloud.terminate("a100", victim, decrement=False)
    [other] = world.alive()
    assert other != victim


def test_a_dead_machine_is_replaced_after_the_healing_time() -> None:
    world = World(config({"healSeconds": 30}))
    world.cloud.set_target("a100", 1)
    [victim] = world.alive()
    world.cloud.kill(victim, node_stays=False)
    world.wait(29)
    assert world.alive() == []
    world.wait(1)
    assert len(world.alive()) == 1


def test_a_dead_machine_that_is_given_up_before_it_is_healed_is_not_replaced() -> None:
    world = World(config({"healSeconds": 30}))
    world.cloud.set_target("a100", 1)
    [victim] = world.alive()
    world.cloud.kill(victim, node_stays=False)
    world.cloud.terminate("a100", victim, decrement=True)
    world.wait(100)
    assert world.alive() == []
    assert world.cloud.group("a100").target == 0


def test_an_ended_machine_is_listed_for_a_while_and_billed_for_ever() -> None:
    world = World(config({"listedSeconds": 100}))
    world.cloud.set_target("a100", 1)
    world.wait(60)
    world.cloud.terminate("a100", world.alive()[0], decrement=True)
    world.wait(99)
    assert world.states() == [MachinePhase.ENDED]
    world.wait(1)
    assert world.states() == []
    bill = bill_json(world.cloud.machines(), world.now)
    assert (bill["total"], bill["lines"][0]["final"]) == ("0.06", True)


# --- launches that fail ----------------------------------------------------------------------------------------------


def test_a_stock_out_is_a_failed_activity_and_tried_again() -> None:
    world = World(config({"stock": 1, "retrySeconds": 30}))
    world.cloud.set_target("a100", 2)
    assert [activity.code for activity in world.cloud.activities("a100")] == ["InsufficientInstanceCapacity", ""]
    world.cloud.change_group("a100", {"stock": 2})
    world.wait(29)
    assert len(world.alive()) == 1
    world.wait(1)
    assert len(world.alive()) == 2


def test_a_quota_counts_the_gpus_of_all_groups_of_its_type() -> None:
    world = World(config({}, {"name": "other"}, quotas={"A100": 8}))
    world.cloud.set_target("a100", 1)
    world.cloud.set_target("other", 2)
    assert len(world.alive("other")) == 1
    assert world.cloud.activities("other")[0].code == "InstanceLimitExceeded"
    world.cloud.change_quotas({"A100": None})
    world.wait(30)
    assert len(world.alive("other")) == 2


def test_a_machine_that_is_stopping_still_takes_its_place_in_the_stock() -> None:
    world = World(config({"stock": 1, "stopSeconds": 10, "retrySeconds": 1}))
    world.cloud.set_target("a100", 1)
    world.cloud.terminate("a100", world.alive()[0], decrement=False)
    world.wait(9)
    assert len(world.alive()) == 1
    world.wait(2)
    assert world.states() == [MachinePhase.ENDED, MachinePhase.PENDING]


def test_only_the_latest_activities_are_kept() -> None:
    world = World(config({"stock": 0, "retrySeconds": 1}))
    world.cloud.set_target("a100", 1)
    world.wait(300)
    activities = world.cloud.activities("a100")
    assert len(activities) == 100
    assert activities[0].at > activities[-1].at


# --- prices and spot -------------------------------------------------------------------------------------------------


def test_a_new_price_is_for_later_launches_only() -> None:
    world = World(config())
    world.cloud.set_target("a100", 1)
    world.cloud.change_group("a100", {"hourlyPrice": "7.20"})
    world.cloud.set_target("a100", 2)
    assert [[s.micros_per_hour for s in m.segments] for m in world.cloud.machines()] == [[3_600_000], [7_200_000]]


def test_a_running_spot_machine_gets_a_new_segment_where_the_group_says_so_and_never_above_the_quoted_worst() -> None:
    world = World(config({"capacityType": "Spot", "spotFactor": "0.5", "repriceRunning": True}))
    quote = quote_json(world.cloud.group("a100"), world.now)
    assert (quote["hourlyPrice"], quote["worstHourlyPrice"]) == ("1.80", "3.60")
    world.cloud.set_target("a100", 1)
    world.wait(100)
    world.cloud.change_group("a100", {"spotFactor": "1"})
    world.wait(100)
    [machine] = world.cloud.machines()
    assert machine.cost(world.now) == 100 * 500 + 100 * 1000
    with pytest.raises(ValidationError, match="above 1"):
        world.cloud.change_group("a100", {"spotFactor": "1.1"})


def test_a_spot_machine_lives_as_long_as_it_drew_with_notice_and_is_replaced() -> None:
    world = World(config({"capacityType": "Spot", "lifetimeSeconds": [500], "noticeSeconds": 120}))
    world.cloud.set_target("a100", 1)
    [first] = world.alive()
    world.wait(379)
    assert instance_json(world.cloud.machine(first), world.now)["interruption"] is None
    world.wait(1)
    assert instance_json(world.cloud.machine(first), world.now)["interruption"] is not None
    assert instance_json(world.cloud.machine(first), world.now)["endedAt"] is None
    world.wait(120)
    assert instance_json(world.cloud.machine(first), world.now)["endedBecause"] == "SpotInterruption"
    assert len(world.alive()) == 1


def test_a_machine_that_is_terminated_before_its_interruption_ends_then() -> None:
    world = World(config({"stopSeconds": 5}))
    world.cloud.set_target("a100", 1)
    [machine] = world.alive()
    world.cloud.interrupt(machine, 120)
    world.cloud.terminate("a100", machine, decrement=True)
    world.wait(200)
    ended = world.cloud.machine(machine)
    assert (ended.ends_because, ended.seconds(world.now)) == ("Terminated", 5)


def test_start_up_times_are_drawn_from_the_measured_list_by_the_seed() -> None:
    first, same, other = (
        World(config({"startupSeconds": "K80", "startupScale": 0.1}, seed=seed)) for seed in (1, 1, 2)
    )
    draws = []
    for world in (first, same, other):
        world.cloud.set_target("a100", 8)
        draws.append([machine.runs - machine.launched for machine in world.cloud.machines()])
    assert draws[0] == draws[1] != draws[2]
    assert all(6.1 * SECOND < draw < 9.1 * SECOND for draw in draws[0])


# --- lag and the world's own course ----------------------------------------------------------------------------------


def test_lists_and_the_target_show_the_state_of_a_while_ago() -> None:
    world = World(config({"listLagSeconds": 10}))
    world.wait(100)
    world.cloud.set_target("a100", 1)
    world.wait(9)
    group = world.cloud.group("a100")
    assert (world.states(), list(world.cloud.activities("a100")), group.target_at(group.seen_at(world.now))) == (
        [],
        [],
        0,
    )
    world.wait(1)
    assert (world.states(), group.target_at(group.seen_at(world.now))) == ([MachinePhase.PENDING], 1)
    world.wait(50)
    world.cloud.terminate("a100", world.alive()[0], decrement=True)
    world.wait(9)
    assert world.states() == [MachinePhase.PENDING]
    world.wait(1)
    assert world.states() == [MachinePhase.ENDED]


def test_a_machine_that_no_list_shows_yet_can_be_ended() -> None:
    world = World(config({"listLagSeconds": 10}))
    world.cloud.set_target("a100", 1)
    assert world.states() == []
    world.cloud.terminate("a100", world.alive()[0], decrement=True)
    assert world.alive() == []


def test_scheduled_changes_happen_in_order_at_their_time() -> None:
    world = World(config({"changes": [{"afterSeconds": 10, "stock": 0}, {"afterSeconds": 20, "stock": None}]}))
    world.wait(15)
    world.cloud.set_target("a100", 1)
    assert world.alive() == []
    world.wait(40)
    assert len(world.alive()) == 1


def test_the_clouds_clock_never_goes_back() -> None:
    world = World(config())
    before = world.cloud.now()
    world.now -= 5 * SECOND
    assert world.cloud.now() == before


def test_a_notice_says_when_the_machine_ends_though_that_was_planned_earlier() -> None:
    world = World(config({"capacityType": "Spot", "lifetimeSeconds": [30], "noticeSeconds": 0}))
    world.cloud.set_target("a100", 1)
    [machine] = world.alive()
    interrupted = world.cloud.interrupt(machine, 120)
    assert interrupted.interrupt_at == interrupted.ends == world.now + 30 * SECOND
