"""The server of Compute Engine refuses what Google refuses: it is only worth as much as what it refuses."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from google.api_core import exceptions
from google.auth.exceptions import RefreshError
from google.cloud import compute_v1
from requests.exceptions import ConnectionError as Broken

from tests.clouds.gcp.clients import ZONE, Clients
from tests.clouds.gcp.project import Project
from tests.clouds.gcp.protocol import THROTTLED, Fault, answer
from tests.clouds.gcp.server import GcpServer
from tests.patience import PATIENCE

TOKEN = "11111111-1111-4111-8111-111111111111"
INSTANCES = f"/compute/v1/projects/test-project/zones/{ZONE}/instances"
GROUP = f"/compute/v1/projects/test-project/zones/{ZONE}/instanceGroupManagers/grp"


@pytest.fixture(scope="module")
def server() -> Iterator[GcpServer]:
    """One server; each test has a project of its own behind it."""
    with GcpServer(Project()) as server:
        yield server


@pytest.fixture
def project(server: GcpServer) -> Project:
    """A project with a template and a group."""
    server.project = Project()
    server.project.add_template("gpu", "a2-highgpu-1g", labels={"team": "x"})
    server.project.add_group("grp", ZONE, "gpu")
    return server.project


@pytest.fixture(scope="module")
def gce(server: GcpServer) -> Clients:
    """The real SDK."""
    return Clients(server.url)


def raw(server: GcpServer, verb: str, path: str, body: str = "") -> tuple[int, str]:
    """What a hand-made call is answered."""
    where = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE)
    where.request(verb, path, body or None)
    reply = where.getresponse()
    text = json.loads(reply.read())["error"]["message"]
    where.close()
    return reply.status, text


def reason(error: exceptions.GoogleAPICallError) -> str:
    """The first reason of an error, by which Google tells a limit from a missing permission."""
    return str(error.errors[0]["reason"])


@pytest.mark.usefixtures("project")
def test_a_field_that_is_not_in_the_description_is_refused(server: GcpServer) -> None:
    status, said = raw(server, "POST", f"{GROUP}/createInstances", '{"instances": [{"nam": "one"}]}')
    assert (status, 'no field named "nam"' in said) == (400, True)
    status, said = raw(server, "POST", f"{INSTANCES}/bulkInsert", '{"count": "two"}')
    assert (status, "count" in said) == (400, True)


@pytest.mark.usefixtures("project")
def test_a_query_parameter_that_is_not_in_the_description_is_refused(server: GcpServer) -> None:
    assert raw(server, "GET", f"{INSTANCES}?maxResult=3") == (
        400,
        "Invalid JSON payload received. Unknown name \"maxResult\": Cannot bind query parameter. Field 'maxResult' "
        "could not be found in request message.",
    )
    assert raw(server, "GET", f"{INSTANCES}?maxResults=3&maxResults=4")[0] == 400
    assert raw(server, "GET", f"{INSTANCES}?maxResults=many")[0] == 400
    assert raw(server, "GET", f"{INSTANCES}?returnPartialSuccess=yes")[0] == 400


@pytest.mark.usefixtures("project")
def test_a_method_that_does_not_exist_is_not_found(server: GcpServer) -> None:
    assert raw(server, "POST", f"{GROUP}/createInstance", "{}")[0] == 404
    assert raw(server, "POST", f"{INSTANCES}/bulkInsert")[1] == "Required field 'resource' not specified"
    assert raw(server, "GET", INSTANCES, '{"filter": ""}')[0] == 400


@pytest.mark.usefixtures("project")
def test_a_word_that_is_not_in_the_enum_is_refused_also_where_the_sdk_has_only_text(gce: Clients) -> None:
    cheap = compute_v1.InstanceProperties(scheduling=compute_v1.Scheduling(provisioning_model="CHEAP"))
    with pytest.raises(exceptions.BadRequest, match=r"provisioningModel': 'CHEAP'. It is not one of FLEX_START"):
        gce.bulk(["one"], instance_properties=cheap)


@pytest.mark.parametrize("name", ["One", "1a", "a_b", "a-", "a" * 64, "charterer.dev"])
def test_a_name_that_is_not_of_rfc_1035_is_refused(project: Project, gce: Clients, name: str) -> None:
    with pytest.raises(exceptions.BadRequest, match="Must be a match of regex"):
        gce.create("grp", [name])
    with pytest.raises(exceptions.BadRequest, match="Must be a match of regex"):
        gce.bulk([name])
    assert project.instances == {}


@pytest.mark.usefixtures("project")
def test_a_name_in_the_path_is_of_rfc_1035_or_an_id(server: GcpServer) -> None:
    assert [raw(server, "GET", f"{INSTANCES}/{name}")[0] for name in ("One", "one_", "one", "17")] == [
        400,
        400,
        404,
        404,
    ]


@pytest.mark.usefixtures("project")
def test_the_longest_name_is_accepted(gce: Clients) -> None:
    gce.create("grp", ["a" * 63])
    assert gce.names() == ["a" * 63]


@pytest.mark.parametrize("token", ["r1", "0" * 32, "00000000-0000-0000-0000-000000000000", "{" + TOKEN + "}"])
def test_a_request_id_that_is_no_uuid_is_refused(project: Project, gce: Clients, token: str) -> None:
    with pytest.raises(exceptions.BadRequest, match="requestId"):
        gce.create("grp", ["one"], token)
    assert project.instances == {}


def test_the_same_request_id_is_the_same_operation_and_never_another_call(project: Project, gce: Clients) -> None:
    first, again = gce.create("grp", ["one"], TOKEN), gce.create("grp", ["one"], TOKEN)
    assert (first.name, first.client_operation_id) == (again.name, TOKEN)
    assert gce.group("grp").target_size == 1
    with pytest.raises(exceptions.BadRequest, match="other parameters"):
        gce.create("grp", ["two"], TOKEN)
    project.clock.advance(3601)
    assert gce.create("grp", ["one"], TOKEN).error.errors[0].code == "MEMBER_ALREADY_EXISTS"


@pytest.mark.usefixtures("project")
def test_what_does_not_exist_is_not_found(gce: Clients, server: GcpServer) -> None:
    with pytest.raises(exceptions.NotFound, match="instanceGroupManagers/other' was not found"):
        gce.create("other", ["one"])
    with pytest.raises(exceptions.NotFound, match="instanceTemplates/none' was not found"):
        gce.bulk(["one"], source_instance_template="projects/test-project/global/instanceTemplates/none")
    with pytest.raises(exceptions.NotFound, match="projects/theirs' was not found"):
        Clients(server.url, "theirs").listed()
    with pytest.raises(exceptions.BadRequest, match="Unknown zone"):
        Clients(server.url, zone="us-central1-z").listed()


@pytest.mark.usefixtures("project")
def test_lists_have_limits(gce: Clients) -> None:
    for wrong in ({"max_results": 501}, {"page_token": "x"}, {"order_by": "size"}):
        with pytest.raises(exceptions.BadRequest, match="Invalid value for field"):
            gce.listed(**wrong)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "filter",
    ["nam = one", "labels.team", "(name = one", "name ~ one", "name = one)", 'name = "one', "scheduling.cheap = true"],
)
def test_a_filter_that_does_not_parse_is_refused(gce: Clients, filter: str) -> None:
    with pytest.raises(exceptions.BadRequest, match="Invalid list filter expression"):
        gce.listed(filter)


def test_instances_are_withdrawn_by_urls_of_the_groups_zone_or_by_names(project: Project, gce: Clients) -> None:
    gce.create("grp", ["one", "two"])
    for wrong in (["zones/us-central1-b/instances/one"], ["instances/one"], ["one", f"zones/{ZONE}/instances/two"], []):
        with pytest.raises(exceptions.BadRequest):
            gce.withdraw("grp", wrong, skip=True)
    assert len(project.alive()) == 2
    gce.withdraw("grp", [f"https://www.googleapis.com/compute/v1/projects/test-project/zones/{ZONE}/instances/one"])
    gce.withdraw("grp", ["two"])
    assert project.alive() == []


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("labels", [{"charterer.dev/order": "a"}, {"Team": "a"}, {"team": "A"}, {"team": "a" * 64}])
def test_labels_have_the_characters_of_google(gce: Clients, labels: dict[str, str]) -> None:
    with pytest.raises(exceptions.BadRequest, match="violates format constraints"):
        gce.bulk(["one"], instance_properties=compute_v1.InstanceProperties(labels=labels))


def test_a_missing_permission_is_named(project: Project, gce: Clients) -> None:
    project.denied = {"compute.instanceGroupManagers.update", "compute.instances.setLabels"}
    said = f"Required 'compute.instanceGroupManagers.update' permission for 'projects/test-project/zones/{ZONE}/"
    with pytest.raises(exceptions.Forbidden, match=said) as caught:
        gce.create("grp", ["one"])
    assert reason(caught.value) == "forbidden"
    labels = compute_v1.InstanceProperties(labels={"a": "b"})
    with pytest.raises(exceptions.Forbidden, match=r"compute\.instances\.setLabels"):
        gce.bulk(["one"], instance_properties=labels)
    body = compute_v1.TestPermissionsRequest(permissions=["compute.instances.create", "compute.instances.setLabels"])
    kind, field = compute_v1.TestIamPermissionsInstanceRequest, "test_permissions_request_resource"
    granted = gce.call(gce.instances.test_iam_permissions, kind, resource="one", **{field: body})
    assert list(granted.permissions) == ["compute.instances.create"]


def test_a_token_that_is_not_accepted_is_a_401_at_which_the_sdk_wants_a_new_one(
    project: Project, server: GcpServer
) -> None:
    project.tokens = {"good"}
    assert raw(server, "GET", INSTANCES) == (401, "Invalid Credentials")
    assert Clients(server.url, token="good").listed() == []
    with pytest.raises(RefreshError):
        Clients(server.url, token="stale").listed()
    assert project.callers["instances.list"] == {"", "good", "stale"}


def test_a_rate_limit_is_a_403_with_its_own_reason_and_a_time(project: Project, gce: Clients) -> None:
    project.faults.fail("instances.list", THROTTLED)
    with pytest.raises(exceptions.Forbidden) as caught:
        gce.listed()
    assert (reason(caught.value), caught.value.response.headers["Retry-After"]) == ("rateLimitExceeded", "7")
    assert gce.listed() == []


def test_an_answer_is_lost_before_or_after_the_call_took_effect(project: Project, gce: Clients) -> None:
    project.faults.lose_answer("instanceGroupManagers.createInstances", takes_effect=False)
    with pytest.raises(Broken):
        gce.create("grp", ["one"])
    assert project.instances == {}
    project.faults.lose_answer("instanceGroupManagers.createInstances", takes_effect=True)
    with pytest.raises(Broken):
        gce.create("grp", ["one"], TOKEN)
    assert gce.names() == ["one"]
    gce.create("grp", ["one"], TOKEN)
    assert (gce.names(), project.count()["instanceGroupManagers.createInstances"]) == (["one"], 3)


def test_an_error_may_come_although_the_call_took_effect(project: Project, gce: Clients) -> None:
    project.faults.fail("instances.bulkInsert", Fault(503, "backendError", "Backend Error"), takes_effect=True)
    with pytest.raises(exceptions.ServiceUnavailable):
        gce.bulk(["one"])
    assert gce.names() == ["one"]


def test_a_test_sees_each_call_before_and_after_its_effect(project: Project, gce: Clients) -> None:
    seen: list[tuple[str, str, int]] = []
    project.witness = lambda when, method: seen.append((when, method, len(project.instances)))
    gce.bulk(["one"])
    assert seen == [("before", "instances.bulkInsert", 0), ("after", "instances.bulkInsert", 1)]


def test_an_answer_outside_the_description_is_found() -> None:
    with pytest.raises(AssertionError, match="'ON_FIRE'"):
        answer(compute_v1.Instance(status="ON_FIRE"))
