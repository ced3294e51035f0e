"""What one budget does with its money, as short stories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from purser.domain.budget import Mode
from purser.domain.ids import BudgetId, JobId, NodeName, PoolId, RentalId
from purser.domain.job import Job, PodPhase, ResizePolicy, SpotPolicy, Widths
from purser.domain.plan import Allocate, Plan, Release, Rent, Why
from purser.domain.pool import CapacityType, Notice
from purser.domain.profile import Amdahl, PowerLaw, SpeedCurve
from purser.domain.rental import RentalPhase
from purser.domain.time import after
from purser.policy import plan
from tests.worlds import World

STEEP = PowerLaw(0.9, 1.0)
WIDE = (1, 4, 32)


def simple(**budget: str) -> World:
    world = World()
    world.budget(**budget)  # type: ignore[arg-type]
    world.pool("a100", gpus=8, price="16")
    world.profile("sft", STEEP, work_hours=40)
    return world


def rents(decided: Plan) -> list[str]:
    return [command.rental for command in decided.commands if isinstance(command, Rent)]


def releases(decided: Plan) -> dict[str, Why]:
    return {command.rental: command.reason.why for command in decided.commands if isinstance(command, Release)}


def placed(decided: Plan) -> dict[str, int]:
    """Width by job, 0 for those that lose their place."""
    commands = [command for command in decided.commands if isinstance(command, Allocate)]
    return {one.job: one.allocation.option.gpus if one.allocation else 0 for one in commands}


def why(decided: Plan, job: str) -> Why:
    return decided.jobs[JobId(job)].reason.why


def settle(world: World, turns: int = 4) -> Plan:
    """Plan, carry out and let everything start, a few times."""
    for _ in range(turns):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
        world.passes(1.0)
    return plan(world.snapshot())


# --- money becomes width ----------------------------------------------------------------------------------------------


def test_one_job_alone_gets_about_as_many_gpus_as_the_rest_of_the_month_pays_for() -> None:
    world = simple(amount="11520")  # 360 h are left of the month: $32/h, two nodes
    world.job("train", gpus=WIDE, profile="sft")
    settle(world)
    allocation = world.jobs[JobId("train")].allocation
    assert allocation is not None
    assert allocation.option.gpus == 16
    assert len(allocation.placements) == 2


def test_with_more_jobs_each_gets_less_and_all_of_them_run() -> None:
    world = simple(amount="11520")
    for number in range(4):
        world.job(f"j{number}", gpus=WIDE, profile="sft")
    settle(world)
    widths = [job.allocation.option.gpus for job in world.jobs.values() if job.allocation]
    assert widths == [4, 4, 4, 4]


def test_a_mixing_class_meets_the_rate_on_average() -> None:
    world = simple(amount="17280")  # $48/h for 4 jobs: 6 GPUs each, between 4 and 8
    for number in range(4):
        world.job(f"j{number}", gpus=WIDE, profile="sft", resize=ResizePolicy.NEVER)
    settle(world)
    widths = sorted(job.allocation.option.gpus for job in world.jobs.values() if job.allocation)
    assert widths == [4, 4, 8, 8]


def test_a_heavier_job_is_given_more() -> None:
    world = simple(amount="11520")
    world.job("light", gpus=WIDE, profile="sft")
    world.job("heavy", gpus=WIDE, profile="sft", weight=8.0)
    decided = plan(world.snapshot())
    light, heavy = decided.jobs[JobId("light")].option, decided.jobs[JobId("heavy")].option
    assert light is not None
    assert heavy is not None
    assert heavy.gpus > light.gpus


def test_declared_arrivals_decide_instead_of_the_jobs_in_sight() -> None:
    crowded, quiet = simple(amount="11520"), simple(amount="11520")
    crowded.profile("sft", STEEP, work_hours=40, arrivals_per_hour=1.0)
    quiet.profile("sft", STEEP, work_hours=40, arrivals_per_hour=0.02)
    for world in (crowded, quiet):
        world.job("train", gpus=WIDE, profile="sft")
    few, many = (plan(world.snapshot()).jobs[JobId("train")].option for world in (crowded, quiet))
    assert few is not None
    assert many is not None
    assert few.gpus < many.gpus


def test_a_job_without_a_curve_runs_at_its_preferred_width_however_much_money_there_is() -> None:
    world = simple(amount="900000")
    world.job("unknown", gpus=(1, 2, 64))
    settle(world)
    allocation = world.jobs[JobId("unknown")].allocation
    assert allocation is not None
    assert allocation.option.gpus == 2
    assert why(plan(world.snapshot()), "unknown") is Why.NO_CURVE


def test_a_job_without_a_curve_goes_narrower_only_when_a_limit_forces_it() -> None:
    world = simple(max_hourly="16")
    world.job("unknown", gpus=(1, 16, 16))
    settle(world)
    allocation = world.jobs[JobId("unknown")].allocation
    assert allocation is not None
    assert allocation.option.gpus == 8


def test_the_gpu_type_that_does_a_unit_of_work_for_less_is_chosen() -> None:
    world = simple()
    world.pool("h100", gpus=8, price="24")
    world.profile("sft", STEEP, work_hours=40, others=[SpeedCurve("h100", PowerLaw(0.9, 2.0))])
    world.job("train", gpus=WIDE, profile="sft")
    option = plan(world.snapshot()).jobs[JobId("train")].option
    assert option is not None
    assert option.pool == "h100"


def test_spot_is_only_for_jobs_that_allow_it() -> None:
    world = simple()
    world.pool("spot", price="4", gpu_type="a100", capacity=CapacityType.SPOT)
    world.job("careful", gpus=WIDE, profile="sft")
    world.job("bold", gpus=WIDE, profile="sft", spot=SpotPolicy.ALLOWED)
    decided = plan(world.snapshot())
    pools = {job: verdict.option.pool for job, verdict in decided.jobs.items() if verdict.option}
    assert pools == {"careful": "a100", "bold": "spot"}


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_small_jobs_share_a_node_and_only_one_is_rented() -> None:
    world = simple()
    for number in range(4):
        world.job(f"j{number}", gpus=2)
    assert rents(plan(world.snapshot())) == ["a100-1"]
    settle(world)
    homes = {job.allocation.placements[0].rental for job in world.jobs.values() if job.allocation}
    assert homes == {"a100-1"}


def test_nothing_more_is_rented_while_enough_nodes_boot() -> None:
    world = simple()
    world.job("train", gpus=16)
    world.carry_out(plan(world.snapshot()))
    assert len(world.rentals) == 2
    assert plan(world.snapshot()).commands == ()
    world.launches("a100-1")
    assert plan(world.snapshot()).commands == ()


def test_a_waiting_job_takes_a_ready_node_that_was_rented_for_another() -> None:
    world = simple()
    world.job("first", gpus=8)
    world.carry_out(plan(world.snapshot()))
    world.job("heavier", gpus=8, weight=10.0)
    world.launches("a100-1")
    world.becomes_ready("a100-1")
    decided = plan(world.snapshot())
    assert placed(decided) == {"heavier": 8}
    assert rents(decided) == ["a100-2"]
    assert why(decided, "first") is Why.WAITING_FOR_NODE


def test_a_job_goes_into_the_fullest_node_that_fits() -> None:
    world = simple()
    for _ in range(2):
        world.rental()
    world.job("there", gpus=4, age_seconds=100)
    world.runs_on("there", "a100-2", gpus=4)
    world.job("new", gpus=2)
    decided = plan(world.snapshot())
    command = next(one for one in decided.commands if isinstance(one, Allocate))
    assert command.allocation is not None
    assert command.allocation.placements[0].rental == "a100-2"
    assert releases(decided) == {"a100-1": Why.IDLE}


def test_an_idle_node_is_released_at_once_but_not_before_its_paid_minimum_has_passed() -> None:
    world = simple()
    world.pool("a100", billing_minimum=3600)
    rental = world.rental(age=1800.0)
    assert rental.launched is not None
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert decided.again_at == after(rental.launched, 3600)
    world.passes(1800)
    assert releases(plan(world.snapshot())) == {"a100-1": Why.IDLE}


def test_a_booting_node_that_nobody_needs_any_more_is_released() -> None:
    world = simple()
    world.job("train", gpus=8)
    world.carry_out(plan(world.snapshot()))
    world.jobs[JobId("train")] = replace(world.jobs[JobId("train")], suspend=True)
    assert releases(plan(world.snapshot())) == {"a100-1": Why.NOT_NEEDED}


def test_a_node_is_not_idle_while_pods_of_a_stopping_run_are_on_it() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    world.jobs[JobId("train")] = replace(world.jobs[JobId("train")], suspend=True)
    world.carry_out(plan(world.snapshot()))
    assert plan(world.snapshot()).commands == ()
    world.stops("train")
    assert releases(plan(world.snapshot())) == {"a100-1": Why.IDLE}


@pytest.mark.parametrize("trouble", ["ready", "unschedulable", "deleting"])
def test_a_node_in_trouble_takes_no_new_pods(trouble: str) -> None:
    world = simple()
    world.rental()
    node = world.nodes[NodeName("n-a100-1")]
    world.nodes[node.name] = replace(
        node,
        ready=trouble != "ready",
        unschedulable=trouble == "unschedulable",
        deleting=trouble == "deleting",
    )
    world.job("train", gpus=8)
    assert rents(plan(world.snapshot())) == ["a100-2"]


def test_gpus_of_foreign_pods_are_not_given_away() -> None:
    world = simple()
    world.rental()
    node = world.nodes[NodeName("n-a100-1")]
    world.nodes[node.name] = replace(node, foreign_gpus=1)
    world.job("whole", gpus=8)
    world.job("part", gpus=4)
    decided = plan(world.snapshot())
    assert placed(decided) == {"part": 4}
    assert rents(decided) == ["a100-2"]


def test_names_of_rentals_that_still_exist_are_not_used_again() -> None:
    world = simple()
    world.rental(phase=RentalPhase.DRAINING)
    world.job("train", gpus=16)
    assert rents(plan(world.snapshot())) == ["a100-2", "a100-3"]


# --- pools that cannot give -------------------------------------------------------------------------------------------


def test_a_cooling_pool_is_passed_over_for_the_next_best() -> None:
    world = simple()
    world.pool("a100", cooled_for=300.0)
    world.pool("other", gpu_type="a100", price="18")
    world.job("train", gpus=8, profile="sft")
    assert rents(plan(world.snapshot())) == ["other-1"]


def test_a_job_waits_for_a_cooling_pool_when_there_is_no_other_and_says_when() -> None:
    world = simple()
    pool = world.pool("a100", cooled_for=300.0)
    world.job("train", gpus=8)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert why(decided, "train") is Why.POOL_COOLING
    assert decided.again_at == pool.cooled_until


def test_nodes_that_a_cooling_pool_already_has_are_used() -> None:
    world = simple()
    world.pool("a100", cooled_for=300.0)
    world.rental()
    world.job("train", gpus=8)
    assert placed(plan(world.snapshot())) == {"train": 8}


def test_a_full_pool_is_not_asked_for_more() -> None:
    world = simple()
    world.pool("a100", max_nodes=1)
    world.job("one", gpus=8, age_seconds=10)
    world.job("two", gpus=8)
    decided = plan(world.snapshot())
    assert rents(decided) == ["a100-1"]
    assert why(decided, "two") is Why.POOL_FULL


def test_a_width_that_no_pool_has_says_so() -> None:
    world = simple()
    world.job("odd", gpus=12)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert why(decided, "odd") is Why.NO_OPTION


def test_a_pool_that_is_deleted_is_emptied_and_its_jobs_go_elsewhere() -> None:
    world = simple()
    pool = world.pool("a100")
    world.pool("other", gpu_type="a100", price="18")
    world.rental("a100")
    world.rental("other")
    world.job("train", gpus=8, profile="sft")
    world.runs_on("train", "a100-1", gpus=8)
    world.pools[pool.id] = replace(pool, deleting=True)
    decided = plan(world.snapshot())
    assert releases(decided) == {"a100-1": Why.POOL_DELETED}
    assert placed(decided) == {"train": 8}
    assert world.jobs[JobId("train")].allocation is not None
    command = next(one for one in decided.commands if isinstance(one, Allocate) and one.allocation)
    assert command.allocation is not None
    assert command.allocation.run == 2


# --- jobs that move ---------------------------------------------------------------------------------------------------


def running_narrow(resize: ResizePolicy, hours_left: float) -> World:
    world = simple(amount="11520")
    world.rental()
    world.job("train", gpus=WIDE, profile="sft", resize=resize, hours_left=hours_left)
    world.runs_on("train", "a100-1", gpus=2, speed=2**0.9)
    return world


def test_a_job_alone_on_a_node_moves_wider_when_that_pays() -> None:
    world = running_narrow(ResizePolicy.RESTART, 40.0)
    decided = plan(world.snapshot())
    assert why(decided, "train") is Why.MOVE_PAYS
    world.carry_out(decided)
    settle(world)
    allocation = world.jobs[JobId("train")].allocation
    assert allocation is not None
    assert allocation.option.gpus > 2
    assert allocation.run > 1


def test_a_job_that_is_nearly_done_does_not_pay_a_restart() -> None:
    world = running_narrow(ResizePolicy.RESTART, 0.01)
    assert plan(world.snapshot()).commands == ()


def test_a_never_job_keeps_its_width() -> None:
    world = running_narrow(ResizePolicy.NEVER, 40.0)
    assert plan(world.snapshot()).commands == ()


def test_a_job_runs_on_while_the_nodes_it_moves_to_boot() -> None:
    world = running_narrow(ResizePolicy.RESTART, 40.0)
    decided = plan(world.snapshot())
    assert placed(decided) == {}
    assert rents(decided) == ["a100-2"]
    option = decided.jobs[JobId("train")].option
    assert option is not None
    assert option.gpus == 16


def test_a_job_whose_widths_were_edited_must_move() -> None:
    world = running_narrow(ResizePolicy.RESTART, 40.0)
    world.jobs[JobId("train")] = replace(world.jobs[JobId("train")], widths=Widths(4, 4, 4))
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 4}
    assert why(decided, "train") is Why.WIDTH_NO_LONGER_ALLOWED


def test_an_in_place_job_grows_by_pods_and_keeps_its_run() -> None:
    world = simple(amount="23040")
    for _ in range(4):
        world.rental()
    world.job("train", gpus=WIDE, profile="sft", resize=ResizePolicy.IN_PLACE)
    before = world.runs_on("train", "a100-1", "a100-2", gpus=16, speed=16**0.9)
    assert before.allocation is not None
    decided = plan(world.snapshot())
    command = next(one for one in decided.commands if isinstance(one, Allocate))
    assert command.allocation is not None
    assert command.allocation.run == before.allocation.run
    assert command.allocation.option.gpus == 32
    assert command.allocation.placements[:2] == before.allocation.placements


# --- things that go wrong ---------------------------------------------------------------------------------------------


def test_a_job_on_an_interrupted_instance_restarts_at_once_on_what_is_left() -> None:
    world = simple()
    for _ in range(2):
        world.rental()
    world.job("train", gpus=(4, 8, 8), profile="sft")
    world.runs_on("train", "a100-1", gpus=8)
    world.job("other", gpus=4)
    world.runs_on("other", "a100-2", gpus=4)
    instance = world.rentals[RentalId("a100-1")].instance
    assert instance is not None
    world.notices[PoolId("a100")] = (Notice(instance, after(world.now, 120)),)
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 4}
    assert why(decided, "train") is Why.INTERRUPTION


def test_a_job_on_an_interrupted_instance_queues_when_nothing_is_left() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    instance = world.rentals[RentalId("a100-1")].instance
    assert instance is not None
    world.notices[PoolId("a100")] = (Notice(instance, after(world.now, 120)),)
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 0}
    assert rents(decided) == ["a100-2"]


def stuck(world: World) -> Job:
    job = world.runs_on("train", "a100-1", gpus=8)
    run = job.runs[0]
    pods = tuple(replace(pod, phase=PodPhase.PENDING, ready=False) for pod in run.pods)
    world.jobs[job.id] = replace(job, runs=(replace(run, pods=pods),))
    return job


def test_a_run_that_does_not_get_ready_is_withdrawn() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = stuck(world)
    decided = plan(world.snapshot())
    assert placed(decided) == {}
    assert decided.again_at == after(world.now, job.ready_timeout_seconds)
    world.passes(job.ready_timeout_seconds)
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 0}
    assert why(decided, "train") is Why.NOT_STARTING


@pytest.mark.parametrize(("change", "expected"), [("suspend", Why.SUSPENDED), ("deleting", Why.DELETED)])
def test_a_job_that_is_no_longer_wanted_gives_up_its_gpus(change: str, expected: Why) -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = world.runs_on("train", "a100-1", gpus=8)
    world.jobs[job.id] = replace(job, suspend=change == "suspend", deleting=change == "deleting")
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 0}
    assert why(decided, "train") is expected


def test_a_run_goes_on_when_its_template_is_edited_to_an_invalid_one() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = world.runs_on("train", "a100-1", gpus=8)
    world.jobs[job.id] = replace(job, invalid="spec.template: no")
    assert plan(world.snapshot()).commands == ()


def test_an_allocation_on_a_rental_that_is_gone_is_withdrawn_if_its_run_never_started() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = world.runs_on("train", "a100-1", gpus=8)
    world.jobs[job.id] = replace(job, runs=())
    world.ends("a100-1")
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 0}
    assert rents(decided) == ["a100-2"]


def test_a_run_on_a_lost_node_is_left_to_the_life_cycle() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    world.ends("a100-1")
    assert plan(world.snapshot()).commands == ()


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_budget_too_small_for_all_runs_the_cheapest_jobs_first_and_the_others_queue() -> None:
    world = simple(amount="2880")  # $8/h: 4 GPUs
    world.job("long", gpus=4, hours_left=50.0, age_seconds=100)
    world.job("short", gpus=4, hours_left=1.0)
    decided = plan(world.snapshot())
    assert rents(decided) == ["a100-1"]
    assert why(decided, "short") is Why.WAITING_FOR_NODE
    assert why(decided, "long") is Why.WAITING_FOR_BUDGET
    assert not decided.budgets[BudgetId("research")].feasible


def test_a_job_dearer_than_the_allowed_rate_still_runs_when_nothing_else_does() -> None:
    world = simple(amount="2880")
    world.job("big", gpus=8)
    assert rents(plan(world.snapshot())) == ["a100-1"]


def test_nothing_is_started_when_the_money_is_gone() -> None:
    world = simple(amount="1000", spent="1000")
    world.job("train", gpus=8)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert why(decided, "train") is Why.WAITING_FOR_BUDGET


def test_the_hourly_limit_is_kept_at_worst_prices() -> None:
    world = simple(max_hourly="60")
    world.pool("a100", price="16", worst="30")
    for number in range(3):
        world.job(f"j{number}", gpus=8, age_seconds=10 - number)
    decided = plan(world.snapshot())
    assert rents(decided) == ["a100-1", "a100-2"]
    assert why(decided, "j2") is Why.HOURLY_LIMIT


def test_a_lowered_hourly_limit_releases_just_enough() -> None:
    world = simple(max_hourly="16")
    for number in range(2):
        world.rental()
        world.job(f"j{number}", gpus=8)
        world.runs_on(f"j{number}", f"a100-{number + 1}", gpus=8)
    decided = plan(world.snapshot())
    assert list(releases(decided).values()) == [Why.HOURLY_LIMIT]
    assert list(placed(decided).values()) == [0]
    world.carry_out(decided)
    assert plan(world.snapshot()).commands == ()


def test_everything_is_released_just_before_the_hard_limit_and_the_instant_is_known() -> None:
    world = simple(hard_limit="100")
    world.rental(age=60.0)
    world.job("train", gpus=8, grace_seconds=60)
    world.runs_on("train", "a100-1", gpus=8)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert decided.again_at is not None
    world.now = decided.again_at
    world.passes(1.0)
    decided = plan(world.snapshot())
    assert releases(decided) == {"a100-1": Why.HARD_LIMIT}
    assert placed(decided) == {"train": 0}
    assert why(decided, "train") is Why.HARD_LIMIT
    verdict = decided.budgets[BudgetId("research")]
    assert verdict.spent.dollars > 97
    assert verdict.committed.dollars <= 100


def test_a_job_whose_grace_could_break_the_hard_limit_is_not_started_on_a_ready_node() -> None:
    world = simple(hard_limit="20")
    world.pool("a100", billing_minimum=3600)
    world.rental(age=600.0)
    world.job("hasty", gpus=4, grace_seconds=0, age_seconds=5)
    world.job("slow", gpus=4, grace_seconds=3600)
    decided = plan(world.snapshot())
    assert placed(decided) == {"hasty": 4}
    assert why(decided, "slow") is Why.HARD_LIMIT


def test_a_deleted_budget_stops_its_jobs_and_ends_its_nodes() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    budget = world.budgets[BudgetId("research")]
    world.budgets[budget.id] = replace(budget, deleting=True)
    decided = plan(world.snapshot())
    assert releases(decided) == {"a100-1": Why.BUDGET_DELETED}
    assert placed(decided) == {"train": 0}
    assert rents(decided) == []


def test_an_observing_budget_says_what_it_would_do() -> None:
    world = World()
    world.budget(mode=Mode.OBSERVE)
    world.pool()
    world.job("train", gpus=8)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert [type(command) for command in decided.would] == [Rent]
    assert why(decided, "train") is Why.OBSERVE_ONLY


def test_jobs_never_share_a_node_with_another_budgets_jobs() -> None:
    world = simple()
    world.budget("prod")
    world.rental(budget="prod")
    world.job("ours", gpus=4)
    world.job("theirs", gpus=4, budget="prod")
    decided = plan(world.snapshot())
    assert placed(decided) == {"theirs": 4}
    assert rents(decided) == ["a100-2"]


def test_the_budget_that_pays_most_for_a_second_gets_the_last_node() -> None:
    world = simple(amount="3000")
    world.budget("rich", amount="600000")
    world.pool("a100", max_nodes=1)
    world.job("poor", gpus=(1, 4, 8), profile="sft")
    world.job("urgent", gpus=(1, 4, 8), profile="sft", budget="rich")
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=40)
    decided = plan(world.snapshot())
    assert [command.budget for command in decided.commands if isinstance(command, Rent)] == ["rich"]


def test_the_first_day_of_a_month_is_not_charged_for_the_last_month() -> None:
    """Between the turn of the month and the write that opens the new period, θ* is already the new month's."""
    world = simple(spent="60000")
    balance = world.budgets[BudgetId("research")].balance
    assert balance is not None
    world.job("train", gpus=8)
    world.passes(15 * 86_400 + 60)
    assert rents(plan(world.snapshot())) == ["a100-1"]


@pytest.mark.parametrize("gpus", [1, 4, 8])
@pytest.mark.parametrize("dollars", range(1_000, 30_000, 250))
def test_a_node_rented_while_jobs_queue_for_money_is_not_given_back_at_once(dollars: int, gpus: int) -> None:
    """Renting makes the rate that is still allowed smaller, which must not undo it: each turn would cost a start-up."""
    world = simple(amount=str(dollars))
    for number in range(6):
        world.job(f"j{number}", gpus=gpus, profile="sft", resize=ResizePolicy.NEVER)
    for _ in range(8):
        decided = plan(world.snapshot())
        assert not releases(decided)
        world.carry_out(decided)
        world.everything_starts()
