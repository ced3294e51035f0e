"""The raw client against a real API server: what Kubernetes decides, and how it is told apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Fenced,
    Forbidden,
    Invalid,
    NamespaceTerminating,
    NotFound,
    OutcomeUnknown,
    Unauthorized,
    Unreachable,
)
from charterer.cluster.paths import CONFIG_MAPS, NAMESPACES, NODES, PODS
from tests.cluster.support import WIDGETS, config_map, fresh, install_widgets, make_namespace, widget
from tests.testbed.controlplane import ControlPlane
from tests.testbed.gate import Gate, kubeconfig_through


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with await Client.connect(control_plane.kubeconfig) as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> str:
    return await make_namespace(client)


@pytest.fixture
async def a_widget(client: Client, namespace: str) -> str:
    await install_widgets(client)
    name = fresh("widget")
    await client.post(WIDGETS.all(namespace), widget(namespace, name))
    return name


def _status(namespace: str, name: str, version: str, **status: str) -> RawObject:
    return {
        "apiVersion": f"{WIDGETS.group}/{WIDGETS.version}",
        "kind": "Widget",
        "metadata": {"namespace": namespace, "name": name, "resourceVersion": version},
        "status": status,
    }


class TestApply:
    async def test_a_stale_resource_version_is_a_conflict(self, client: Client, namespace: str, a_widget: str) -> None:
        path = WIDGETS.status(a_widget, namespace)
        old = (await client.get(path))["metadata"]["resourceVersion"]
        await client.apply(path, _status(namespace, a_widget, old, phase="One"), "charterer")
        with pytest.raises(Conflict):
            await client.apply(path, _status(namespace, a_widget, old, phase="Two"), "charterer")
        assert (await client.get(path))["status"] == {"phase": "One"}

    async def test_a_no_op_leaves_the_resource_version_alone(
        self, client: Client, namespace: str, a_widget: str
    ) -> None:
        path = WIDGETS.status(a_widget, namespace)
        first = await client.get(path)
        once = await client.apply(
            path, _status(namespace, a_widget, first["metadata"]["resourceVersion"], phase="One"), "charterer"
        )
        version = once["metadata"]["resourceVersion"]
        again = await client.apply(path, _status(namespace, a_widget, version, phase="One"), "charterer")
        assert again["metadata"]["resourceVersion"] == version

    async def test_two_managers_own_disjoint_fields_and_what_one_gives_up_is_removed(
        self, client: Client, namespace: str, a_widget: str
    ) -> None:
        path = WIDGETS.status(a_widget, namespace)
        version = (await client.get(path))["metadata"]["resourceVersion"]
        one = await client.apply(path, _status(namespace, a_widget, version, phase="One"), "charterer")
        version = one["metadata"]["resourceVersion"]
        two = await client.apply(path, _status(namespace, a_widget, version, note="seen"), "charterer-status")
        assert two["status"] == {"phase": "One", "note": "seen"}
        version = two["metadata"]["resourceVersion"]
        three = await client.apply(path, _status(namespace, a_widget, version), "charterer-status")
        assert three["status"] == {"phase": "One"}

    @pytest.mark.parametrize("subresource", ["", "/status"])
    async def test_an_apply_never_brings_a_deleted_object_back(
        self, client: Client, namespace: str, a_widget: str, subresource: str
    ) -> None:
        path = WIDGETS.one(a_widget, namespace)
        metadata = (await client.get(path))["metadata"]
        await client.delete(path)
        body = _status(namespace, a_widget, metadata["resourceVersion"], phase="Ghost")
        if not subresource:
            body["metadata"] = {"namespace": namespace, "name": a_widget, "uid": metadata["uid"]}
        with pytest.raises((Conflict, NotFound)):
            await client.apply(path + subresource, body, "charterer")
        with pytest.raises(NotFound):
            await client.get(path)

    async def test_what_could_bring_one_back_is_refused_before_it_is_sent(self, client: Client, namespace: str) -> None:
        ghost = {"metadata": {"name": "ghost", "namespace": namespace, "resourceVersion": "1"}}
        with pytest.raises(ValueError, match="uid"):
            await client.apply(WIDGETS.one("ghost", namespace), ghost, "charterer")
        del ghost["metadata"]["resourceVersion"]
        with pytest.raises(ValueError, match="resourceVersion"):
            await client.apply(WIDGETS.status("ghost", namespace), ghost, "charterer")

    async def test_creating_on_purpose_answers_with_the_object(self, client: Client, namespace: str) -> None:
        await install_widgets(client)
        name = fresh("applied")
        made = await client.apply(WIDGETS.one(name, namespace), widget(namespace, name), "charterer", may_create=True)
        assert made["metadata"]["uid"]


class TestPatches:
    async def test_a_merge_patch_with_a_stale_resource_version_is_a_conflict(
        self, client: Client, namespace: str, a_widget: str
    ) -> None:
        path = WIDGETS.one(a_widget, namespace)
        old = (await client.get(path))["metadata"]["resourceVersion"]
        await client.merge_patch(path, {"metadata": {"resourceVersion": old}, "spec": {"size": 2}})
        with pytest.raises(Conflict):
            await client.merge_patch(path, {"metadata": {"resourceVersion": old}, "spec": {"size": 3}})

    @pytest.mark.parametrize("resource", [WIDGETS, CONFIG_MAPS])
    async def test_a_json_patch_whose_test_does_not_hold_is_a_conflict(
        self, client: Client, namespace: str, a_widget: str, resource: object
    ) -> None:
        if resource is WIDGETS:
            path = WIDGETS.one(a_widget, namespace)
        else:
            await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "cm"))
            path = CONFIG_MAPS.one("cm", namespace)
        label = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
        with pytest.raises(Conflict):
            await client.json_patch(path, [{"op": "test", "path": "/metadata/uid", "value": "other"}, label])
        with pytest.raises(Conflict):
            await client.json_patch(path, [{"op": "test", "path": "/metadata/nothing", "value": "x"}, label])
        uid = (await client.get(path))["metadata"]["uid"]
        done = await client.json_patch(path, [{"op": "test", "path": "/metadata/uid", "value": uid}, label])
        assert done["metadata"]["labels"] == {"a": "b"}

    async def test_patching_what_is_not_there_is_not_found(self, client: Client, namespace: str) -> None:
        with pytest.raises(NotFound):
            await client.merge_patch(CONFIG_MAPS.one("nothing", namespace), {"data": {"a": "b"}})


class TestCreateAndDelete:
    async def test_creating_twice_is_already_exists(self, client: Client, namespace: str) -> None:
        await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "once"))
        with pytest.raises(AlreadyExists, match="once"):
            await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "once"))

    async def test_a_dry_run_creates_nothing(self, client: Client, namespace: str) -> None:
        await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "dry"), dry_run=True)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS.one("dry", namespace))

    async def test_deleting_asks_for_the_uid(self, client: Client, namespace: str) -> None:
        made = await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "kept"))
        path = CONFIG_MAPS.one("kept", namespace)
        with pytest.raises(Conflict):
            await client.delete(path, uid="another")
        await client.delete(path, uid=made["metadata"]["uid"])
        with pytest.raises(NotFound):
            await client.delete(path)

    async def test_what_is_wrong_with_an_object_is_said_field_by_field(
        self, client: Client, namespace: str, a_widget: str
    ) -> None:
        bad = widget(namespace, "bad", size=-1)
        bad["spec"]["colour"] = "ultramarine"
        with pytest.raises(Invalid) as refused:
            await client.post(WIDGETS.all(namespace), bad)
        assert "spec.size" in refused.value.message
        assert "spec.colour" in refused.value.message

    async def test_nothing_can_be_created_in_a_namespace_that_is_being_deleted(
        self, client: Client, namespace: str
    ) -> None:
        held = config_map(namespace, "holds")
        held["metadata"]["finalizers"] = ["charterer.test/hold"]
        await client.post(CONFIG_MAPS.all(namespace), held)
        await client.delete(NAMESPACES.one(namespace))
        with pytest.raises(NamespaceTerminating):
            await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "late"))
        await client.merge_patch(CONFIG_MAPS.one("holds", namespace), {"metadata": {"finalizers": None}})


class TestLists:
    async def test_pages_make_up_the_whole_list_at_one_resource_version(self, client: Client, namespace: str) -> None:
        for number in range(7):
            await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, f"item-{number}"))
        path = CONFIG_MAPS.all(namespace)
        pages = [page async for page in client.pages(path, labels="charterer.test/kept", limit=3)]
        assert [len(page.items) for page in pages] == [3, 3, 1]
        assert len({page.resource_version for page in pages}) == 1
        listing = await client.list(path, labels="charterer.test/kept", limit=2)
        assert len(listing.items) == 7
        assert {item["kind"] for item in listing.items} == {"ConfigMap"}

    async def test_fields_select(self, client: Client) -> None:
        listing = await client.list(NAMESPACES.all(), fields="metadata.name=default")
        assert [item["metadata"]["name"] for item in listing.items] == ["default"]


class TestRefusals:
    async def test_a_missing_permission_is_named(
        self, control_plane: ControlPlane, client: Client, namespace: str
    ) -> None:
        control_plane.kubectl("create", "serviceaccount", "weak", "--namespace", namespace)
        async with await Client.connect(control_plane.service_account_kubeconfig(namespace, "weak")) as weak:
            with pytest.raises(Forbidden, match=r"cannot list resource \"nodes\".*ClusterRole"):
                await weak.list(NODES.all())

    async def test_an_unknown_token_is_unauthorized(self, control_plane: ControlPlane, tmp_path: Path) -> None:
        text = control_plane.kubeconfig.read_text().replace(control_plane.admin_token, "nobody")
        (tmp_path / "kubeconfig").write_text(text)
        async with await Client.connect(tmp_path / "kubeconfig") as stranger:
            with pytest.raises(Unauthorized):
                await stranger.get("/version")

    async def test_a_rotated_token_file_is_read_again(self, control_plane: ControlPlane, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("worn-out")
        config = yaml.safe_load(control_plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"tokenFile": "token"}
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        async with await Client.connect(tmp_path / "kubeconfig") as client:
            with pytest.raises(Unauthorized):
                await client.get("/api")
            token.write_text(control_plane.admin_token)
            assert (await client.get("/api"))["kind"] == "APIVersions"


class TestOutages:
    @pytest.fixture
    async def gate(self, control_plane: ControlPlane) -> AsyncIterator[Gate]:
        with Gate("127.0.0.1", int(control_plane.url.rsplit(":", 1)[1])) as gate:
            yield gate

    @pytest.fixture
    async def behind(self, control_plane: ControlPlane, gate: Gate, tmp_path: Path) -> AsyncIterator[Client]:
        config = kubeconfig_through(gate, control_plane.kubeconfig, tmp_path / "kubeconfig")
        async with await Client.connect(config) as client:
            yield client

    async def test_a_refused_connection_did_nothing(self, gate: Gate, behind: Client, namespace: str) -> None:
        gate.close()
        with pytest.raises(Unreachable, match="not sent"):
            await behind.post(CONFIG_MAPS.all(namespace), config_map(namespace, "never"))
        gate.open()
        assert await behind.post(CONFIG_MAPS.all(namespace), config_map(namespace, "now"))

    async def test_a_mutation_without_an_answer_in_time_may_have_happened(
        self, gate: Gate, behind: Client, client: Client, namespace: str
    ) -> None:
        await behind.get("/version")
        gate.delay = 0.6
        with pytest.raises(OutcomeUnknown):
            await behind.post(CONFIG_MAPS.all(namespace), config_map(namespace, "perhaps"), within=0.9)
        gate.delay = 0
        assert await client.get(CONFIG_MAPS.one("perhaps", namespace))

    async def test_a_mutation_cut_off_on_the_way_may_have_happened(
        self, gate: Gate, behind: Client, namespace: str
    ) -> None:
        await behind.get("/version")
        gate.delay = 30
        sent = asyncio.create_task(behind.post(CONFIG_MAPS.all(namespace), config_map(namespace, "cut")))
        done, _ = await asyncio.wait({sent}, timeout=0.3)
        assert not done
        await asyncio.to_thread(gate.close)
        with pytest.raises(OutcomeUnknown):
            await sent

    async def test_a_read_without_an_answer_is_only_unreachable(self, gate: Gate, behind: Client) -> None:
        await behind.get("/version")
        gate.delay = 30
        with pytest.raises(Unreachable):
            await behind.get("/version", within=0.3)


class TestFence:
    async def test_no_mutation_is_sent_without_leadership_but_reads_are(
        self, control_plane: ControlPlane, namespace: str
    ) -> None:
        async with await Client.connect(control_plane.kubeconfig, fence=lambda: 0.5) as standby:
            with pytest.raises(Fenced):
                await standby.post(CONFIG_MAPS.all(namespace), config_map(namespace, "fenced"))
            with pytest.raises(NotFound):
                await standby.get(CONFIG_MAPS.one("fenced", namespace))

    async def test_no_mutation_outlasts_leadership(
        self, control_plane: ControlPlane, namespace: str, tmp_path: Path
    ) -> None:
        with Gate("127.0.0.1", int(control_plane.url.rsplit(":", 1)[1])) as gate:
            config = kubeconfig_through(gate, control_plane.kubeconfig, tmp_path / "kubeconfig")
            async with await Client.connect(config, fence=lambda: 1.1) as leader:
                await leader.get("/version")
                gate.delay = 60
                async with asyncio.timeout(5):
                    with pytest.raises(OutcomeUnknown):
                        await leader.post(CONFIG_MAPS.all(namespace), config_map(namespace, "late"))


async def test_an_error_names_the_call_and_the_object(client: Client, namespace: str) -> None:
    with pytest.raises(ApiError, match=rf"GET /api/v1/namespaces/{namespace}/pods/nobody: .*nobody.* not found"):
        await client.get(PODS.one("nobody", namespace))
