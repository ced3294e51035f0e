"""What jobs are told where the operator's own limits, or a person, keep nodes from being rented."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from charterer.domain.ids import JobId
from charterer.domain.money import Price
from charterer.domain.plan import Limit, Plan, Reason, ReasonCode, Release, Rent
from charterer.domain.snapshot import OperatorLimits, Stop
from charterer.incremental import Memo
from charterer.policy.nodes.pool_room import pool_sizes
from charterer.policy.nodes.rentals import rental_index
from charterer.policy.planner import plan
from tests.worlds import World


def world(**job: Any) -> World:
    made = World()
    made.budget(amount="60000")
    made.pool(gpus=8, price="16", worst="20")
    made.job("train", gpus=16, **job)
    return made


def rents(decided: Plan) -> int:
    return sum(isinstance(command, Rent) for command in decided.commands)


def why(made: World, limits: OperatorLimits, stop: Stop | None = None) -> tuple[int, Reason]:
    decided = plan(replace(made.snapshot(), limits=limits, stop=stop))
    return rents(decided), decided.jobs[JobId("train")].reason


def test_a_job_that_needs_more_nodes_than_the_operator_may_have_is_told_the_number_and_what_to_do() -> None:
    rented, reason = why(world(), OperatorLimits(nodes=1))
    assert (rented, reason.code) == (0, ReasonCode.OPERATOR_LIMIT)
    assert "1 node in all (--max-nodes, chart value limits.nodes), and has 0: raise it" in reason.message
    assert why(world(), OperatorLimits(nodes=2))[0] == 2


def test_dollars_an_hour_count_at_worst_prices() -> None:
    rented, reason = why(world(), OperatorLimits(hourly=Price.parse("39.99")))
    assert (rented, reason.code) == (0, ReasonCode.OPERATOR_LIMIT)
    assert "the operator's nodes cost $0.00/h of the $39.99/h that they may cost in all" in reason.message
    assert why(world(), OperatorLimits(hourly=Price.parse("40")))[0] == 2


def test_a_job_that_may_be_narrower_takes_what_the_limit_leaves() -> None:
    made = World()
    made.budget(amount="600000")
    made.pool(gpus=8, price="16")
    made.job("train", gpus=(8, 16, 16))
    rented, reason = why(made, OperatorLimits(nodes=1))
    assert (rented, reason.code) == (1, ReasonCode.WAITING_FOR_NODE)


def test_nodes_of_other_budgets_and_pools_count() -> None:
    made = world()
    made.budget("prod", amount="60000")
    made.pool("h100", gpus=8, price="40")
    made.rental("h100", budget="prod")
    assert why(made, OperatorLimits(nodes=2))[1].code is ReasonCode.OPERATOR_LIMIT
    assert why(made, OperatorLimits(nodes=3))[0] == 2


def test_while_a_person_has_stopped_the_operator_jobs_wait_and_what_runs_goes_on() -> None:
    made = world()
    made.job("running", gpus=8)
    made.rental()
    made.runs_on("running", "a100-1", gpus=8)
    decided = plan(replace(made.snapshot(), stop=Stop.RENT))
    assert decided.commands == ()
    assert decided.jobs[JobId("train")].reason.code is ReasonCode.STOPPED
    drained = plan(replace(made.snapshot(), stop=Stop.DRAIN))
    released = [command for command in drained.commands if isinstance(command, Release)]
    assert [command.reason.code for command in released] == [ReasonCode.STOPPED]
    assert rents(drained) == 0


def test_a_pool_is_planned_as_large_as_the_limits_allow_or_as_what_it_has() -> None:
    made = world()

    def size(limits: OperatorLimits) -> tuple[int, Limit]:
        snapshot = replace(made.snapshot(), limits=limits)
        (found,) = pool_sizes(snapshot, rental_index(snapshot.rentals, Memo())).values()
        return found.nodes, found.limit

    most = size(OperatorLimits())
    assert most[1] is Limit.MAX_NODES
    assert size(OperatorLimits(nodes=most[0])) == most
    assert size(OperatorLimits(nodes=3)) == (3, Limit.OPERATOR)
    assert size(OperatorLimits(nodes=3, hourly=Price.parse("59.99"))) == (2, Limit.OPERATOR)
    made.rental()
    assert size(OperatorLimits(nodes=0)) == (1, Limit.OPERATOR)


def test_jobs_choose_within_the_operators_limit_as_within_max_nodes() -> None:
    def crowded(nodes: int) -> World:
        made = World()
        made.budget(amount="60000")
        made.pool(gpus=8, price="16", max_nodes=nodes)
        for number in range(4):
            made.job(f"j{number}", gpus=(1, 8, 32))
        return made

    narrow = plan(crowded(3).snapshot())
    limited = plan(replace(crowded(40).snapshot(), limits=OperatorLimits(nodes=3)))
    assert limited.budgets == narrow.budgets
    assert limited.commands == narrow.commands
    (verdict,) = limited.pools.values()
    assert verdict.limit is Limit.OPERATOR
