"""``charterer explain``: one job, in every state that it can be in."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from charterer.api.models.trainingjob import ToldBottleneck
from charterer.domain.budget import Selector
from charterer.domain.errors import Problem
from charterer.domain.ids import JobId, Rate
from charterer.domain.job import Finish, FinishKind, ResizePolicy, SpotPolicy
from charterer.domain.money import Money
from charterer.domain.pool import CapacityType, Hazard
from charterer.domain.profile import Amdahl, FailedWidth, PowerLaw, SpeedCurve, ThroughputTable
from charterer.domain.reports import Progress
from charterer.domain.time import after
from charterer.policy.planner import plan
from charterer.tools.commands.shared.cluster import ClusterReading
from tests.unit.cli.worlds import charterer_over, seen_of
from tests.worlds import NAMESPACE, World

CURVE = ThroughputTable(((1, 50.0), (2, 98.0), (4, 180.0), (8, 310.0), (16, 480.0), (32, 640.0)))


def world_at(rate: float = 8.0, size: int = 8) -> World:
    """A world with one job, in which an hour of a job's life is worth so many dollars, on nodes of so many GPUs."""
    world = World()
    world.budget(amount="40000")
    world.budgets = {name: replace(budget, fixed_rate=Rate(rate / 3600)) for name, budget in world.budgets.items()}
    world.pool(gpus=size, price=f"{2 * size}")
    world.profile("sft", CURVE, work_hours=40, arrivals_per_hour=1.0)
    world.job("sft-run", gpus=(1, 8, 32), profile="sft")
    return world


def running(rate: float = 8.0, size: int = 8) -> World:
    world = world_at(rate, size)
    for _ in range(3):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    job = world.jobs[JobId("sft-run")]
    assert job.allocation is not None
    world.passes(3 * 3600)
    world.jobs[job.id] = replace(job, progress=Progress(job.allocation.run, 0.5, None, None, world.now))
    return world


