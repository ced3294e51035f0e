"""`charterer doctor`: one line for each check, with what to do about what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from charterer.api.models.base import Condition, ConditionStatus
from charterer.api.models.trainingjob_status import JobState, TrainingJobView
from charterer.api.names import ConditionType
from charterer.api.words.jobs import REASONS
from charterer.cli.main import main
from charterer.cluster.client import Listing, RawObject
from charterer.cluster.store import ObjectKey
from charterer.domain.errors import Problem
from charterer.domain.ids import PoolId, RentalId
from charterer.domain.job import Allocation, Placement
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.snapshot import OperatorLimits
from charterer.domain.target import Target, TargetRef
from charterer.domain.time import Instant
from charterer.tools.commands.doctor.checks import Finding, JobTally, OwnReading, Right
from charterer.tools.commands.doctor.command import DoctorReading, doctor_document, examine, read_for_doctor
from charterer.tools.commands.shared.leader import LeaderSeen
from charterer.tools.commands.shared.one_namespace import OwnJob, OwnJobs
from charterer.tools.documents.document import Paragraph, Tone
from charterer.tools.documents.html import TextRenderer
from tests import factory as make
from tests.unit.cli.worlds import seen_of
from tests.worlds import NAMESPACE, World

LEADS = LeaderSeen("charterer-0", "operators")
RIGHTS = (Right("pods", True),)


def raw(name: str, kind: str = "Ready", status: str = "True", **more: str) -> RawObject:
    """A pool or budget with one condition."""
    return {
        "metadata": {"name": name},
        "status": {"state": more.pop("state", "Ready"), "conditions": [{"type": kind, "status": status, **more}]},
    }


def healthy() -> tuple[World, DoctorReading]:
    world = World()
    world.budget("research", amount="60000")
    world.pool("a100", gpus=8, price="19.80")
    world.job("train", gpus=(1, 8, 32))
    prices = raw("research", "PriceDataFresh")
    return world, DoctorReading(LEADS, RIGHTS, seen_of(world), (raw("a100"),), (prices,))


def wrong(reading: DoctorReading) -> list[Finding]:
    return [finding for finding in examine(reading) if finding.remedy]


def test_a_healthy_cluster_has_a_line_of_every_check_and_nothing_to_do() -> None:
    _, reading = healthy()
    findings = examine(reading)
    assert wrong(reading) == []
    checks = ["leader", "permissions", "pools", "prices", "budgets", "namespaces"]
    assert [finding.check for finding in findings] == checks
    assert "8 x" in findings[2].text
    assert "$19.80/h" in findings[2].text


def test_the_operators_own_limits_are_a_line_of_their_own() -> None:
    _, reading = healthy()
    assert reading.state is not None
    limited = replace(reading.state, limits=OperatorLimits(40, Price.parse("500")))
    (limits,) = (finding for finding in examine(replace(reading, state=limited)) if finding.check == "limits")
    assert (limits.text, limits.remedy) == ("may have 40 nodes and $500.00/h in all (chart values limits)", "")


def test_nobody_who_leads_is_said_with_where_to_look() -> None:
    _, reading = healthy()
    (finding,) = wrong(replace(reading, leader=LeaderSeen("x", "operators", "the operator's Lease is 40 s old")))
    assert (finding.check, finding.text) == ("leader", "the operator's Lease is 40 s old")
    assert finding.remedy.startswith("kubectl -n operators get pods")
    (unknown,) = wrong(replace(reading, leader=None))
    assert "may not be read" in unknown.text


def own(*jobs: OwnJob) -> DoctorReading:
    """What somebody reads who has rights in one namespace only."""
    rights = (Right("nodes", False), Right("pods", False), *RIGHTS)
    return DoctorReading(None, rights, None, own=OwnReading(OwnJobs(NAMESPACE, jobs, Instant(0)), ()))


def seen(state: JobState | None, why: str = "", **conditions: tuple[str, str, str]) -> OwnJob:
    """A job with conditions: status, reason and message of each."""
    dated = [
        Condition(
            type=ConditionType(kind),
            status=ConditionStatus(status),
            reason=reason,
            message=message,
            last_transition_time=Instant(0),
        )
        for kind, (status, reason, message) in conditions.items()
    ]
    return OwnJob(NAMESPACE, "mine", None, TrainingJobView(state=state, why=why, conditions=tuple(dated)))


def test_checks_that_need_rights_in_the_whole_cluster_are_one_skipped_line_and_no_fault() -> None:
    runs = seen(JobState.RUNNING, Admitted=("True", "Accepted", "paid"), PodsReady=("True", "AllReady", ""))
    skipped, jobs = examine(own(runs))
    assert (skipped.skipped, skipped.remedy) == (True, "")
    assert "you may not list nodes, pods in the whole cluster; somebody with a ClusterRoleBinding to" in skipped.text
    assert (jobs.subject, jobs.text) == ("namespace team", "has 1 TrainingJob that needs nothing")
    text = TextRenderer(None, colour=False).render(doctor_document((skipped, jobs), JobTally(1)))
    assert "-- skipped: " in text
    assert "All that was looked at is well: 1 job runs." in text


@pytest.mark.parametrize(
    ("job", "text", "remedy"),
    [
        (seen(None), "no operator has looked at it yet", "if it lasts"),
        (
            seen(JobState.INVALID, "Invalid", Admitted=("False", "InvalidTemplate", "image: required")),
            "is refused: image: required",
            "correct what the condition `Admitted` names",
        ),
        (
            seen(JobState.QUEUED, "NoBudget", Admitted=("False", "NoBudget", "no GPUBudget selects it")),
            "is refused: no GPUBudget selects it",
            "create a GPUBudget",
        ),
        (
            seen(JobState.STARTING, "Rigid", PodsReady=("False", "NotStarting", "0 of 1: no such image")),
            "does not start: 0 of 1: no such image",
            "correct that in its template",
        ),
        (
            seen(JobState.QUEUED, "NoOption", CapacityAvailable=("False", "NoOption", "pools have A100")),
            "(NoOption): pools have A100",
            "compare `spec.gpus`",
        ),
        (
            seen(JobState.CANNOT_START, "CannotStart", Failed=("True", "CannotStart", "no such image")),
            "could not start: no such image",
            "correct that in its template, delete it",
        ),
        (
            seen(JobState.RUNNING, "NoCurve", Admitted=("True", "ProfileNotFound", "spec.profileName: none")),
            "is not as it says: spec.profileName: none",
            "correct the field",
        ),
        (
            seen(JobState.QUEUED, "PoolFull", CapacityAvailable=("False", "PoolFull", "4 GPUs on a100 wanted")),
            "waits (PoolFull): 4 GPUs on a100 wanted",
            "",
        ),
    ],
)
def test_a_job_of_ones_own_says_what_it_needs_or_waits_for(job: OwnJob, text: str, remedy: str) -> None:
    _, found = examine(own(job))
    assert (found.subject, found.text) == ("TrainingJob team/mine", text)
    assert found.remedy.startswith(remedy)
    assert bool(found.remedy) is bool(remedy)


def holding(name: str, hourly: str, target: TargetRef | None = None) -> OwnJob:
    """A job whose pods do not start on GPUs that cost so much."""
    option = Option(PoolId("a100"), 4, 1.0, Price.parse(hourly))
    held = Allocation(1, option, (Placement(RentalId("a100-1"), 4),), Instant(0))
    waits = seen(JobState.STARTING, "Rigid", PodsReady=("False", "NotStarting", "no such image"))
    return replace(waits, name=name, job=make.job(name, target=target, allocation=held))


def test_jobs_of_all_namespaces_are_checked_and_what_costs_most_while_nobody_acts_comes_first() -> None:
    _, reading = healthy()
    whisper = holding("record", "55", TargetRef("batch/v1", "Job", "whisper", "u"))
    jobs = (seen(JobState.QUEUED, "MaxCost"), holding("dear", "20"), seen(JobState.RUNNING), whisper)
    ill = replace(reading, own=OwnReading(OwnJobs("", jobs, Instant(0))))
    text = TextRenderer(None, colour=False).render(doctor_document(examine(ill), JobTally.of(ill.own.jobs)))
    wrongs = [line.split(" To do:")[0] for line in text.splitlines() if line.strip().startswith("!!")]
    assert wrongs == [
        "  !! jobs: Job team/whisper does not start: no such image ($55.00/h meanwhile).",  # what its owner made
        "  !! jobs: TrainingJob team/mine does not start: no such image ($20.00/h meanwhile).".replace("mine", "dear"),
        "  !! jobs: TrainingJob team/mine (MaxCost): .",
    ]
    assert text.splitlines()[-1].endswith("found something wrong.")


@pytest.mark.parametrize("code", [code for code, meaning in REASONS.items() if meaning.needs_person])
def test_a_job_that_waits_for_a_person_is_never_well(code: str) -> None:
    (found,) = [each for each in examine(own(seen(JobState.QUEUED, code))) if not each.skipped]
    assert found.remedy


def test_all_is_well_says_how_many_run_and_wait() -> None:
    jobs = (seen(JobState.RUNNING), seen(JobState.QUEUED, "PoolFull"), seen(JobState.COMPLETE))
    _, reading = healthy()
    well = replace(reading, own=OwnReading(OwnJobs("", jobs, Instant(0))))
    last = doctor_document(examine(well), JobTally.of(well.own.jobs)).blocks[-1]
    assert last == Paragraph("All is well: 1 job runs, 1 waits for what passes by itself.", Tone.GOOD)


def test_an_object_that_is_held_without_a_record_is_told_to_whoever_reads_one_namespace_only() -> None:
    """As where the operator may not adopt it."""
    ref = TargetRef("batch/v1", "Job", "sft", "u")
    held = Target(ref, NAMESPACE, "1", Instant(0), suspended=True, held=True)
    mine = own()
    later = replace(mine.own.jobs, now=Instant(60_000_000))
    (found,) = wrong(replace(mine, own=OwnReading(later, targets=(held,))))
    assert (found.subject, found.text) == ("Job team/sft", "is held, and no TrainingJob was made for it")
    assert found.remedy.startswith("kubectl -n team describe job sft")
    recorded = replace(later, jobs=(replace(seen(JobState.QUEUED, "PoolFull"), job=make.job("sft", target=ref)),))
    assert not wrong(replace(mine, own=OwnReading(recorded, targets=(held,))))
    assert not wrong(replace(mine, own=OwnReading(mine.own.jobs, targets=(held,))))  # it has just come


@pytest.mark.parametrize("state", [JobState.COMPLETE, JobState.FAILED])
def test_jobs_that_have_ended_are_no_matter_of_the_doctor(state: JobState) -> None:
    assert [finding.check for finding in examine(own(seen(state)))] == ["skipped"]


@pytest.mark.parametrize(
    ("pool", "text", "remedy"),
    [
        (raw("a100", status="False", state="GroupTaken", message="as b"), "is GroupTaken: as b", "delete one"),
        (raw("a100", status="False", state="Novel", message="?"), "is Novel: ?", "kubectl describe gpupools"),
        ({"metadata": {"name": "a100"}}, "no operator has looked at it yet", "wait half a minute"),
        (
            raw("a100", status="False", state="NoPrice", message="no spot price: set spec.price.hourly"),
            "is NoPrice: no spot price: set spec.price.hourly",
            "set `spec.price.hourly`, or",
        ),
        (raw("a100", status="False", state="Deleting", message="waits"), "is Deleting: waits", "if it lasts, see the"),
        (raw("other"), "its price is not known", "set spec.price.hourly"),
    ],
)
def test_a_pool_that_cannot_be_used_says_why_and_what_to_do(pool: RawObject, text: str, remedy: str) -> None:
    _, reading = healthy()
    (finding,) = wrong(replace(reading, pools=(pool,)))
    assert finding.text == text
    assert finding.remedy.startswith(remedy)


@pytest.mark.parametrize(("more", "told"), [("", ["pools"]), ("; quota: used up", ["pools", "preflight"])])
def test_what_keeps_a_pool_from_being_ready_is_not_told_again_as_a_failed_check(more: str, told: list[str]) -> None:
    _, reading = healthy()
    pool = raw("a100", status="False", state="Unreachable", message="no route")
    pool["status"]["conditions"].append({"type": "Preflight", "status": "False", "message": f"group: no route{more}"})
    assert [finding.check for finding in wrong(replace(reading, pools=(pool,)))] == told


def test_old_prices_are_told_once_in_the_operators_words() -> None:
    _, reading = healthy()
    stale = {"status": "False", "message": "no fresh price of a100"}
    budgets = (raw("research", "PriceDataFresh", **stale), raw("nlp", "PriceDataFresh", **stale))
    (finding,) = wrong(replace(reading, budgets=budgets))
    assert (finding.check, finding.text) == ("prices", "lack prices: no fresh price of a100")


def test_a_record_of_costs_that_takes_nothing_is_told_once_with_the_cause_and_one_that_does_is_right() -> None:
    _, reading = healthy()
    full = {"status": "False", "message": "rentals stay: the volume is full"}
    budgets = (raw("research", "CostsRecorded", **full), raw("nlp", "CostsRecorded", **full))
    (finding,) = wrong(replace(reading, budgets=budgets))
    assert (finding.check, finding.text) == ("costs", "takes nothing: rentals stay: the volume is full")
    taken = replace(reading, budgets=(raw("research", "CostsRecorded"),))
    assert not wrong(taken)
    assert "takes what rentals cost" in [finding.text for finding in examine(taken) if finding.check == "costs"]


def test_without_a_pool_that_is_all_that_is_said_of_pools() -> None:
    world, reading = healthy()
    world.pools.clear()
    stale = raw("research", "PriceDataFresh", status="False", message="no pool's price is known")
    found = wrong(replace(reading, state=seen_of(world), pools=(), budgets=(stale,)))
    assert [finding.check for finding in found] == ["pools"]


def test_a_namespace_with_jobs_that_nobody_pays_for_is_told() -> None:
    world, reading = healthy()
    state = seen_of(world)
    decoded = state.jobs[ObjectKey(NAMESPACE, "train")]
    stray = replace(decoded, job=replace(decoded.job, namespace="vision"))
    found = wrong(replace(reading, state=replace(state, jobs={**state.jobs, ObjectKey("vision", "train"): stray})))
    assert [finding.text for finding in found] == ["has 1 TrainingJob and no GPUBudget selects it"]


def test_a_cluster_without_an_unfinished_job_is_told_as_such() -> None:
    _, reading = healthy()
    assert reading.state is not None
    quiet = replace(reading, state=replace(reading.state, jobs={}))
    (finding,) = (finding for finding in examine(quiet) if finding.check == "namespaces")
    assert (finding.text, finding.remedy) == ("are all finished: none waits for a budget", "")


def test_an_object_that_cannot_be_used_is_named_by_field() -> None:
    world, reading = healthy()
    broken = Problem("GPUPool", "", "b", "spec.price", "InvalidSpec", "a price is a number")
    (finding,) = wrong(replace(reading, state=seen_of(world, broken)))
    assert (finding.subject, finding.text) == ("GPUPool b", "cannot be used: spec.price: a price is a number")


def test_an_empty_cluster_is_told_what_it_lacks() -> None:
    reading = DoctorReading(LEADS, RIGHTS, seen_of(World()))
    assert [(finding.check, finding.subject) for finding in wrong(reading)] == [
        ("pools", "no GPUPool"),
        ("budgets", "no GPUBudget"),
    ]


def ran(monkeypatch: pytest.MonkeyPatch, reading: DoctorReading, *arguments: str) -> Result:
    monkeypatch.setattr("charterer.tools.commands.doctor.command.read_with", lambda cluster, reader: reading)
    return CliRunner().invoke(main, ["doctor", *arguments])


def test_the_exit_code_and_the_last_sentence_say_whether_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    _, reading = healthy()
    well = ran(monkeypatch, reading)
    assert (well.exit_code, well.output.splitlines()[-1]) == (0, "All is well.")
    assert well.output.startswith(
        "  OK leader: charterer-0 leads, in namespace operators: it renewed its Lease in the last 10 s\n"
    )
    ill = ran(monkeypatch, replace(reading, pools=()))
    assert ill.exit_code == 1
    assert "!! pools: no GPUPool exists, so nothing can be rented. To do: apply one" in ill.output
    assert ill.output.splitlines()[-1] == "1 of 5 checks found something wrong."


def test_programs_get_the_same_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    _, reading = healthy()
    answer = json.loads(ran(monkeypatch, replace(reading, pools=()), "-o", "json").output)
    assert answer["ok"] is False
    assert [finding["check"] for finding in answer["findings"] if not finding["ok"]] == ["pools"]


async def test_what_may_not_be_listed_is_not_read() -> None:
    class Cluster:
        async def post(self, path: str, body: dict[str, Any]) -> RawObject:
            return {"status": {"allowed": body["spec"]["resourceAttributes"]["resource"] != "nodes"}}

        async def list(self, path: str, *, fields: str = "", labels: str = "") -> Listing:
            return Listing((), 1)

    client: Any = Cluster()
    reading = await read_for_doctor(client, NAMESPACE)
    assert reading.state is None
    assert reading.own is not None
    assert reading.own.jobs.namespace == NAMESPACE
    assert [right.resource for right in reading.rights if not right.allowed] == ["nodes"]


def test_a_set_is_a_line_with_its_pools_or_with_what_to_do() -> None:
    _, reading = healthy()
    fine = raw("gpu", message="18 GPUPools are as declared")
    fine["status"]["readyPools"] = 17
    (line,) = [each for each in examine(replace(reading, pool_sets=(fine,))) if each.subject == "GPUPoolSet gpu"]
    assert (line.text, line.remedy) == ("is Ready: 18 GPUPools are as declared, 17 ready", "")
    taken = raw("gpu", status="False", state="Incomplete", reason="NameTaken", message="GPUPool gpu-a: is there")
    (line,) = wrong(replace(reading, pool_sets=(taken,)))
    assert line.text == "is Incomplete: GPUPool gpu-a: is there"
    assert line.remedy.startswith("delete that GPUPool, or rename a value")
    (line,) = wrong(replace(reading, pool_sets=({"metadata": {"name": "gpu"}},)))
    assert line.text == "no operator has looked at it yet"
