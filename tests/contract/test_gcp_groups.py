"""The server's managed instance groups do what Google's do: names, endless attempts, repairs, resize requests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

from tests.clouds.clock import BEGIN
from tests.clouds.gcp.clients import ZONE, Clients, codes
from tests.clouds.gcp.project import STOCK_OUT, Project
from tests.clouds.gcp.server import GcpServer
from tests.contract.gcp_projects import RUNNING, TYPE, gpu_project

WAITING = ("CREATING", "", STOCK_OUT)


@pytest.fixture(scope="module")
def server() -> Iterator[GcpServer]:
    """One server; each test has a project of its own behind it."""
    with GcpServer(Project()) as server:
        yield server


@pytest.fixture
def project(server: GcpServer) -> Project:
    """A project with templates, and a group of each."""
    server.project = gpu_project()
    return server.project


@pytest.fixture(scope="module")
def gce(server: GcpServer) -> Clients:
    """The real SDK."""
    return Clients(server.url)


# --- managed instance groups ---------------------------------------------------------------------------------------


def test_a_group_tries_for_ever_until_stock_returns(project: Project, gce: Clients) -> None:
    project.stock[TYPE, ZONE, "STANDARD"] = 1
    operation = gce.create("gpu", ["one", "two"])
    assert (operation.status, codes(operation)) == (compute_v1.Operation.Status.DONE, [])
    assert gce.states("gpu") == {"one": RUNNING, "two": WAITING}
    assert gce.group("gpu").target_size == 2
    project.clock.advance(10**6)
    assert gce.states("gpu")["two"] == WAITING
    project.stock[TYPE, ZONE, "STANDARD"] = 1
    assert gce.states("gpu")["two"] == RUNNING
    assert project.stock[TYPE, ZONE, "STANDARD"] == 0


def test_a_name_that_is_withdrawn_is_never_created(project: Project, gce: Clients) -> None:
    project.stock[TYPE, ZONE, "STANDARD"] = 0
    gce.create("gpu", ["one", "two"])
    gce.withdraw("gpu", ["two"])
    project.stock[TYPE, ZONE, "STANDARD"] = 5
    assert gce.states("gpu") == {"one": RUNNING}
    assert (gce.group("gpu").target_size, gce.names()) == (1, ["one"])


def test_every_failed_attempt_is_told_with_its_time(project: Project, gce: Clients) -> None:
    project.retry_seconds = 60
    project.stock[TYPE, ZONE, "STANDARD"] = 0
    gce.create("gpu", ["one"])
    for _ in range(3):
        project.clock.advance(30)
        gce.states("gpu")
    told = [(datetime.fromisoformat(e.timestamp) - BEGIN, e.error.code) for e in gce.errors("gpu")]
    assert told == [(timedelta(seconds=60), STOCK_OUT), (timedelta(0), STOCK_OUT)]
    assert gce.errors("gpu")[0].instance_action_details.instance.endswith(f"/zones/{ZONE}/instances/one")
    gce.withdraw("gpu", ["one"])
    assert len(gce.errors("gpu")) == 2


def test_quotas_of_the_region_of_spot_and_of_the_project_are_apart(project: Project, gce: Clients) -> None:
    project.quotas["us-central1", "NVIDIA_A100_GPUS"] = 1
    project.quotas["us-central1", "PREEMPTIBLE_NVIDIA_A100_GPUS"] = 2
    project.quotas["global", "GPUS_ALL_REGIONS"] = 2
    gce.create("gpu", ["one", "two"])
    gce.create("spot", ["three", "four"])
    assert [e.error.message for e in gce.errors("gpu")] == [
        "Quota 'NVIDIA_A100_GPUS' exceeded.  Limit: 1.0 in region us-central1."
    ]
    assert [e.error.message for e in gce.errors("spot")] == ["Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 2.0 globally."]
    region = gce.client("RegionsClient").get(project="test-project", region="us-central1")
    told = {quota.metric: (quota.usage, quota.limit) for quota in region.quotas}
    assert (told["NVIDIA_A100_GPUS"], told["PREEMPTIBLE_NVIDIA_A100_GPUS"]) == ((1, 1), (1, 2))
    assert "NVIDIA_H100_GPUS" not in told
    [whole] = gce.client("ProjectsClient").get(project="test-project").quotas
    assert (whole.metric, whole.usage, whole.limit) == ("GPUS_ALL_REGIONS", 2, 2)


def test_gpus_that_are_attached_count_in_their_own_quota(project: Project, gce: Clients) -> None:
    project.add_template("attached", "n1-standard-8", accelerators={"nvidia-tesla-t4": 4})
    project.quotas["us-central1", "NVIDIA_T4_GPUS"] = 4
    operation = gce.bulk(["one", "two"], source_instance_template="global/instanceTemplates/attached")
    assert codes(operation) == ["VM_MIN_COUNT_NOT_REACHED", "QUOTA_EXCEEDED"]


def test_a_known_name_fails_the_operation_and_adds_nothing(project: Project, gce: Clients) -> None:
    gce.create("gpu", ["one"])
    assert codes(gce.create("gpu", ["one", "two"])) == ["MEMBER_ALREADY_EXISTS"]
    assert list(gce.states("gpu")) == ["one"]
    project.refuses_known_at_once = True
    with pytest.raises(exceptions.Conflict):
        gce.create("gpu", ["one"])


def test_a_name_that_another_instance_has_is_tried_for_ever(project: Project, gce: Clients) -> None:
    theirs = project.start_by_hand("one", ZONE, TYPE, {})
    gce.create("gpu", ["one"])
    assert gce.states("gpu") == {"one": ("CREATING", "", "RESOURCE_ALREADY_EXISTS")}
    project.end(theirs)
    assert gce.states("gpu") == {"one": RUNNING}


def test_a_stranger_fails_the_withdrawal_unless_it_is_skipped(project: Project, gce: Clients) -> None:
    gce.create("gpu", ["one"])
    assert codes(gce.withdraw("gpu", ["one", "two"])) == ["INVALID_USAGE"]
    assert len(project.alive()) == 1
    assert codes(gce.withdraw("gpu", ["one", "two"], skip=True)) == []
    assert codes(gce.withdraw("gpu", ["one"], skip=True)) == []
    assert (project.alive(), gce.group("gpu").target_size) == ([], 0)


def test_managed_instances_have_pages_only_where_the_group_says_so(project: Project, gce: Clients) -> None:
    gce.create("gpu", [f"m{n}" for n in range(5)])
    assert len(gce.managed("gpu", max_results=2)) == 5
    assert project.count()["instanceGroupManagers.listManagedInstances"] == 1
    project.groups[ZONE, "gpu"].settings.list_managed_instances_results = "PAGINATED"
    assert [each.name for each in gce.managed("gpu", max_results=2)] == ["m0", "m1", "m2", "m3", "m4"]
    assert project.count()["instanceGroupManagers.listManagedInstances"] == 4


def test_an_instance_takes_its_time_to_come_and_to_go(project: Project, gce: Clients) -> None:
    project.pending_seconds, project.ending_seconds = 40, 90
    gce.create("gpu", ["one"])
    assert gce.states("gpu") == {"one": ("CREATING", "STAGING", "")}
    project.clock.advance(40)
    assert gce.states("gpu") == {"one": RUNNING}
    gce.withdraw("gpu", ["one"])
    assert gce.states("gpu") == {"one": ("DELETING", "STOPPING", "")}
    assert codes(gce.create("gpu", ["one"])) == ["MEMBER_ALREADY_EXISTS"]
    project.clock.advance(90)
    assert (gce.states("gpu"), gce.names()) == ({}, [])
    [vm] = project.instances.values()
    assert vm.ended == BEGIN + timedelta(seconds=130)


def test_a_human_changes_the_size(project: Project, gce: Clients) -> None:
    group = project.groups[ZONE, "gpu"]
    gce.create("gpu", ["one"])
    project.resize_by_hand(group, 3)
    assert (len(gce.states("gpu")), gce.group("gpu").target_size) == (3, 3)
    project.resize_by_hand(group, 1)
    assert list(gce.states("gpu")) == ["one"]


def test_what_preflight_looks_at_is_told(project: Project, gce: Clients) -> None:
    group = project.add_group("repairing", ZONE, "gpu", repairs=True)
    group.settings.target_size_policy.mode = "BULK"
    group.settings.standby_policy.mode = "SCALE_OUT_POOL"
    project.add_autoscaler(group)
    seen = gce.group("repairing")
    assert seen.instance_lifecycle_policy.default_action_on_failure == "REPAIR"
    assert (seen.target_size_policy.mode, seen.standby_policy.mode) == ("BULK", "SCALE_OUT_POOL")
    assert seen.status.autoscaler.endswith("/autoscalers/repairing")
    [scaler] = gce.client("AutoscalersClient").list(project="test-project", zone=ZONE)
    assert (scaler.target, scaler.autoscaling_policy.mode) == (seen.self_link, "ON")


# --- preemption, time limits, repairs ------------------------------------------------------------------------------


def test_a_preempted_instance_that_is_deleted_is_known_by_its_operation(project: Project, gce: Clients) -> None:
    gce.create("spot", ["one"])
    project.clock.advance(100)
    [vm] = project.alive()
    project.preempt(vm)
    assert gce.names() == []
    assert gce.history('operationType = "compute.instances.preempted"') == [("compute.instances.preempted", "one")]
    assert gce.history(f'(targetLink = "{project.link("zones", ZONE, "instances", "one")}") (operationType != insert)')
    assert gce.states("spot") == {"one": ("NONE", "", "")}
    project.keeps_failed = False
    gce.create("spot", ["two"])
    project.preempt(project.alive()[0])
    assert (list(gce.states("spot")), gce.group("spot").target_size) == (["one"], 1)


def test_a_preempted_instance_that_is_stopped_keeps_its_disk(project: Project, gce: Clients) -> None:
    gce.create("stopping", ["one"])
    [vm] = project.alive()
    project.clock.advance(100)
    project.ending_seconds = 30
    project.preempt(vm)
    assert gce.states("stopping") == {"one": ("NONE", "STOPPING", "")}
    project.clock.advance(100)
    assert gce.get("one").status == "TERMINATED"
    assert (gce.names("status = TERMINATED"), vm.gone) == (["one"], None)
    assert vm.ended == BEGIN + timedelta(seconds=130)
    assert gce.states("stopping") == {"one": ("NONE", "TERMINATED", "")}
    gce.withdraw("stopping", ["one"])
    project.clock.advance(30)
    assert (gce.names(), vm.ended) == ([], BEGIN + timedelta(seconds=130))


def test_a_group_that_repairs_makes_a_node_that_nobody_asked_for(project: Project, gce: Clients) -> None:
    project.add_group("repairing", ZONE, "spot", repairs=True)
    gce.create("repairing", ["one"])
    [first] = project.alive()
    project.clock.advance(10)
    project.preempt(first)
    assert gce.states("repairing") == {"one": RUNNING}
    [second] = project.alive()
    assert (second.name, second.id != first.id) == ("one", True)
    assert ("compute.instances.repair.recreateInstance", "one") in gce.history("")
    project.stock[TYPE, ZONE, "SPOT"] = 0
    gce.delete("one")
    project.stock[TYPE, ZONE, "SPOT"] = 0
    assert gce.states("repairing") == {"one": ("RECREATING", "", STOCK_OUT)}


def test_an_instance_ends_at_its_time_limit(project: Project, gce: Clients) -> None:
    project.pending_seconds = 30
    project.add_template("short", TYPE, run_seconds=600, action="DELETE")
    project.add_group("short", ZONE, "short")
    gce.create("short", ["one"])
    assert not gce.get("one").resource_status.scheduling.termination_timestamp
    project.clock.advance(30)
    ends = BEGIN + timedelta(seconds=630)
    assert datetime.fromisoformat(gce.get("one").resource_status.scheduling.termination_timestamp) == ends
    assert datetime.fromisoformat(gce.managed("short")[0].scheduling.termination_timestamp) == ends
    project.clock.advance(10_000)
    assert (project.alive(), list(project.bill().values())) == ([], [round(3_673_385 * 630 / 3600)])
    assert (gce.names(), gce.states("short"), gce.group("short").target_size) == ([], {}, 0)
    [vm] = project.instances.values()
    assert (vm.ended, vm.gone) == (ends, ends)


# --- resize requests -----------------------------------------------------------------------------------------------


def test_a_resize_request_waits_for_all_of_its_instances_and_they_have_an_end(project: Project, gce: Clients) -> None:
    project.stock[TYPE, ZONE, "FLEX_START"] = 1
    names = [compute_v1.PerInstanceConfig(name=name) for name in ("one", "two")]
    gce.order("flex", "both", instances=names)
    waiting = gce.ordered("flex", "both")
    assert (waiting.state, waiting.status.last_attempt.error.errors[0].code) == ("ACCEPTED", STOCK_OUT)
    assert (gce.names(), gce.group("flex").target_size) == ([], 0)
    project.clock.advance(500)
    project.stock[TYPE, ZONE, "FLEX_START"] = 2
    assert gce.ordered("flex", "both").state == "SUCCEEDED"
    assert gce.states("flex") == {"one": RUNNING, "two": RUNNING}
    ends = gce.get("one").resource_status.scheduling.termination_timestamp
    assert datetime.fromisoformat(ends) == BEGIN + timedelta(seconds=4100)
    project.clock.advance(3600)
    assert (gce.names(), gce.group("flex").target_size) == ([], 0)


def test_a_resize_request_is_cancelled_only_while_it_waits(project: Project, gce: Clients) -> None:
    where = {"instance_group_manager": "flex", "resize_request": "both"}

    def cancel() -> None:
        gce.call(gce.requests.cancel_unary, compute_v1.CancelInstanceGroupManagerResizeRequestRequest, **where)

    def delete() -> None:
        gce.call(gce.requests.delete_unary, compute_v1.DeleteInstanceGroupManagerResizeRequestRequest, **where)

    project.stock[TYPE, ZONE, "FLEX_START"] = 1
    gce.order("flex", "both", resize_by=2)
    with pytest.raises(exceptions.Conflict):
        gce.order("flex", "both", resize_by=2)
    with pytest.raises(exceptions.BadRequest, match="cancel it first"):
        delete()
    cancel()
    project.stock[TYPE, ZONE, "FLEX_START"] = 9
    assert (gce.ordered("flex", "both").state, gce.names()) == ("CANCELLED", [])
    delete()
    gce.order("flex", "both", resize_by=2)
    with pytest.raises(exceptions.BadRequest, match="only ACCEPTED"):
        cancel()
    delete()
    assert len(gce.names()) == 2


def test_a_resize_request_that_cannot_be_is_refused(project: Project, gce: Clients) -> None:
    for group, fields in (
        ("gpu", {"resize_by": 1}),
        ("flex", {}),
        ("flex", {"resize_by": 1, "instances": [compute_v1.PerInstanceConfig(name="one")]}),
        ("flex", {"resize_by": 1, "seconds": 599}),
        ("flex", {"resize_by": 1, "seconds": 604801}),
    ):
        with pytest.raises(exceptions.BadRequest):
            gce.order(group, "wrong", **fields)
    project.stock[TYPE, ZONE, "FLEX_START"] = 0
    gce.order("flex", "failing", resize_by=1)
    request = project.groups[ZONE, "flex"].requests["failing"]
    request.state, request.error = "FAILED", ("QUOTA_EXCEEDED", "no quota")
    assert gce.ordered("flex", "failing").status.error.errors[0].code == "QUOTA_EXCEEDED"
