"""Jobs that teams already have: held, placed, started and ended in place, on the real API server and Job controller."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import pytest

from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError, Forbidden
from charterer.cluster.paths import GPU_BUDGETS, JOBS, NAMESPACES, TRAINING_JOBS
from tests.cluster.adopted_jobs import (
    annotate,
    as_written,
    create,
    delete_jobs,
    edit_budget,
    end_pods,
    ended,
    give_up,
    job,
    once_held,
    own_annotations,
    plain_job,
    pods,
    run_of,
    running,
    told,
    twin,
    unlabel,
    unusual_job,
)
from tests.cluster.test_own_jobs import engineer
from tests.lanes import repeats
from tests.testbed.bed import API, SYSTEM, Bed, group


@pytest.fixture(autouse=True)
async def _without_jobs_in_the_end(bed: Bed) -> AsyncIterator[None]:
    yield
    await delete_jobs(bed)


async def test_a_labelled_job_is_held_placed_and_started_and_its_end_is_its_own(bed: Bed) -> None:
    await bed.budget()
    await once_held(bed)
    held = await create(bed, plain_job("whisper", pods=2, gpus=4))
    assert held["spec"]["suspend"] is True
    assert own_annotations(held) == {"charterer.dev/held": "true"}
    bed.operator()
    await bed.pool()
    await bed.running("whisper")
    assert len(running(bed, "whisper")) == 2
    shadow = bed.tj("whisper")
    assert (shadow["gpus"], shadow["allocation"]["run"]) == (8, 1)
    assert job(bed, "whisper")["spec"]["suspend"] is False
    await end_pods(bed, "whisper")
    await bed.until(lambda: ended(bed, "whisper") == "Complete")
    await bed.complete("whisper")
    assert [pod["status"]["phase"] for pod in pods(bed, "whisper")] == ["Succeeded"] * 2
    assert job(bed, "whisper")["metadata"]["labels"].keys() >= {"team"}


async def test_an_operator_that_is_to_adopt_no_jobs_lets_held_ones_go_and_says_so(bed: Bed) -> None:
    await bed.budget()
    await once_held(bed)
    held = await create(bed, plain_job("whisper"))
    assert held["spec"]["suspend"] is True
    bed.operator(not_adopted=frozenset({"Job"}))
    await bed.pool()
    await bed.until(lambda: job(bed, "whisper")["spec"]["suspend"] is False)
    assert "charterer.dev/held" not in job(bed, "whisper")["metadata"].get("annotations", {})
    await bed.until(lambda: told(bed, "whisper"))
    assert told(bed, "whisper") == ["this operator adopts no Jobs (chart value adoption.kinds)"]
    assert not bed.rentals()


@pytest.mark.repeats  # test_adoption_faults.py, with kills; that nodes are closed first: unit lifecycle test_closing.py
@pytest.mark.groups(group("a100", billingMinimumSeconds=3600))
async def test_a_job_is_given_back_as_its_author_wrote_it_when_the_label_is_taken_away(bed: Bed) -> None:
    """Its pods do not begin on its machine again, which is paid for as long as for nobody else."""
    await bed.budget()
    await once_held(bed)
    wanted = plain_job("whisper", pods=2, gpus=2)
    wanted["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "fast"}
    written = await twin(bed, wanted)
    await create(bed, wanted)
    bed.operator()
    await bed.pool(labels={"disk": "fast"})
    await bed.until(lambda: bed.tj("whisper").get("allocation"))
    await bed.until(lambda: job(bed, "whisper")["spec"]["suspend"] is False)
    await unlabel(bed, "whisper")
    await bed.until(lambda: bed.mirror.one(TRAINING_JOBS, "whisper", bed.namespace) is None)
    assert as_written(job(bed, "whisper")) == written
    assert not bed.rentals("Ready")
    await bed.until(lambda: pods(bed, "whisper"))
    await bed.given_back()
    assert not any(pod["spec"].get("nodeName") for pod in pods(bed, "whisper"))


@pytest.mark.repeats  # tests/unit/lifecycle/test_adopted.py; the move: test_adopted_kinds.py
async def test_a_lost_node_moves_the_job_and_its_own_failures_are_its_controllers_matter(bed: Bed) -> None:
    await bed.budget()
    await once_held(bed)
    bed.operator()
    await bed.pool()
    await create(bed, plain_job("whisper", backoffLimit=3))
    await bed.running("whisper")
    await end_pods(bed, "whisper", exit_code=1)
    await bed.until(lambda: (job(bed, "whisper")["status"].get("failed"), len(running(bed, "whisper"))) == (1, 1))
    assert (bed.run("whisper"), bed.tj("whisper").get("runs")) == (1, None)
    (pod,) = running(bed, "whisper")
    await bed.cloud.admin("POST", f"/instances/{pod['spec']['nodeName']}/kill", {"nodeObject": "silent"})
    await bed.until(lambda: bed.run("whisper") == 2 and running(bed, "whisper"))
    assert [record["outcome"] for record in bed.tj("whisper")["runs"]] == ["Interrupted"]
    (moved,) = running(bed, "whisper")
    assert moved["spec"]["nodeName"] != pod["spec"]["nodeName"]
    assert run_of(moved) == "2"
    await end_pods(bed, "whisper")
    await bed.until(lambda: ended(bed, "whisper") == "Complete")
    await bed.complete("whisper")


@pytest.mark.parametrize("asked", ["GiveBack", *repeats("Fail")])  # Fail: test_adoption_faults.py, with kills
async def test_a_job_that_is_given_up_has_an_end_that_those_who_wait_for_it_see_or_is_given_back(
    bed: Bed, asked: str
) -> None:
    await bed.budget()
    await once_held(bed)
    bed.operator()
    await bed.pool()
    await create(bed, plain_job("whisper"), {"when-given-up": asked})
    await bed.running("whisper")
    await give_up(bed, "whisper")
    if asked == "GiveBack":
        await bed.until(lambda: job(bed, "whisper")["spec"]["suspend"] is False and not _notes(bed, "whisper"))
        assert ended(bed, "whisper") == ""
        return
    await bed.until(lambda: ended(bed, "whisper") == "Failed")
    raw = job(bed, "whisper")
    assert raw["metadata"]["annotations"]["charterer.dev/given-up"] == "MaxRestartsExceeded: run 1 was interrupted"
    assert not [pod for pod in pods(bed, "whisper") if pod["metadata"]["labels"]["charterer.dev/run"] != "1"]
    assert not running(bed, "whisper")


TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
_FORCED = ("--server-side", "--field-manager=gitops", "--force-conflicts")


@pytest.mark.parametrize(
    ("what", "flags"),
    [
        pytest.param("suspend", _FORCED, id="suspend-server"),
        pytest.param("tolerations", (), id="tolerations-client", marks=pytest.mark.repeats),
        pytest.param("suspend", (), id="suspend-client", marks=pytest.mark.repeats),
        pytest.param("tolerations", _FORCED, id="tolerations-server", marks=pytest.mark.repeats),
    ],
)
async def test_its_manifest_applied_again_while_it_runs_changes_nothing(
    bed: Bed, flags: tuple[str, ...], what: str
) -> None:
    """As GitOps does all the time. Kubernetes refuses to change the template of a Job that runs."""
    await bed.budget()
    await once_held(bed)
    bed.operator()
    await bed.pool()
    body = plain_job("whisper", pods=2)
    body["metadata"]["namespace"] = bed.namespace
    if what == "suspend":
        body["spec"]["suspend"] = True
    else:
        body["spec"]["template"]["spec"]["tolerations"] = [TOLERATION]
    text = json.dumps(body)
    bed.plane.kubectl("apply", *flags, "-f", "-", input=text)
    await bed.running("whisper")
    before, tolerated = {pod["metadata"]["uid"] for pod in running(bed, "whisper")}, _tolerations(bed)
    bed.plane.kubectl("apply", *flags, "-f", "-", input=text)
    if what == "suspend":
        await bed.until(lambda: [said for said in told(bed, "whisper") if "was not followed" in said])
    assert (job(bed, "whisper")["spec"]["suspend"], _tolerations(bed)) == (False, tolerated)
    assert {pod["metadata"]["uid"] for pod in running(bed, "whisper")} == before


def _tolerations(bed: Bed) -> list[RawObject]:
    found: list[RawObject] = job(bed, "whisper")["spec"]["template"]["spec"]["tolerations"]
    return found


@pytest.mark.repeats  # tests/unit/workloads/test_adopted_job.py; test_rules_runs.py
async def test_its_author_stops_it_by_an_annotation_and_lets_it_go_on(bed: Bed) -> None:
    await bed.budget()
    await once_held(bed)
    bed.operator()
    await bed.pool()
    await create(bed, plain_job("whisper"))
    await bed.running("whisper")
    await annotate(bed, "whisper", suspend="true")
    await bed.until(lambda: bed.state("whisper") == "Suspended" and not bed.rentals("Ready"))
    assert [record["outcome"] for record in bed.tj("whisper")["runs"]] == ["Stopped"]
    assert job(bed, "whisper")["spec"]["suspend"] is True
    await annotate(bed, "whisper", suspend="false")
    await bed.running_again("whisper", after=1)


@pytest.mark.parametrize(
    ("labels", "annotations", "said"),
    [
        ({"charterer.dev/adopt": "yes"}, {}, 'charterer.dev/adopt is "yes": set it to "true"'),
        ({"charterer.dev/adpot": "true"}, {}, "the label charterer.dev/adpot says nothing to Charterer here"),
        ({}, {"charterer.dev/maxcost": "5"}, "known annotations are charterer.dev/gpus"),
    ],
)
async def test_a_word_that_is_typed_wrong_is_refused_with_those_that_are_known(
    bed: Bed, labels: dict[str, str], annotations: dict[str, str], said: str
) -> None:
    await bed.budget()
    body = plain_job("whisper")
    body["metadata"] |= {"labels": {"charterer.dev/adopt": "true"} | labels, "annotations": annotations}
    with pytest.raises(ApiError, match=re.escape(said)):
        await bed.kube.post(JOBS.all(bed.namespace), body, dry_run=True)
    wrong = {"metadata": {"annotations": {"charterer.dev/stpo": "rent"}}}
    with pytest.raises(ApiError, match=r"known annotations are charterer\.dev/stop"):
        await bed.kube.merge_patch(NAMESPACES.one(bed.namespace), wrong)
    with pytest.raises(ApiError, match=r"known annotations are none"):
        await bed.kube.merge_patch(GPU_BUDGETS.one("team"), wrong)


async def test_a_node_with_a_word_that_says_nothing_is_made_and_its_maker_is_warned(bed: Bed) -> None:
    await bed.budget()

    def warnings(label: str) -> list[str]:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "typed", "labels": {label: "a100"}}}
        return bed.plane.warnings("POST", "/api/v1/nodes?dryRun=All", body)

    [told] = warnings("charterer.dev/poool")
    assert told.startswith("299 ")
    assert "the label charterer.dev/poool says nothing to Charterer here" in told
    assert warnings("charterer.dev/pool") == []


def _notes(bed: Bed, name: str) -> list[str]:
    """What Charterer has noted on the Job."""
    kept = job(bed, name)["metadata"].get("annotations") or {}
    return [key for key in kept if key in ("charterer.dev/held", "charterer.dev/original")]


async def test_what_its_author_asks_for_later_moves_it_and_changes_its_width_in_place(bed: Bed) -> None:
    await bed.budget()
    await once_held(bed)
    bed.operator()
    await bed.pool()
    await create(bed, plain_job("whisper", pods=2), {"gpus": "4..8", "resize": "InPlace"})
    await bed.running("whisper")
    before = {pod["metadata"]["uid"] for pod in running(bed, "whisper")}
    await annotate(bed, "whisper", gpus="12..16")
    await bed.until(lambda: len(running(bed, "whisper")) == 3 and bed.tj("whisper").get("gpus") == 12)
    spec = job(bed, "whisper")["spec"]
    assert (bed.run("whisper"), spec["parallelism"], spec["completions"]) == (1, 3, 3)
    assert before < {pod["metadata"]["uid"] for pod in running(bed, "whisper")}
    await annotate(bed, "whisper", gpus="8..8")
    await bed.until(lambda: len(running(bed, "whisper")) == 2 and bed.tj("whisper").get("gpus") == 8)
    assert before == {pod["metadata"]["uid"] for pod in running(bed, "whisper")}
    assert job(bed, "whisper")["spec"]["backoffLimit"] == 6
    await annotate(bed, "whisper", gpus="4..4", resize="Restart")
    await bed.until(lambda: [run_of(pod) for pod in running(bed, "whisper")] == ["2"])
    assert (bed.run("whisper"), job(bed, "whisper")["spec"]["completions"]) == (2, 1)


@pytest.mark.repeats  # test_adoption_faults.py; test_observe_first.py
async def test_where_a_budget_only_observes_nothing_is_held_and_when_it_begins_to_all_is_given_back(bed: Bed) -> None:
    await bed.budget(mode="Observe")
    free = await create(bed, plain_job("free"))
    assert free["spec"]["suspend"] is False
    assert not own_annotations(free)
    bed.operator()
    await bed.pool(labels={"disk": "fast"})
    await edit_budget(bed, mode="Enforce")
    await once_held(bed)
    asks: dict[str, tuple[RawObject, dict[str, str]]] = {
        "held": (plain_job("held"), {}),
        "waits": (plain_job("waits", pods=11, indexed=False), {}),
        "odd": (plain_job("odd"), {"gpus": "many"}),
        "unusual": (unusual_job("unusual"), {"gpus": "2..2", "resize": "Restart"}),
    }
    written = {name: await twin(bed, body, said) for name, (body, said) in asks.items()}
    for body, said in asks.values():
        await create(bed, body, said)
    await bed.running("held")
    await bed.until(lambda: told(bed, "odd") and job(bed, "unusual")["spec"]["suspend"] is False)
    assert job(bed, "unusual")["spec"]["completions"] == 1
    assert "charterer.dev/gpus is 'many'" in told(bed, "odd")[0]
    assert bed.mirror.one(TRAINING_JOBS, "odd", bed.namespace) is None
    assert bed.mirror.one(TRAINING_JOBS, "free", bed.namespace) is not None  # none of its pods has begun
    await edit_budget(bed, mode="Observe")
    await bed.until(lambda: not bed.mirror.all(TRAINING_JOBS, bed.namespace))
    names = ("free", *asks)
    await bed.until(lambda: all(job(bed, name)["spec"]["suspend"] is False for name in names))
    assert {name: as_written(job(bed, name)) for name in asks} == written
    assert as_written(job(bed, "free")) == as_written(free)


async def test_who_may_only_edit_starts_no_held_job_and_the_operator_changes_nothing_else(bed: Bed) -> None:
    await bed.budget()
    await once_held(bed)
    await create(bed, plain_job("held"))
    await create(bed, {**plain_job("other"), "metadata": {"name": "other"}})
    suspend = {"spec": {"suspend": False}}
    path = JOBS.one("held", bed.namespace)
    person = engineer(bed)
    async with await Client.connect(person) as editor:
        with pytest.raises(Forbidden, match="Charterer starts this Job when GPUBudget team has the money") as refused:
            await editor.merge_patch(path, suspend)
        assert "remove the label charterer.dev/adopt to run it yourself" in refused.value.message
        with pytest.raises(ApiError, match=r"spec\.targetRef is the operator's"):
            await editor.post(TRAINING_JOBS.all(bed.namespace), _shadow_by_hand(bed))
        await unlabel(bed, "held")
        await editor.merge_patch(path, suspend)
    account = bed.plane.service_account_kubeconfig(SYSTEM, "charterer")
    async with await Client.connect(account) as operator:
        shadow = await operator.post(TRAINING_JOBS.all(bed.namespace), _shadow_by_hand(bed))
        for name, spec in (("other", suspend), ("held", {"spec": {"activeDeadlineSeconds": 1}})):
            with pytest.raises(ApiError, match="the operator changes"):
                await operator.merge_patch(JOBS.one(name, bed.namespace), spec)
        with pytest.raises(ApiError, match="deletes none but its own"):
            await operator.delete(path)
        mine = TRAINING_JOBS.one(shadow["metadata"]["name"], bed.namespace)
        changed = [{"op": "replace", "path": "/spec", "value": {**shadow["spec"], "suspend": True}}]
        async with await Client.connect(person) as editor:
            with pytest.raises(Forbidden, match="which stands for Job held: change that one and its annotations"):
                await editor.json_patch(mine, changed)
            await editor.merge_patch(mine, {"metadata": {"labels": {"team": "speech"}}})
        await operator.json_patch(mine, changed)
        await operator.delete(mine)


def _shadow_by_hand(bed: Bed) -> RawObject:
    target = {"apiVersion": "batch/v1", "kind": "Job", "name": "held", "uid": job(bed, "held")["metadata"]["uid"]}
    spec = {"gpus": {"min": 4, "max": 4}, "targetRef": target, "template": plain_job("held")["spec"]["template"]}
    return {"apiVersion": API, "kind": "TrainingJob", "metadata": {"name": "mine"}, "spec": spec}
