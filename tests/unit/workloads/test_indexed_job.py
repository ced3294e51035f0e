"""A run as an Indexed Job: what is made of a user's template, and how the Job is read back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.api import decode
from charterer.domain.ids import RentalId
from charterer.domain.job import Allocation, Placement
from charterer.domain.time import parse_instant
from charterer.workloads import INDEXED_JOB, NotATemplate, RunEnvironment
from tests import factory
from tests.unit.api import values

OWNER = {"apiVersion": "charterer.dev/v1alpha1", "kind": "TrainingJob", "name": "sft", "uid": "uid-1"}
CLAIMS = {"charterer.dev/job-uid": "uid-1", "charterer.dev/job": "sft", "charterer.dev/run": "2"}
OURS = {"ownerReferences": [OWNER | {"controller": True}]}
ENVIRONMENT = RunEnvironment("https://charterer-progress.charterer.svc", "-----BEGIN CERTIFICATE-----")


def _run(allocation: Allocation | None = None, **spec: Any) -> dict[str, Any]:
    raw = values.raw_job(**spec)
    return INDEXED_JOB.manifest(
        decode.training_job(raw).job, raw, values.allocation() if allocation is None else allocation, ENVIRONMENT
    )


def _pod(run: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = run["spec"]["template"]
    return pod


def _environment(run: dict[str, Any]) -> dict[str, Any]:
    variables = _pod(run)["spec"]["containers"][0]["env"]
    assert len({variable["name"] for variable in variables}) == len(variables)
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in variables}


class TestARunsJob:
    def test_is_an_indexed_suspended_job_that_never_retries_by_itself(self) -> None:
        run = _run()
        assert run["metadata"]["name"] == "sft-r2"
        assert {key: value for key, value in run["spec"].items() if key not in ("template", "podFailurePolicy")} == {
            "suspend": True,
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
        }
        assert _pod(run)["spec"]["restartPolicy"] == "Never"

    def test_belongs_to_its_training_job(self) -> None:
        (owner,) = _run()["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "charterer.dev/v1alpha1",
            "kind": "TrainingJob",
            "name": "sft",
            "uid": values.UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    @pytest.mark.parametrize(
        ("policy", "action"), [("Never", "FailJob"), ("Restart", "FailJob"), ("InPlace", "Ignore")]
    )
    def test_ends_when_a_pod_is_disrupted_unless_it_can_go_on_without(self, policy: str, action: str) -> None:
        rules = _run(resizePolicy=policy)["spec"]["podFailurePolicy"]["rules"]
        assert rules[-1] == {
            "action": action,
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        }

    def test_ends_at_once_when_a_trainer_that_forms_groups_asks_for_a_restart(self) -> None:
        rules = _run(resizePolicy="InPlace")["spec"]["podFailurePolicy"]["rules"]
        assert rules[0] == {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [75]}}

    def test_lets_so_many_more_pods_fail_as_is_said_with_a_resize(self) -> None:
        run = replace(factory.run(), failed_pods=3)
        assert INDEXED_JOB.resize(run, 4, 2) == {"spec": {"parallelism": 4, "completions": 4, "backoffLimit": 5}}

    def test_is_found_by_its_labels(self) -> None:
        run = _run()
        labels = {"charterer.dev/job-uid": values.UID, "charterer.dev/job": "sft", "charterer.dev/run": "2"}
        assert run["metadata"]["labels"] == labels
        assert _pod(run)["metadata"]["labels"] == labels

    def test_is_decoded_as_the_run_it_was_made_for(self) -> None:
        made = _run()
        metadata = {key: made["metadata"][key] for key in ("name", "labels", "ownerReferences")}
        raw = values.raw("Job", made["spec"], **metadata)
        found = INDEXED_JOB.kind.decode(raw)
        assert found is not None
        assert (found[0], found[1].number, found[1].completions) == (values.UID, 2, 2)

    def test_refuses_pods_of_different_widths(self) -> None:
        placements = (Placement(RentalId("a"), 4), Placement(RentalId("b"), 2))
        with pytest.raises(ValueError, match=r"research/sft run 2: .* cannot have \[2, 4\] GPUs"):
            _run(replace(values.allocation(), placements=placements))

    def test_leaves_the_users_object_as_it_was(self) -> None:
        raw = values.raw_job()
        before = repr(raw)
        INDEXED_JOB.manifest(decode.training_job(raw).job, raw, values.allocation(), ENVIRONMENT)
        assert repr(raw) == before


class TestARunsPods:
    def test_go_only_where_the_placement_says(self) -> None:
        template = {"spec": {"nodeSelector": {"disk": "nvme"}, "containers": [{"name": "trainer"}]}}
        selector = _pod(_run(template=template))["spec"]["nodeSelector"]
        assert selector == {"disk": "nvme", "run.charterer.dev/0a1b2c3d": "r2"}

    def test_get_the_gpus_of_the_allocation_whatever_the_template_says(self) -> None:
        limits = {"nvidia.com/gpu": 1, "memory": "64Gi"}
        container = {"name": "trainer", "resources": {"limits": limits, "requests": {"cpu": "8"}}}
        trainer = _pod(_run(containers=[container]))["spec"]["containers"][0]
        assert trainer["resources"] == {
            "limits": {"nvidia.com/gpu": "4", "memory": "64Gi"},
            "requests": {"nvidia.com/gpu": "4", "cpu": "8"},
        }

    def test_ask_for_a_slice_by_its_own_name_and_for_no_gpu_beside_it(self) -> None:
        whole = values.allocation(pods=1, gpus_per_pod=1)
        option = replace(whole.option, gpus=1, resource="nvidia.com/mig-1g.5gb", slice="1g.5gb")
        container = {"name": "trainer", "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "8Gi"}}}
        trainer = _pod(_run(replace(whole, option=option), containers=[container]))["spec"]["containers"][0]
        assert trainer["resources"] == {
            "limits": {"nvidia.com/mig-1g.5gb": "1", "memory": "8Gi"},
            "requests": {"nvidia.com/mig-1g.5gb": "1"},
        }

    def test_on_a_shared_gpu_frameworks_are_told_to_leave_memory_unless_the_template_says_otherwise(self) -> None:
        whole = values.allocation(pods=1, gpus_per_pod=1)
        option = replace(whole.option, gpus=1, resource="nvidia.com/gpu.shared", slice="mps-2")
        shared = _environment(_run(replace(whole, option=option)))
        assert (shared["XLA_PYTHON_CLIENT_MEM_FRACTION"], shared["TF_FORCE_GPU_ALLOW_GROWTH"]) == ("0.45", "true")
        own = {"name": "trainer", "env": [{"name": "XLA_PYTHON_CLIENT_MEM_FRACTION", "value": "0.3"}]}
        kept = _environment(_run(replace(whole, option=option), containers=[own]))
        assert kept["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.3"
        assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in _environment(_run(whole))

    def test_below_a_node_there_is_one(self) -> None:
        run = _run(values.allocation(pods=1, gpus_per_pod=2))
        assert run["spec"]["completions"] == 1
        assert _environment(run)["PET_NPROC_PER_NODE"] == "2"

    def test_tolerate_gpu_nodes_and_leave_lost_ones_soon(self) -> None:
        template = {"spec": {"tolerations": [{"key": "team"}], "containers": [{"name": "trainer"}]}}
        theirs, gpu, *lost = _pod(_run(template=template))["spec"]["tolerations"]
        assert theirs == {"key": "team"}
        assert gpu == {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
        assert {(toleration["key"], toleration["effect"], toleration["tolerationSeconds"]) for toleration in lost} == {
            ("node.kubernetes.io/not-ready", "NoExecute", 30),
            ("node.kubernetes.io/unreachable", "NoExecute", 30),
        }

    def test_carry_their_allocation_and_are_not_moved_by_autoscalers(self) -> None:
        assert _pod(_run())["metadata"]["annotations"] == {
            "charterer.dev/allocation": '{"run":2,"gpus":8,"pods":2,"gpusPerPod":4}',
            "charterer.dev/ca": ENVIRONMENT.ca_pem,
            "karpenter.sh/do-not-disrupt": "true",
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        }

    def test_keep_the_users_labels_but_join_no_other_queue(self) -> None:
        theirs = {"team": "research", "kueue.x-k8s.io/queue-name": "batch"}
        template = {
            "metadata": {"labels": theirs, "annotations": theirs},
            "spec": {"containers": [{"name": "trainer"}]},
        }
        metadata = _pod(_run(template=template))["metadata"]
        assert metadata["labels"]["team"] == metadata["annotations"]["team"] == "research"
        assert "kueue.x-k8s.io/queue-name" not in {**metadata["labels"], **metadata["annotations"]}

    def test_are_told_how_to_find_each_other_and_where_to_report(self) -> None:
        assert _environment(_run()) == {
            "PET_NNODES": "2",
            "PET_NPROC_PER_NODE": "4",
            "PET_NODE_RANK": {
                "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
            },
            "PET_MASTER_ADDR": "sft-r2-0.sft",
            "PET_MASTER_PORT": "29500",
            "JAX_COORDINATOR_ADDRESS": "sft-r2-0.sft:29500",
            "CHARTERER_JOB": "sft",
            "CHARTERER_NAMESPACE": "research",
            "CHARTERER_RUN": "2",
            "CHARTERER_PROGRESS_URL": ENVIRONMENT.progress_url,
            "CHARTERER_CA": ENVIRONMENT.ca_pem,
            "CHARTERER_TOKEN_FILE": "/var/run/secrets/charterer.dev/token",
            "KUBEFLOW_TRAINER_SERVER_URL": f"{ENVIRONMENT.progress_url}/v1/trainer-status/$(PET_NODE_RANK)",
            "KUBEFLOW_TRAINER_SERVER_TOKEN": "/var/run/secrets/charterer.dev/token",
            "KUBEFLOW_TRAINER_SERVER_CA_CERT": "/var/run/secrets/charterer.dev/ca.crt",
        }

    def test_have_their_index_before_the_variable_that_contains_it(self) -> None:
        """Kubernetes replaces $(NAME) only by variables that come before."""
        order = list(_environment(_run()))
        assert order.index("PET_NODE_RANK") < order.index("KUBEFLOW_TRAINER_SERVER_URL")

    def test_keep_the_users_variables_except_where_charterer_must_know_better(self) -> None:
        theirs = [{"name": "WANDB_MODE", "value": "offline"}, {"name": "PET_NNODES", "value": "64"}]
        variables = _environment(_run(containers=[{"name": "trainer", "env": theirs}]))
        assert (variables["WANDB_MODE"], variables["PET_NNODES"]) == ("offline", "2")

    def test_that_come_and_go_are_not_told_a_number_of_pods_that_changes(self) -> None:
        variables = _environment(_run(resizePolicy="InPlace"))
        assert not [name for name in variables if name == "PET_NNODES" or name.startswith("KUBEFLOW_")]
        assert variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"

    def test_have_a_token_of_their_own_and_their_allocation_as_files(self) -> None:
        spec = _pod(_run())["spec"]
        (volume,) = spec["volumes"]
        token, downward = volume["projected"]["sources"]
        assert token["serviceAccountToken"]["audience"] == f"charterer.dev/tj/{values.UID}"
        assert token["serviceAccountToken"]["path"] == "token"
        assert {item["path"]: item["fieldRef"]["fieldPath"] for item in downward["downwardAPI"]["items"]} == {
            "allocation": "metadata.annotations['charterer.dev/allocation']",
            "ca.crt": "metadata.annotations['charterer.dev/ca']",
        }
        (mount,) = spec["containers"][0]["volumeMounts"]
        assert mount == {"name": volume["name"], "mountPath": "/var/run/secrets/charterer.dev", "readOnly": True}

    def test_leave_their_last_lines_as_a_message_unless_the_template_says_otherwise(self) -> None:
        run = _run(containers=[{"name": "trainer"}, {"name": "logs", "terminationMessagePolicy": "File"}])
        policies = [container["terminationMessagePolicy"] for container in _pod(run)["spec"]["containers"]]
        assert policies == ["FallbackToLogsOnError", "File"]

    def test_keep_their_sidecars_as_they_are(self) -> None:
        sidecar = {"name": "logs", "image": "acme/logs:1", "terminationMessagePolicy": "File"}
        assert _pod(_run(containers=[{"name": "trainer"}, sidecar]))["spec"]["containers"][1] == sidecar


class TestTheService:
    def test_names_pods_of_all_runs_before_they_are_ready(self) -> None:
        service = INDEXED_JOB.service(decode.training_job(values.raw_job()).job)
        assert service["metadata"]["name"] == _pod(_run())["spec"]["subdomain"] == "sft"
        assert service["spec"] == {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"charterer.dev/job-uid": values.UID},
        }


class TestARunReadBack:
    def _raw(self, metadata: dict[str, Any], **status: Any) -> dict[str, Any]:
        spec = {"completions": 2, "parallelism": 2, "suspend": True}
        return values.raw("Job", spec, status=status, **{"name": "sft-r2", **metadata})

    @pytest.mark.parametrize(
        "metadata",
        [
            {"labels": {"charterer.dev/job-uid": "uid-1", "charterer.dev/job": "other", "charterer.dev/run": "2"}},
            {"labels": CLAIMS, "ownerReferences": [OWNER | {"controller": True, "kind": "CronJob"}]},
            {"ownerReferences": [OWNER]},
            {"ownerReferences": [OWNER | {"controller": True, "apiVersion": "evil.example/v1"}]},
            {**OURS, "name": "sft"},
            {**OURS, "name": "other-r2"},
            {**OURS, "name": "sft-r02"},
            {**OURS, "name": "sft-rII"},
        ],
        ids=["labels", "a CronJob", "no controller", "another group", "no number", "another's name", "r02", "rII"],
    )
    def test_a_job_that_no_training_job_controls_under_its_runs_name_does_not_matter(
        self, metadata: dict[str, Any]
    ) -> None:
        assert INDEXED_JOB.kind.decode(self._raw(metadata)) is None

    def test_a_run_that_has_lost_its_owner_is_known_as_such(self) -> None:
        found = INDEXED_JOB.kind.decode(self._raw({"labels": CLAIMS}))
        assert found is not None
        assert (found[0], found[1].number, found[1].owned) == ("uid-1", 2, False)

    def test_a_suspended_run(self) -> None:
        found = INDEXED_JOB.kind.decode(self._raw(OURS))
        assert found is not None
        job, run = found
        assert (job, run.number, run.name, run.completions, run.suspended) == ("uid-1", 2, "sft-r2", 2, True)
        assert (run.started, run.complete, run.failed, run.pods) == (None, None, None, ())

    def test_a_failed_run_says_when_and_why(self) -> None:
        failed = {
            "type": "Failed",
            "status": "True",
            "reason": "PodFailurePolicy",
            "message": "Pod research/sft-r2-0 has condition DisruptionTarget",
            "lastTransitionTime": "2026-01-31T12:00:05Z",
        }
        found = INDEXED_JOB.kind.decode(
            self._raw(OURS, startTime="2026-01-31T12:00:00Z", conditions=[failed | {"type": "FailureTarget"}, failed])
        )
        assert found is not None
        run = found[1]
        assert run.started == parse_instant("2026-01-31T12:00:00Z")
        assert (run.complete, run.failed) == (None, parse_instant("2026-01-31T12:00:05Z"))
        assert run.failed_message == "PodFailurePolicy: Pod research/sft-r2-0 has condition DisruptionTarget"
        assert run.failed_by_disruption

    def test_a_condition_that_is_not_true_says_nothing(self) -> None:
        condition = {"type": "Complete", "status": "False", "lastTransitionTime": "2026-01-31T12:00:05Z"}
        found = INDEXED_JOB.kind.decode(self._raw(OURS, conditions=[condition]))
        assert found is not None
        assert found[1].complete is None


def test_a_run_knows_the_template_that_it_was_made_of() -> None:
    raw = values.raw_job()
    metadata = {"uid": "run-uid", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    made = _run()
    found = INDEXED_JOB.kind.decode({**made, "metadata": {**made["metadata"], **metadata}})
    assert found is not None
    assert found[1].template == decode.training_job(raw).job.template != ""
    edited = values.raw_job(template={"spec": {"containers": [{"name": "trainer", "image": "another"}]}})
    assert decode.training_job(edited).job.template != found[1].template


TRAINER = {"name": "trainer", "image": "acme/gnn:1", "args": ["train.py"], "env": [{"name": "HOPS", "value": "2"}]}
OUT_OF_CORE = {
    "name": "outofcore",
    "env": [
        {"name": "HOPS", "value": "3"},
        {"name": "DISK", "value": "/data"},
        {"name": "CHARTERER_RUN", "value": "9"},
    ],
    "args": ["train.py", "--disk"],
}


def _variant(name: str, *variants: dict[str, Any]) -> dict[str, Any]:
    """The trainer's container of a run of that variant."""
    given = values.allocation()
    chosen = replace(given, option=replace(given.option, variant=name))
    run = _run(chosen, containers=[TRAINER, {"name": "log"}], profileName="gnn", variants=list(variants))
    trainer, log = _pod(run)["spec"]["containers"]
    assert "env" not in log
    variables = {entry["name"]: entry.get("value") for entry in trainer["env"]}
    assert len(variables) == len(trainer["env"])
    return {"args": trainer["args"], **variables}