def test_without_history_no_amount_is_named_that_a_higher_rate_would_take(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    world.profiles = {name: replace(each, arrivals_per_hour=None) for name, each in world.profiles.items()}
    world.job("later", gpus=(1, 8, 32), profile="sft")
    said = charterer_over(world, monkeypatch)("explain", "tj/sft-run").stdout
    assert "would win if the budget pays $" in said
    assert "in the long run that takes" not in said


def test_a_running_jobs_options_are_a_row_each_with_the_chosen_one_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    result = charterer_over(running(), monkeypatch)("explain", "tj/sft-run")
    assert result.exit_code == 0
    assert result.stdout.startswith("TrainingJob team/sft-run is Running on 8 GPUs on a100 (run 1), 50% done, $")
    assert "Budget research pays up to $8.00 per job-hour saved." in result.stdout
    assert "from the 50% that it reported at" in result.stdout
    (chosen,) = [line for line in result.stdout.splitlines() if line.startswith("*")]
    assert " ".join(chosen.split()) == "* 8 GPUs on a100 $16.00 3.0 h $47.87 $0.00 - chosen declared it has them"
    assert "16 GPUs on a100 would win if the budget pays $" in result.stdout
    assert " instead of $8.00 (in the long run that takes about $" in result.stdout
    assert "a node of a100 costs $" in result.stdout
    assert "between two points" in result.stdout


def test_json_has_every_option_and_change(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.loads(charterer_over(running(), monkeypatch)("explain", "sft-run", "-o", "json").stdout)
    assert [option["gpus"] for option in said["options"] if option["chosen"]] == [8]
    assert len(said["options"]) == 7
    assert {option["rank"] for option in said["options"]} == {"chosen", "too dear", "slower and dearer"}
    assert {option["gpus"]: option["costOfEmptyGPUs"] for option in said["options"]}[4] == "41.29"
    assert said["paysPerHourSaved"] == "8.00"
    assert {change["gpus"] for change in said["changes"]} == {16}


def test_a_waiting_job_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = charterer_over(world_at(), monkeypatch)("explain", "sft-run").stdout
    assert "TrainingJob team/sft-run is Queued, submitted 0 s ago." in stdout
    assert "It waits (WaitingForNode): 8 GPUs on a100 wanted: it waits until a100-1 can take it." in stdout
    assert "the mean of its class; the job has not reported any progress" in stdout


def test_a_finished_job_has_a_short_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    job = world.jobs[JobId("sft-run")]
    finish = Finish(FinishKind.COMPLETE, after(world.now, -60), "Complete", "")
    world.jobs[job.id] = replace(job, finish=finish, allocation=None, runs=(), records=())
    result = charterer_over(world, monkeypatch)("explain", "sft-run")
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    assert "is Complete: 2026-06-16 02:59 UTC, 3.0 h after it was submitted" in result.stdout


def test_a_failed_job_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_at()
    job = world.jobs[JobId("sft-run")]
    finish = Finish(FinishKind.FAILED, world.now, "BackoffLimitExceeded", "run 4 failed: exit code 1")
    world.jobs[job.id] = replace(job, finish=finish)
    stdout = charterer_over(world, monkeypatch)("explain", "sft-run").stdout
    assert "is Failed (BackoffLimitExceeded: run 4 failed: exit code 1)" in stdout


def test_a_job_that_keeps_its_width_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    job = world.jobs[JobId("sft-run")]
    world.jobs[job.id] = replace(job, resize=ResizePolicy.NEVER)
    assert (
        "Its resizePolicy is Never: it keeps what it has"
        in charterer_over(world, monkeypatch)("explain", "sft-run").stdout
    )


def test_a_suspended_job_gets_no_gpus_and_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_at()
    job = world.jobs[JobId("sft-run")]
    world.jobs[job.id] = replace(job, suspend=True)
    stdout = charterer_over(world, monkeypatch)("explain", "sft-run").stdout
    assert "It gets no GPUs (Suspended): spec.suspend is true." in stdout
    assert "Its options" not in stdout


def full_pool() -> World:
    """A cheap pool with too little room for five jobs, and a dearer one."""
    world = World()
    world.budget(amount="1000")
    world.pool("near", price="16", max_nodes=2)
    world.pool("far", price="24")
    curve = SpeedCurve("far", Amdahl(0.97, 1.05))
    world.profile("sft", Amdahl(0.97, 1.0), gpu_type="near", work_hours=40, others=[curve])
    for number in range(5):
        world.job(f"j{number}", gpus=(1, 8, 32), profile="sft")
    return world


def test_a_class_that_mixes_says_for_which_part_of_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = charterer_over(full_pool(), monkeypatch)("explain", "j0").stdout
    assert re.search(
        r"New jobs of its class begin \d+% of them on \S.* and \d+% of them on \S.*: with this mix", stdout
    )


def test_a_width_where_runs_failed_is_named_with_the_end_of_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    failed = (FailedWidth("a100", 16, 1, world.now, "pod sft-r1-0 exited with 1: out of memory"),)
    world.profiles = {name: replace(profile, failed=failed) for name, profile in world.profiles.items()}
    run = charterer_over(world, monkeypatch)
    ended = "16 GPUs (a100) are no option until 2026-06-16 04:00 UTC: a run of its class failed there: pod"
    stdout = run("explain", "sft-run").stdout
    assert ended in stdout
    assert "16 GPUs on a100" not in stdout
    (alone,) = json.loads(run("explain", "sft-run", "-o", "json").stdout)["leftAlone"]
    assert alone["gpus"] == 16
    assert alone["until"].startswith("2026-06-16T04:00:00")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("sft-rum",), "no TrainingJob 'sft-rum' in namespace team: did you mean sft-run?"),
        (("xyz",), "no TrainingJob 'xyz' in namespace team: there is sft-run"),
        (("sft-run", "-n", "other"), "in namespace other: there is one in team: add -n team"),
        (("nope", "-n", "other"), "no TrainingJob 'nope' in namespace other: there is none"),
        (("pod/sft-run",), "'pod/sft-run': 'pod' is no kind of job; write tj/NAME"),
        (("tj/",), "names no job"),
        ((), "Missing argument '[KIND/]NAME'"),
    ],
)
def test_a_job_that_cannot_be_explained_is_an_error(
    arguments: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = charterer_over(world_at(), monkeypatch)("explain", *arguments)
    assert result.exit_code == 1
    assert told in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("prefix", ["", "tj/", "trainingjob/", "trainingjobs.charterer.dev/"])
def test_a_job_may_be_named_as_kubectl_names_it(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert charterer_over(world_at(), monkeypatch)("explain", f"{prefix}sft-run").exit_code == 0


def test_of_each_gpu_type_an_option_is_shown_though_it_is_slower_and_dearer(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget(ceiling="5")
    world.pool("new", gpus=8, price="8")
    world.pool("old", gpus=8, price="16")
    curve = PowerLaw(0.9, 1.0)
    world.profile("sft", curve, gpu_type="new", work_hours=40, others=[SpeedCurve("old", curve)])
    world.job("train", gpus=(4, 8, 8), profile="sft")
    charterer = charterer_over(world, monkeypatch)
    said, every = charterer("explain", "train").stdout, charterer("explain", "train", "--all").stdout
    assert said.count(" on old ") == 1
    assert every.count(" on old ") == 2
    assert "and 2 that are both slower and dearer: --all shows them\n" in said


def test_a_target_that_takes_more_than_the_budget_pays_is_explained_at_its_own_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = running(rate=1.0)
    job = JobId("sft-run")
    before = charterer_over(world, monkeypatch)("explain", "tj/sft-run").stdout
    world.jobs[job] = replace(world.jobs[job], target_completion=after(world.now, 3600.0 * 2))
    said = charterer_over(world, monkeypatch)("explain", "tj/sft-run").stdout
    assert "For this job, because of its targetCompletionTime, it pays $" not in before
    assert "Budget research pays up to $1.00 per job-hour saved. For this job, because of its target" in said
    assert "target 2026-" in said
    (paid,) = re.findall(r"because of its targetCompletionTime, it pays (\$[\d.]+)\.", said)
    assert re.search(
        r"would win if for this job the budget pays \S+ per job-hour saved instead of " + re.escape(paid), said
    )


def test_where_a_job_has_a_ceiling_below_what_the_budget_pays_options_win_at_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = running(size=1)
    world.budgets = {
        name: replace(budget, fixed_rate=None, amount=Money.parse("900000")) for name, budget in world.budgets.items()
    }
    world.job("whole", gpus=(64, 64, 64))
    said = charterer_over(world, monkeypatch)("explain", "tj/sft-run").stdout
    assert "Budget research pays up to $640.00 per job-hour saved. For this job it pays at most $80.00, 5 times" in said
    assert re.search(r"would win if for this job the budget pays \S+ per job-hour saved instead of \$80\.00", said)


def test_a_job_that_its_max_cost_does_not_let_start_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_at()
    job = JobId("sft-run")
    world.jobs[job] = replace(world.jobs[job], max_cost=Money.parse("20"))
    said = charterer_over(world, monkeypatch)("explain", "tj/sft-run").stdout
    told = "spec.maxCost is $20.00, and the cheapest way to finish (1 GPU on a100) needs $"
    assert said.count(told) == 1


def test_the_limits_of_the_jobs_own_are_told_with_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    job = world.jobs[JobId("sft-run")]
    just_missed = after(world.now, 80 * 60.0)
    world.jobs[job.id] = replace(job, target_completion=just_missed, max_cost=Money.parse("1000"))
    charterer = charterer_over(world, monkeypatch)
    said = charterer("explain", "sft-run").stdout
    assert "Its targetCompletionTime: target 2026-06-16T" in said
    assert " cannot be met: the fastest path ends 2026-06-16T" in said
    assert "Its maxCost: about $" in said
    assert "restart included; the budget pays any price per hour saved; target 2026" in said
    assert "because of its targetCompletionTime, it pays any price." in said
    limits = json.loads(charterer("explain", "sft-run", "-o", "json").stdout)["limits"]
    assert {kind: limit["reason"] for kind, limit in limits.items()} == {
        "OnTarget": "TargetMissed",
        "WithinMaxCost": "NotLimited",
    }


def test_a_budget_without_money_is_said_to_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget(amount="0")
    world.pool(gpus=8, price="16")
    world.job("sft-run", gpus=(1, 8, 32))
    said = charterer_over(world, monkeypatch)("explain", "sft-run").stdout
    assert "Budget research has no money: its spec.amount is 0." in said
    assert "pays up to" not in said


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        (None, "It names no class, so nothing is learned of its speed: set spec.profileName (docs/progress.md).\n"),
        (
            "sft",
            "No speedup curve is known until jobs of its class report (docs/progress.md), or SpeedupProfile sft "
            "declares one.\n",
        ),
    ],
)
def test_a_job_of_unknown_speed_is_told_what_would_make_it_known(
    profile: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.budget()
    world.pool(gpus=8, price="16")
    world.job("sft-run", gpus=(1, 8, 32), profile=profile)
    assert told in charterer_over(world, monkeypatch)("explain", "sft-run").stdout
    world.profile("sft", CURVE)
    world.job("sft-run", gpus=(1, 8, 32), profile="sft")
    assert told not in charterer_over(world, monkeypatch)("explain", "sft-run").stdout


def test_curves_of_gpu_types_that_no_pool_has_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget()
    world.pool(gpus=8, price="16")
    profile = world.profile("sft", CURVE)
    curves = tuple(replace(curve, gpu_type="H100") for curve in profile.phases[0].curves)
    phase = replace(profile.phases[0], curves=curves)
    world.profiles[profile.id] = replace(profile, phases=(phase,), declared=curves)
    world.job("sft-run", gpus=(1, 8, 32), profile="sft")
    said = charterer_over(world, monkeypatch)("explain", "sft-run").stdout
    assert "SpeedupProfile sft has curves of H100 only, and no pool among its options has that GPU type" in said
    assert "declares one" not in said


def test_pools_that_the_budget_leaves_out_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    text = "GPUBudget research rents only in GPUPools with team=a (spec.poolSelector), which leaves out h100.\n"
    assert text not in charterer_over(world, monkeypatch)("explain", "sft-run").stdout
    world.pool("a100", labels={"team": "a"})
    world.pool("h100")
    (budget,) = world.budgets.values()
    world.budgets = {budget.id: replace(budget, pool_selector=Selector((("team", "a"),)))}
    said = charterer_over(world, monkeypatch)("explain", "sft-run").stdout
    assert text in said
    assert "on h100" not in said


def test_explain_says_what_the_chosen_options_figures_count_and_how_each_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = running()
    ((name, pool),) = world.pools.items()
    rates = (0.5, 0.2, 0.1, 0.1)
    taken = Hazard(rates, joint=0.5, announced=0.0, overall=0.2, low=0.1, high=0.4, deaths=0.0, node_hours=0.0)
    world.pools[name] = replace(pool, capacity_type=CapacityType.SPOT, hazard=taken)
    world.jobs = {key: replace(job, spot=SpotPolicy.ALLOWED) for key, job in world.jobs.items()}
    charterer = charterer_over(world, monkeypatch)
    said = charterer("explain", "tj/sft-run").stdout
    lines = {line.split()[0]: " ".join(line.split()) for line in said.splitlines() if line}
    assert "its share of spot nodes of 8 GPUs (a100)" in lines["price"]
    assert lines["speed"].endswith("declared")
    assert "of the speed with a checkpoint every" in lines["interruptions"]
    assert lines["interruptions"].endswith("assumed")
    options = json.loads(charterer("explain", "tj/sft-run", "-o", "json").stdout)["options"]
    assert {figure["what"] for option in options for figure in option["counts"]} >= {"price", "speed", "interruptions"}
    starts = {option["nodes"] for option in options if "start" in {figure["what"] for figure in option["counts"]}}
    assert starts == {"to be rented"}  # not those with nodes that it has, or that are ready


def test_a_profile_that_cannot_be_used_is_named_with_its_cause_and_not_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.budget()
    world.pool(gpus=8, price="16")
    world.job("sft-run", gpus=(1, 8, 32), profile="sft")
    for _ in range(2):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    cause = "SpeedupProfile 'sft' cannot be used: spec.curves[0].throughput: throughput falls"
    problem = Problem("TrainingJob", NAMESPACE, "sft-run", "spec.profileName", "CurveNotIncreasing", cause)
    said = charterer_over(world, monkeypatch, problem)("explain", "sft-run").stdout
    assert f"spec.profileName: {cause}.\n" in said
    assert "(CurveNotIncreasing): 8 GPUs on a100" in said  # the word of the column Why
    assert "No speedup curve is known until" not in said


def test_with_a_target_only_what_the_target_pays_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    world.budgets = {
        name: replace(budget, fixed_rate=None, amount=Money.parse("900000")) for name, budget in world.budgets.items()
    }
    job = world.jobs[JobId("sft-run")]
    just_missed = after(world.now, 80 * 60.0)
    world.jobs[job.id] = replace(job, target_completion=just_missed)
    said = charterer_over(world, monkeypatch)("explain", "sft-run").stdout
    assert "because of its targetCompletionTime, it pays any price." in said
    assert "it pays at most" not in said


def test_what_the_operator_found_to_hold_the_run_up_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running()
    charterer = charterer_over(world, monkeypatch)
    seen = seen_of(world)
    (key,) = seen.jobs
    told = ToldBottleneck("SlowWorker", "SlowerThanPeers", "pod 1 is slow: $4.00 an hour")
    job = replace(seen.jobs[key], held_up=(told,), not_starting="its submitter: refused")
    held_up = replace(seen, jobs={key: job})
    monkeypatch.setattr(
        "charterer.tools.commands.explain.command.read", lambda cluster: ClusterReading(held_up, world.now, NAMESPACE)
    )
    text = charterer("explain", "tj/sft-run").stdout
    assert "SlowWorker: pod 1 is slow: $4.00 an hour." in text
    assert "its submitter: refused." in text
    answer = json.loads(charterer("explain", "tj/sft-run", "-o", "json").stdout)
    assert answer["heldUp"] == {"SlowWorker": {"reason": told.reason, "message": told.message}}
    assert answer["notStarting"] == "its submitter: refused"
