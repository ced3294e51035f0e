"""The server's instances do what Google's do: bulk creation, slow and failing operations, lists that lag, labels."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

from tests.clouds.clock import BEGIN
from tests.clouds.gcp.clients import ZONE, Clients, codes
from tests.clouds.gcp.project import STOCK_OUT, Project
from tests.clouds.gcp.server import GcpServer
from tests.contract.gcp_projects import RUNNING, TYPE, gpu_project


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


# --- instances -----------------------------------------------------------------------------------------------------


def test_bulk_insert_is_all_or_none_unless_told(project: Project, gce: Clients) -> None:
    project.stock[TYPE, ZONE, "STANDARD"] = 2
    operation = gce.bulk(["one", "three", "two"])
    assert codes(operation) == ["VM_MIN_COUNT_NOT_REACHED", STOCK_OUT]
    assert (gce.names(), project.stock[TYPE, ZONE, "STANDARD"], project.instances) == ([], 2, {})
    partly = gce.bulk(["one", "three", "two"], min_count=1)
    status = partly.instances_bulk_insert_operation_metadata.per_location_status[f"zones/{ZONE}"]
    assert (codes(partly), status.created_vm_count, status.target_vm_count) == ([], 2, 3)
    assert gce.names() == ["one", "three"]


def test_what_is_rolled_back_existed_and_cost(project: Project, gce: Clients) -> None:
    project.operation_seconds, project.stock[TYPE, ZONE, "STANDARD"] = 120, 2
    operation = gce.bulk(["one", "three", "two"])
    assert (operation.status, codes(operation)) == (compute_v1.Operation.Status.RUNNING, [])
    assert gce.names() == ["one", "three"]
    project.clock.advance(120)
    assert (gce.names(), codes(gce.operation(operation.name))) == ([], ["VM_MIN_COUNT_NOT_REACHED", STOCK_OUT])
    assert set(project.bill().values()) == {round(3_673_385 * 120 / 3600)}


def test_bulk_insert_names_by_pattern_and_changes_the_template(project: Project, gce: Clients) -> None:
    other = compute_v1.InstanceProperties(machine_type="g2-standard-8", labels={"order": "7"})
    spec: dict[str, Any] = {
        "count": 2,
        "per_instance_properties": {},
        "name_pattern": "node-##",
        "instance_properties": other,
    }
    gce.bulk([], **spec)
    gce.bulk([], **spec | {"count": 1})
    assert gce.names("labels.order = 7 AND labels.team:*") == ["node-01", "node-02", "node-03"]
    assert gce.get("node-01").machine_type.endswith(f"/zones/{ZONE}/machineTypes/g2-standard-8")
    with pytest.raises(exceptions.Conflict, match="already exists"):
        gce.bulk(["node-01"])


def test_an_operation_may_fail_late_and_then_did_nothing(project: Project, gce: Clients) -> None:
    project.operation_seconds = 5
    for kind in ("insert", "compute.instanceGroupManagers.createInstances", "delete"):
        project.fail_late(kind, "INTERNAL_ERROR")
    created = gce.create("gpu", ["one"])
    assert codes(created) == []
    project.clock.advance(5)
    assert codes(gce.operation(created.name)) == ["INTERNAL_ERROR"]
    assert gce.states("gpu") == {}
    body = compute_v1.Instance(name="two")
    call = {"instance_resource": body, "source_instance_template": "global/instanceTemplates/gpu"}
    gce.call(gce.instances.insert_unary, compute_v1.InsertInstanceRequest, **call)
    assert gce.names() == []
    gce.call(gce.instances.insert_unary, compute_v1.InsertInstanceRequest, **call)
    gce.delete("two")
    project.clock.advance(5)
    assert gce.names() == ["two"]


def test_the_end_of_an_instance_is_that_of_its_deletion(project: Project, gce: Clients) -> None:
    project.ending_seconds = 45
    token = "22222222-2222-4222-8222-222222222222"
    gce.bulk(["one"])
    project.clock.advance(600)
    running = gce.delete("one", token)
    assert (running.end_time, gce.get("one").status) == ("", "STOPPING")
    project.clock.advance(45)
    ended = gce.delete("one", token)
    assert (ended.name, datetime.fromisoformat(ended.end_time)) == (running.name, BEGIN + timedelta(seconds=645))
    assert list(project.bill().values()) == [round(3_673_385 * 645 / 3600)]
    with pytest.raises(exceptions.NotFound):
        gce.delete("one")


def test_lists_lag_and_gets_do_not(project: Project, gce: Clients) -> None:
    project.list_lag = 30
    gce.create("gpu", ["one"])
    assert (gce.names(), gce.states("gpu"), gce.get("one").status) == ([], {}, "RUNNING")
    project.clock.advance(30)
    assert (gce.names(), gce.states("gpu")) == (["one"], {"one": RUNNING})
    gce.delete("one")
    assert gce.names() == ["one"]
    with pytest.raises(exceptions.NotFound):
        gce.get("one")


def test_labels_change_only_with_the_present_fingerprint(project: Project, gce: Clients) -> None:
    gce.bulk(["one"])
    before = gce.get("one")
    gce.label("one", {"order": "7"}, before.label_fingerprint)
    assert dict(gce.get("one").labels) == {"order": "7"}
    with pytest.raises(exceptions.PreconditionFailed) as caught:
        gce.label("one", {"order": "8"}, before.label_fingerprint)
    assert caught.value.errors[0]["reason"] == "conditionNotMet"


def test_scheduling_changes_only_while_an_instance_is_stopped(project: Project, gce: Clients) -> None:
    gce.create("stopping", ["one"])
    call = {"instance": "one", "scheduling_resource": compute_v1.Scheduling(provisioning_model="STANDARD")}
    with pytest.raises(exceptions.BadRequest, match="stopped instance"):
        gce.call(gce.instances.set_scheduling_unary, compute_v1.SetSchedulingInstanceRequest, **call)
    project.preempt(project.alive()[0])
    gce.call(gce.instances.set_scheduling_unary, compute_v1.SetSchedulingInstanceRequest, **call)
    assert gce.get("one").scheduling.provisioning_model == "STANDARD"


def test_filters_and_pages_of_instances(project: Project, gce: Clients) -> None:
    gce.bulk(["b1", "b2", "b3"])
    gce.create("spot", ["s1"])
    assert gce.names("name = b*") == ["b1", "b2", "b3"]
    assert gce.names("name eq b[12]") == ["b1", "b2"]
    assert gce.names('(name = "b1" OR name = "s1") AND status = RUNNING') == ["b1", "s1"]
    assert gce.names("scheduling.provisioningModel = SPOT") == ["s1"]
    assert gce.names("NOT name = b*") == ["s1"]
    assert gce.names(f'creationTimestamp > "{BEGIN.isoformat()}"') == []
    assert len(gce.listed(max_results=3)) == 4
    assert project.calls[-1][1]["pageToken"]
    found = gce.instances.aggregated_list(project="test-project")
    assert [place for place, scope in found if scope.instances] == [f"zones/{ZONE}"]
    project.unreachable = {"europe-west4-a"}
    with pytest.raises(exceptions.ServiceUnavailable):
        gce.instances.aggregated_list(project="test-project", retry=None)
    assert len(gce.names()) == 4


# --- what is offered -----------------------------------------------------------------------------------------------


def test_machine_types_tell_their_gpus_where_they_are_offered(project: Project, gce: Clients) -> None:
    types = gce.client("MachineTypesClient")
    project.not_offered.add(("a3-highgpu-8g", ZONE))
    rows = {each.name: each for each in types.list(project="test-project", zone=ZONE)}
    [gpu] = rows["a2-highgpu-8g"].accelerators
    assert (gpu.guest_accelerator_type, gpu.guest_accelerator_count) == ("nvidia-tesla-a100", 8)
    assert not rows["e2-standard-4"].accelerators
    with pytest.raises(exceptions.NotFound):
        types.get(project="test-project", zone=ZONE, machine_type="a3-highgpu-8g")
    [where] = [
        place
        for place, scope in types.aggregated_list(
            compute_v1.AggregatedListMachineTypesRequest(project="test-project", filter="name = a3-highgpu-8g")
        )
        if any(each.zone == "us-central1-b" for each in scope.machine_types)
    ]
    assert where == "zones/us-central1-b"
    assert codes(gce.bulk(["one"], instance_properties=compute_v1.InstanceProperties(machine_type="a3-highgpu-8g")))


def test_a_reservation_serves_as_many_as_it_has(project: Project, gce: Clients) -> None:
    project.add_template("kept", TYPE, region="us-central1", reservation="kept")
    project.add_reservation("kept", ZONE, TYPE, 1)
    project.add_group("kept", ZONE, "kept", region="us-central1")
    project.stock[TYPE, ZONE, "STANDARD"] = 0
    gce.create("kept", ["one", "two"])
    assert gce.states("kept") == {"one": RUNNING, "two": ("CREATING", "", "INVALID_USAGE")}
    assert "does not have available resources" in gce.errors("kept")[0].error.message
    seen = gce.client("ReservationsClient").get(project="test-project", zone=ZONE, reservation="kept")
    assert (seen.specific_reservation.in_use_count, seen.specific_reservation.count) == (1, 1)
    template = gce.client("RegionInstanceTemplatesClient").get(
        project="test-project", region="us-central1", instance_template="kept"
    )
    assert list(template.properties.reservation_affinity.values) == ["kept"]


def test_an_instance_of_a_reservation_ends_with_it(project: Project, gce: Clients) -> None:
    project.add_template("bound", TYPE, model="RESERVATION_BOUND", reservation="kept")
    ends = BEGIN + timedelta(hours=1)
    project.add_reservation("kept", ZONE, TYPE, 1, ends=ends)
    gce.bulk(["one"], source_instance_template="global/instanceTemplates/bound")
    seen = gce.client("ReservationsClient").get(project="test-project", zone=ZONE, reservation="kept")
    limit = gce.get("one").resource_status.scheduling.termination_timestamp
    assert datetime.fromisoformat(seen.delete_at_time) == datetime.fromisoformat(limit) == ends
    project.clock.advance(3600)
    assert gce.names() == []


def test_what_exists_is_listed_by_zone_and_for_the_project(project: Project, gce: Clients) -> None:
    project.add_autoscaler(project.groups[ZONE, "gpu"])
    project.add_reservation("kept", ZONE, TYPE, 1)
    here, whole = {"project": "test-project", "zone": ZONE}, {"project": "test-project"}
    assert [zone.name for zone in gce.client("ZonesClient").list(**whole)] == sorted(project.zones)
    assert gce.client("ZonesClient").get(**here).region.endswith("/regions/us-central1")
    assert "nvidia-l4" in [gpu.name for gpu in gce.client("AcceleratorTypesClient").list(**here)]
    assert [kept.name for kept in gce.client("ReservationsClient").list(**here)] == ["kept"]
    assert [group.name for group in gce.groups.list(**here)] == ["gpu", "spot", "stopping", "flex"]
    assert len(dict(gce.groups.aggregated_list(**whole))[f"zones/{ZONE}"].instance_group_managers) == 4
    scalers = dict(gce.client("AutoscalersClient").aggregated_list(**whole))
    assert [scaler.name for scaler in scalers[f"zones/{ZONE}"].autoscalers] == ["gpu"]
    template = gce.client("InstanceTemplatesClient").get(**whole, instance_template="spot")
    assert template.properties.scheduling.instance_termination_action == "DELETE"


def test_waiting_for_an_operation_may_end_before_it_does(project: Project, gce: Clients) -> None:
    project.operation_seconds = 60
    operation = gce.bulk(["one"])
    waited = gce.operations.wait(project="test-project", zone=ZONE, operation=operation.name)
    assert waited.status == compute_v1.Operation.Status.RUNNING
    project.clock.advance(60)
    assert gce.operation(str(operation.id)).status == compute_v1.Operation.Status.DONE