class TestAVariant:
    def test_has_its_own_variables_and_arguments_and_charterers_stay(self) -> None:
        found = _variant("outofcore", OUT_OF_CORE)
        assert (found["args"], found["HOPS"], found["DISK"]) == (["train.py", "--disk"], "3", "/data")
        assert (found["CHARTERER_RUN"], found["CHARTERER_VARIANT"]) == ("2", "outofcore")

    def test_that_says_nothing_is_as_the_template(self) -> None:
        found = _variant("plain", OUT_OF_CORE, {"name": "plain"})
        assert (found["args"], found["HOPS"], found["CHARTERER_VARIANT"]) == (["train.py"], "2", "plain")

    def test_the_template_as_it_stands_is_told_that_it_is_none(self) -> None:
        found = _variant("", OUT_OF_CORE)
        assert (found["args"], found["HOPS"], found["CHARTERER_VARIANT"]) == (["train.py"], "2", "")

    def test_that_the_spec_no_longer_names_makes_no_run(self) -> None:
        with pytest.raises(
            NotATemplate, match=r"planned as variant gone, and the spec names outofcore: change the spec"
        ):
            _variant("gone", OUT_OF_CORE)

    def test_a_job_without_variants_is_told_nothing_of_them(self) -> None:
        assert "CHARTERER_VARIANT" not in _environment(_run())
