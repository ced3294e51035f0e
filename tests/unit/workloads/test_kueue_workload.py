"""What Charterer reads of a Workload of Kueue, and what it answers."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from charterer.domain.job import ResizePolicy
from charterer.domain.target import TargetRef
from charterer.domain.time import parse_instant
from charterer.workloads import NotAdoptable
from charterer.workloads.adopted.kueue_workload import (
    KUEUE_WORKLOAD,
    OWNER,
    SHADOW,
    answer,
    decode_workload,
    grown,
    is_queued,
    path_of,
)
from tests import factory
from tests.unit.workloads.json_patches import applied

AT = parse_instant("2026-11-26T20:00:00Z")
JOB = factory.job(name="job-sft")


def pod_set(name: str = "main", count: int = 2, gpus: int = 4, **metadata: Any) -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    spec = {"containers": [{"name": "c", "image": "i:1", "resources": limits}]}
    return {"name": name, "count": count, "template": {"metadata": metadata, "spec": spec}}


def workload(*pod_sets: dict[str, Any], state: str = "Pending", kind: str = "Job", **status: Any) -> dict[str, Any]:
    """One with quota, whose check is Pending, of a Job ``sft``."""
    api = {"Job": "batch/v1", "RayJob": "ray.io/v1"}.get(kind, "example.org/v1")
    owner = {"apiVersion": api, "kind": kind, "name": "sft", "uid": "owner-uid", "controller": True}
    check = {"name": "charterer", "state": state, "message": "", "lastTransitionTime": "2026-11-26T19:00:00Z"}
    other = check | {"name": "other", "state": "Ready"}
    quota = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}
    return {
        "metadata": {
            "name": "job-sft",
            "namespace": "research",
            "uid": "w-uid",
            "resourceVersion": "7",
            "creationTimestamp": "2026-11-26T19:00:00Z",
            "ownerReferences": [owner],
        },
        "spec": {"podSets": list(pod_sets or (pod_set(),))},
        "status": {"conditions": [quota], "admissionChecks": [other, check], **status},
    }


def condition(kind: str, status: str, reason: str, message: str, *, at: str) -> dict[str, Any]:
    since = f"2026-11-26T{at}:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def owned(raw: dict[str, Any], spec: dict[str, Any] | None = None, **annotations: str) -> dict[str, Any]:
    """The Workload with what it is of, an Indexed Job by default."""
    (reference,) = raw["metadata"]["ownerReferences"]
    metadata = {
        "name": "sft",
        "namespace": "research",
        "uid": "owner-uid",
        "resourceVersion": "9",
        "creationTimestamp": "2026-11-26T19:00:00Z",
        "annotations": {f"charterer.dev/{key.replace('_', '-')}": value for key, value in annotations.items()},
    }
    body = {"kind": reference["kind"], "metadata": metadata, "spec": spec or {"completionMode": "Indexed"}}
    return {**raw, OWNER: body, SHADOW: JOB.id}


class TestAWorkload:
    def test_with_quota_whose_check_is_pending_can_be_placed(self) -> None:
        target = decode_workload(workload())
        assert target is not None
        assert (target.placeable, target.suspended, target.has_quota, target.pods) == (True, True, True, 2)
        assert target.ref == TargetRef("batch/v1", "Job", "sft", "owner-uid", queued=True)
        assert target.workload == "job-sft"

    def test_of_a_queue_that_does_not_ask_is_left_alone(self) -> None:
        unasked = workload()
        del unasked["status"]["admissionChecks"][1]
        assert decode_workload(unasked) is None

    def test_by_which_a_job_grows_is_read_before_kueue_lists_its_checks(self) -> None:
        """Kueue may end the Workload before it first, and the job would seem to have none."""
        grows = workload(admissionChecks=[])
        assert decode_workload(grows) is None
        grows["metadata"]["annotations"] = {"kueue.x-k8s.io/workload-slice-replacement-for": "research/job-sft-0"}
        unlisted = decode_workload(grows)
        assert unlisted is not None
        assert (unlisted.replaces, unlisted.checks, unlisted.placeable) == ("job-sft-0", (), False)
        grows["status"] |= {"admissionChecks": [{"name": "other", "state": "Ready"}]}
        assert decode_workload(grows) is None

    @pytest.mark.parametrize("status", [{"clusterName": "far"}, {"nominatedClusterNames": ["far", "near"]}])
    def test_that_runs_in_another_cluster_says_why_nothing_is_paid_for_here(self, status: dict[str, Any]) -> None:
        target = decode_workload(workload(**status))
        assert target is not None
        assert target.problem.startswith("MultiKueue runs it in cluster far, and nodes that Charterer rents here")
        assert target.checks == ("other", "charterer")

    def test_that_is_inactive_has_no_quota_or_has_ended_is_not_placed(self) -> None:
        inactive = workload()
        inactive["spec"]["active"] = False
        targets = [decode_workload(raw) for raw in (inactive, workload(conditions=[]), workload(state="Ready"))]
        assert [target is not None and target.placeable for target in targets] == [False] * 3

    @pytest.mark.parametrize("status", ["True", "False"])
    def test_is_admitted_where_its_condition_says_so_not_where_it_is_there(self, status: str) -> None:
        target = decode_workload(workload(conditions=[condition("Admitted", status, "Admitted", "", at="19:31")]))
        assert target is not None
        assert target.admitted is (status == "True")

    def test_that_no_single_object_controls_says_so(self) -> None:
        """Kueue makes one for a group of pods, also without GPUs, which is then let through."""
        group = workload()
        del group["metadata"]["ownerReferences"]
        target = decode_workload(group)
        assert target is not None
        assert "a group of pods that no single object controls" in target.problem
        assert not target.controls("sft")

    def test_beside_another_check_that_is_not_ready_waits_for_it(self) -> None:
        raw = workload()
        raw["status"]["admissionChecks"][0]["state"] = "Pending"
        target = decode_workload(raw)
        assert target is not None
        assert (target.has_quota, target.placeable) == (False, False)

    @pytest.mark.parametrize(
        ("evicted", "why", "withheld"),
        [
            (None, "", False),
            (("True", "Preempted", "for another"), "Preempted: for another", True),
            (("False", "QuotaReserved", "Previously: for another"), "for another", False),
            (("False", "QuotaReserved", "Quota is reserved"), "", False),
            (("True", "AdmissionCheck", "a check is false"), "AdmissionCheck: a check is false", False),
        ],
    )
    def test_says_why_it_was_stopped_and_whether_others_keep_it_so(
        self, evicted: tuple[str, str, str] | None, why: str, withheld: bool
    ) -> None:
        conditions = [] if evicted is None else [condition("Evicted", *evicted, at="19:31")]
        target = decode_workload(workload(conditions=conditions))
        assert target is not None
        assert (target.evicted, target.eviction, target.withheld) == (evicted is not None, why, withheld)

    def test_carries_the_run_that_kueue_is_told_to_run_and_none_that_its_check_still_names(self) -> None:
        """Kueue makes the check Pending when it stops a run, and leaves what it was told."""
        (ready,) = KUEUE_WORKLOAD.start(owned(workload()), JOB, factory.allocation("a", "b"))
        told = applied(workload(), [ready])
        for state, run in (("Ready", 1), ("Retry", 1), ("Pending", 0)):
            told["status"]["admissionChecks"][1]["state"] = state
            target = decode_workload(told)
            assert target is not None
            assert (target.run, target.job) == (run, JOB.id if run else "")

    def test_that_is_evicted_has_no_quota_for_charterer_and_is_neither_started_nor_stopped(self) -> None:
        """Kueue takes no Workload whose check says Retry, and evicts none that is evicted already."""
        evicted = condition("Evicted", "True", "ClusterQueueStopped", "", at="19:31")
        for state in ("Pending", "Ready"):
            raw = owned(workload(state=state))
            raw["status"]["conditions"].append(evicted)
            target = decode_workload(raw)
            assert target is not None
            assert (target.has_quota, target.placeable) == (False, False)
            assert KUEUE_WORKLOAD.start(raw, JOB, factory.allocation("a", "b")) == ()
            assert KUEUE_WORKLOAD.stop(raw) == ()
            assert grown(raw, JOB, 1) == ()
            assert answer(raw, "x", AT, ready=True) == ()

    def test_made_of_a_job_that_grew_has_what_placed_it_which_is_taken_out_of_the_job(self) -> None:
        labels = {"charterer.dev/job-uid": JOB.id, "charterer.dev/run": "1", "team": "nlp"}
        template = pod_set(labels=labels)["template"]
        template["spec"]["nodeSelector"] = {JOB.run_label: "r1", "zone": "a"}
        raw = owned(workload(pod_set(labels=labels)), {"completionMode": "Indexed", "template": template})
        target = decode_workload(raw)
        assert target is not None
        assert (target.left, target.problem) == (True, "")
        (write,) = KUEUE_WORKLOAD.place(raw, JOB, factory.allocation("a", "b"))
        assert write.own is False
        cleaned = applied(raw[OWNER], [write])["spec"]["template"]
        assert cleaned["metadata"]["labels"] == {"team": "nlp"}
        assert cleaned["spec"]["nodeSelector"] == {"zone": "a"}

    @pytest.mark.parametrize(
        ("reason", "complete", "failed"), [("Succeeded", True, False), ("FailedToStart", False, True)]
    )
    def test_ends_as_kueue_says(self, reason: str, complete: bool, failed: bool) -> None:
        finished = {
            "type": "Finished",
            "status": "True",
            "reason": reason,
            "message": "so",
            "lastTransitionTime": "2026-11-26T19:30:00Z",
        }
        target = decode_workload(workload(conditions=[finished]))
        assert target is not None
        assert (target.complete is not None, target.failed is not None) == (complete, failed)

    def test_whose_groups_ask_for_different_numbers_or_set_charterers_keys_is_a_problem(self) -> None:
        for raw, words in (
            (workload(pod_set("master", 1, 2), pod_set("worker", 2, 4)), "(master 2, worker 4)"),
            (workload(pod_set(labels={"charterer.dev/run": "1"})), "labels[charterer.dev/run]"),
            (workload(pod_set(gpus=0)), "asks for no GPUs"),
        ):
            target = decode_workload(raw)
            assert target is not None
            assert words in target.problem


class TestItsShadow:
    def test_has_gpus_of_any_name_that_its_template_says(self) -> None:
        said, unsaid = pod_set(annotations={"charterer.dev/resource": "example.com/npu"}), pod_set()
        for each in (said, unsaid):
            each["template"]["spec"]["containers"][0]["resources"]["limits"] = {"example.com/npu": 4}
        read = decode_workload(workload(said))
        assert read is not None
        assert (read.problem, read.pods) == ("", 2)
        assert KUEUE_WORKLOAD.shadow(owned(workload(said)))["gpus"]["min"] == 8
        nothing = decode_workload(workload(unsaid))
        assert nothing is not None
        assert "it asks for no GPUs; if its GPUs are example.com/npu, name that in" in nothing.problem

    def test_has_the_template_and_the_gpus_of_the_groups_that_ask_for_some(self) -> None:
        ray = workload(pod_set("head", 1, 0), pod_set("gpu", 3), pod_set("submitter", 1, 0), kind="RayJob")
        groups = [{"groupName": "GPU", "replicas": 3}]
        spec = KUEUE_WORKLOAD.shadow(owned(ray, {"rayClusterSpec": {"workerGroupSpecs": groups}}, gpus="4..16"))
        assert (spec["gpus"], spec["template"]) == (
            {"min": 4, "preferred": 12, "max": 16},
            pod_set("gpu", 3)["template"],
        )

    def test_is_not_made_where_another_controller_runs_it_or_its_width_is_fixed(self) -> None:
        elsewhere = {"completionMode": "Indexed", "managedBy": "kueue.x-k8s.io/multikueue"}
        with pytest.raises(NotAdoptable, match=r"spec\.managedBy is 'kueue\.x-k8s\.io/multikueue'"):
            KUEUE_WORKLOAD.shadow(owned(workload(), elsewhere))
        with pytest.raises(NotAdoptable, match="only Indexed Jobs and RayJobs of one group change their width"):
            KUEUE_WORKLOAD.shadow(owned(workload(kind="TrainJob"), {"suspend": True}, gpus="4..16"))

    def test_is_not_made_of_what_has_the_label_too_or_what_kuberay_does_not_stop(self) -> None:
        both = owned(workload())
        both[OWNER]["metadata"]["labels"] = {"charterer.dev/adopt": "true"}
        with pytest.raises(NotAdoptable, match="take that label off"):
            KUEUE_WORKLOAD.shadow(both)
        with pytest.raises(NotAdoptable, match=r"spec\.submissionMode is InteractiveMode"):
            KUEUE_WORKLOAD.shadow(owned(workload(kind="RayJob"), {"submissionMode": "InteractiveMode"}))

    def test_gets_no_spot_nodes_where_a_lost_node_would_end_it_for_good(self) -> None:
        fragile = {"completionMode": "Indexed", "backoffLimit": 0}
        assert KUEUE_WORKLOAD.shadow(owned(workload(), fragile, spot="Allowed"))["spotPolicy"] == "Never"
        assert (
            KUEUE_WORKLOAD.shadow(owned(workload(kind="PyTorchJob"), {"x": 1}, spot="Allowed"))["spotPolicy"] == "Never"
        )
        assert KUEUE_WORKLOAD.shadow(owned(workload(), spot="Allowed"))["spotPolicy"] == "Allowed"

    def test_resizes_in_place_only_where_kueue_lets_it(self) -> None:
        with pytest.raises(NotAdoptable, match=r"kueue\.x-k8s\.io/elastic-job"):
            KUEUE_WORKLOAD.shadow(owned(workload(), gpus="4..16", resize="InPlace"))
        elastic = owned(workload(), gpus="4..16", resize="InPlace")
        elastic[OWNER]["metadata"]["annotations"]["kueue.x-k8s.io/elastic-job"] = "true"
        assert KUEUE_WORKLOAD.shadow(elastic)["resizePolicy"] == ResizePolicy.IN_PLACE
        groups = {"rayClusterSpec": {"workerGroupSpecs": [{"groupName": "main"}]}}
        ray = owned(workload(kind="RayJob"), groups, gpus="4..16", resize="InPlace")
        ray[OWNER]["metadata"]["annotations"]["kueue.x-k8s.io/elastic-job"] = "true"
        with pytest.raises(NotAdoptable, match="Kueue does not change a RayJob while it runs"):
            KUEUE_WORKLOAD.shadow(ray)


class TestItsAnswers:
    def test_are_of_charterers_entry_and_of_the_version_that_was_seen(self) -> None:
        (write,) = KUEUE_WORKLOAD.start(owned(workload()), JOB, factory.allocation("a", "b"))
        assert write.path.endswith("/workloads/job-sft/status")
        uid, version, change = write.operations
        assert (uid["value"], version["value"]) == ("w-uid", "7")
        assert change["path"] == "/status/admissionChecks/1"
        assert change["value"]["state"] == "Ready"
        (update,) = change["value"]["podSetUpdates"]
        keys = [*update["labels"], *update["annotations"], *update["nodeSelector"]]
        assert all(key.partition("/")[0] in ("charterer.dev", "run.charterer.dev") for key in keys)
        assert update["name"] == "main"
        assert len(update["tolerations"]) <= 8

    def test_place_the_groups_with_gpus_alone(self) -> None:
        raw = owned(workload(pod_set("head", 1, 0), pod_set("gpu", 2), kind="RayJob"), {"rayClusterSpec": {}})
        (write,) = KUEUE_WORKLOAD.start(raw, JOB, factory.allocation("a", "b"))
        assert [update["name"] for update in write.operations[2]["value"]["podSetUpdates"]] == ["gpu"]

    def test_change_the_width_of_what_it_is_of_first_note_it_and_give_it_back(self) -> None:
        raw = owned(workload())
        (write,) = KUEUE_WORKLOAD.place(raw, JOB, factory.allocation("a", "b", "c"))
        assert (write.path, write.own) == ("/apis/batch/v1/namespaces/research/jobs/sft", False)
        wide = {op["path"]: op["value"] for op in write.operations}
        assert (wide["/spec/parallelism"], wide["/spec/completions"]) == (3, 3)
        noted = deepcopy(raw)
        noted[OWNER]["metadata"]["annotations"]["charterer.dev/original"] = wide[
            "/metadata/annotations/charterer.dev~1original"
        ]
        (back,) = KUEUE_WORKLOAD.restore(noted)
        assert {op["path"]: op.get("value") for op in back.operations}["/spec/parallelism"] == 2
        assert applied(noted[OWNER], [back])["metadata"]["annotations"] == {}
        assert KUEUE_WORKLOAD.restore(raw) == ()

    def test_stop_by_retry_without_a_delay(self) -> None:
        (stop,) = KUEUE_WORKLOAD.stop(owned(workload(state="Ready")))
        assert stop.operations[2]["value"]["state"] == "Retry"
        assert "requeueAfterSeconds" not in stop.operations[2]["value"]
        assert KUEUE_WORKLOAD.stop(owned(workload())) == ()

    def test_stop_what_is_to_grow_and_runs_by_the_workload_before_it(self) -> None:
        grows = owned(workload())
        grows["metadata"]["annotations"] = {"kueue.x-k8s.io/workload-slice-replacement-for": "research/job-sft-0"}
        (stop,) = KUEUE_WORKLOAD.stop(grows)
        assert stop.operations[2]["value"]["state"] == "Retry"

    def test_that_no_run_is_about_are_given_to_pending_checks_only(self) -> None:
        (ready,) = answer(workload(), "it asks for no GPUs", AT, ready=True)
        assert ready.operations[2]["value"] | {"message": ""} == {
            "name": "charterer",
            "state": "Ready",
            "message": "",
            "podSetUpdates": [],
            "lastTransitionTime": "2026-11-26T20:00:00.000000Z",
        }
        assert answer(workload(state="Ready"), "x", AT, ready=True) == ()


def test_an_object_waits_in_a_queue_by_its_own_word_and_is_found_by_its_kind() -> None:
    owner = owned(workload())[OWNER]
    assert not is_queued(owner)
    owner["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    assert is_queued(owner)
    ref = TargetRef("ray.io/v1", "RayJob", "sft", "u", queued=True)
    assert path_of(ref, "research") == "/apis/ray.io/v1/namespaces/research/rayjobs/sft"
