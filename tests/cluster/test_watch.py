"""Watch, store and repair list on a real API server: what arrives, what survives an outage, what is left untouched."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest

from charterer.cluster import credentials, kinds
from charterer.cluster.client import Client
from charterer.cluster.lease import Heartbeat
from charterer.cluster.paths import CONFIG_MAPS, LEASES, PODS
from charterer.cluster.resync import SETTLE, Resync
from charterer.cluster.store import ObjectKey, Store, WatchedKind
from charterer.cluster.watch import LATER_SECONDS, Watch
from charterer.workloads import ALL_KINDS
from tests.cluster.crd_cases import install_crds
from tests.cluster.support import (
    WIDGETS,
    Changes,
    awaited,
    change_widgets,
    config_map,
    data_of,
    install_widgets,
    make_namespace,
    widget,
)
from tests.testbed.controlplane import ControlPlane
from tests.testbed.gate import Gate, kubeconfig_through
from tests.testbed.storm import StormProxy

Data = tuple[tuple[str, str], ...]
MAPS: WatchedKind[Data] = WatchedKind("ConfigMap", CONFIG_MAPS, data_of, labels="charterer.test/kept")
SIZES: WatchedKind[int] = WatchedKind("Widget", WIDGETS, lambda raw: int(raw["spec"]["size"]))


class LoudHeartbeat(Heartbeat):
    """Says when something was delivered."""

    def __init__(self) -> None:
        super().__init__()
        self._heard = threading.Event()

    def delivered(self, resource_version: int) -> None:
        super().delivered(resource_version)
        self._heard.set()

    async def caught_up(self) -> None:
        while self.lag() > 0:
            await awaited(self._heard)
            self._heard.clear()


@dataclass
class Bed:
    """A store with a running watch behind a gate; ``client`` goes around the gate, ``behind`` through it."""

    client: Client
    behind: Client
    store: Store
    changes: Changes
    gate: Gate
    heartbeat: LoudHeartbeat
    watch: Watch
    namespace: str

    def key(self, name: str) -> ObjectKey:
        return ObjectKey(self.namespace, name)

    def has(self, name: str, **data: str) -> Callable[[], bool]:
        return lambda: self.store.view(MAPS).objects.get(self.key(name)) == tuple(sorted(data.items()))

    def lacks(self, name: str) -> Callable[[], bool]:
        return lambda: self.key(name) not in self.store.view(MAPS).objects

    async def put(self, name: str, **data: str) -> None:
        await self.client.post(CONFIG_MAPS.all(self.namespace), config_map(self.namespace, name, **data))


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with await Client.connect(control_plane.kubeconfig) as client:
        yield client


@contextmanager
def watching(
    access: credentials.Access,
    store: Store,
    heartbeat: Heartbeat,
    namespace: str,
    on_relist: Callable[[], object] = lambda: None,
    on_end: Callable[[], object] = lambda: None,
    later: float = LATER_SECONDS,
) -> Iterator[Watch]:
    hears = {"on_relist": on_relist, "on_end": on_end}
    watch = Watch(access, store, heartbeat, lease="charterer", namespace=namespace, later=later, **hears)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop(10.0 if watch.alive else 0.0)  # kopf does not return from one that failed
        assert not watch.alive


@pytest.fixture
async def bed(control_plane: ControlPlane, client: Client, tmp_path: Path) -> AsyncIterator[Bed]:
    namespace = await make_namespace(client)
    store = Store([MAPS])
    heartbeat = LoudHeartbeat()
    with Gate("127.0.0.1", int(control_plane.url.rsplit(":", 1)[1])) as gate:
        access = credentials.load(kubeconfig_through(gate, control_plane.kubeconfig, tmp_path / "kubeconfig"))
        async with Client(access) as behind:
            with watching(access, store, heartbeat, namespace) as watch:
                yield Bed(client, behind, store, Changes(store), gate, heartbeat, watch, namespace)
                await asyncio.to_thread(watch.stop)


async def test_what_is_made_changed_and_deleted_arrives(bed: Bed) -> None:
    await bed.put("a", x="1")
    await bed.changes.until(bed.has("a", x="1"))
    await bed.client.merge_patch(CONFIG_MAPS.one("a", bed.namespace), {"data": {"x": "2"}})
    await bed.changes.until(bed.has("a", x="2"))
    await bed.client.delete(CONFIG_MAPS.one("a", bed.namespace))
    await bed.changes.until(bed.lacks("a"))


async def test_only_what_the_selector_matches_is_held(bed: Bed) -> None:
    other = config_map(bed.namespace, "first")  # it would come before "mine" also in a list
    del other["metadata"]["labels"]
    await bed.client.post(CONFIG_MAPS.all(bed.namespace), other)
    await bed.put("mine")
    await bed.changes.until(bed.has("mine"))
    assert bed.lacks("first")()


async def test_the_first_list_fills_the_store(bed: Bed) -> None:
    await bed.put("before", x="1")
    await Resync(bed.client, bed.store).once()
    assert bed.has("before", x="1")()


async def test_the_watch_goes_on_after_an_outage(bed: Bed) -> None:
    await bed.put("a", x="1")
    await bed.changes.until(bed.has("a", x="1"))
    bed.gate.close()
    await bed.client.merge_patch(CONFIG_MAPS.one("a", bed.namespace), {"data": {"x": "2"}})
    await bed.put("b", y="1")
    bed.gate.open()
    await bed.changes.until(bed.has("a", x="2"))
    await bed.changes.until(bed.has("b", y="1"))
    assert bed.watch.alive


async def test_a_deletion_that_nobody_tells_is_repaired_by_the_list(bed: Bed, client: Client) -> None:
    store = Store([MAPS])
    for name in ("stays", "goes"):
        await bed.put(name)
    resync = Resync(client, store)
    assert await resync.once() == ()
    await client.delete(CONFIG_MAPS.one("goes", bed.namespace))
    assert await resync.once() == ((MAPS, bed.key("goes")),)
    assert bed.key("stays") in store.view(MAPS).objects


async def test_a_deletion_missed_while_the_gate_was_closed_is_gone_in_the_end(bed: Bed) -> None:
    await bed.put("a")
    await bed.changes.until(bed.has("a"))
    bed.gate.close()
    await bed.client.delete(CONFIG_MAPS.one("a", bed.namespace))
    assert bed.has("a")()
    bed.gate.open()
    await Resync(bed.behind, bed.store).once()
    assert bed.lacks("a")()


async def test_repairing_goes_on_by_itself_through_an_outage(bed: Bed) -> None:
    await bed.put("a")
    resync = Resync(bed.behind, bed.store, interval=0.1)
    running = asyncio.create_task(resync.run())
    try:
        await bed.changes.until(bed.has("a"))
        bed.gate.close()
        await bed.client.delete(CONFIG_MAPS.one("a", bed.namespace))
        bed.gate.open()
        await bed.changes.until(bed.lacks("a"))
    finally:
        running.cancel()


async def test_a_list_older_than_a_deletion_does_not_bring_the_object_back(bed: Bed) -> None:
    await bed.put("a")
    await bed.changes.until(bed.has("a"))
    old = await bed.client.get(CONFIG_MAPS.one("a", bed.namespace))
    await bed.client.delete(CONFIG_MAPS.one("a", bed.namespace))
    await bed.changes.until(bed.lacks("a"))
    assert not bed.store.put(MAPS, old)
    assert bed.lacks("a")()


async def test_no_object_is_written_to_not_even_those_with_kopfs_own_finalizer(bed: Bed) -> None:
    marked = config_map(bed.namespace, "marked")
    marked["metadata"]["finalizers"] = ["kopf.zalando.org/KopfFinalizerMarker"]
    marked["metadata"]["annotations"] = {"kopf.zalando.org/last-handled-configuration": "{}"}
    made = await bed.client.post(CONFIG_MAPS.all(bed.namespace), marked)
    await bed.put("plain")
    await bed.changes.until(bed.has("marked"))
    await bed.changes.until(bed.has("plain"))
    await bed.client.delete(CONFIG_MAPS.one("marked", bed.namespace))
    # A later object's arrival shows that the events before it were handled to their end.
    await bed.put("later")
    await bed.changes.until(bed.has("later"))
    now = await bed.client.get(CONFIG_MAPS.one("marked", bed.namespace))
    assert now["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
    assert now["metadata"]["annotations"] == made["metadata"]["annotations"]
    for name in ("plain", "later"):
        raw = await bed.client.get(CONFIG_MAPS.one(name, bed.namespace))
        assert {field["manager"] for field in raw["metadata"]["managedFields"]} == {"charterer"}
        assert "annotations" not in raw["metadata"]
    await bed.client.merge_patch(CONFIG_MAPS.one("marked", bed.namespace), {"metadata": {"finalizers": None}})


async def test_each_renewal_of_the_lease_comes_back_as_a_heartbeat(bed: Bed) -> None:
    lease = {"metadata": {"name": "charterer"}, "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {}}
    made = await bed.client.post(LEASES.all(bed.namespace), lease)
    bed.heartbeat.renewed(int(made["metadata"]["resourceVersion"]))
    await bed.heartbeat.caught_up()
    bed.gate.close()
    renewed = await bed.client.merge_patch(
        LEASES.one("charterer", bed.namespace), {"spec": {"renewTime": "2030-01-01T00:00:00.000000Z"}}
    )
    bed.heartbeat.renewed(int(renewed["metadata"]["resourceVersion"]))
    assert bed.heartbeat.lag() > 0
    bed.gate.open()
    await bed.heartbeat.caught_up()
    await bed.client.delete(LEASES.one("charterer", bed.namespace))


async def test_a_watch_without_permission_tries_on_and_is_there_once_it_is_granted(
    control_plane: ControlPlane, client: Client
) -> None:
    namespace = await make_namespace(client)
    control_plane.kubectl("create", "serviceaccount", "late", "--namespace", namespace)
    access = credentials.load(control_plane.service_account_kubeconfig(namespace, "late"))
    store = Store([WatchedKind("ConfigMap", CONFIG_MAPS, data_of, fields=f"metadata.namespace={namespace}")])
    changes = Changes(store)
    with watching(access, store, Heartbeat(), namespace) as watch:
        await awaited(watch.ready)
        await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "a"))
        control_plane.kubectl(
            "create",
            "clusterrolebinding",
            namespace,
            "--clusterrole=cluster-admin",
            f"--serviceaccount={namespace}:late",
        )
        await changes.until(lambda: ObjectKey(namespace, "a") in store.view(store.kinds[0]).objects)
        await asyncio.to_thread(watch.stop)


async def test_an_optional_kind_that_may_not_be_listed_is_not_asked_for_until_it_may(
    control_plane: ControlPlane, client: Client
) -> None:
    await install_widgets(client)
    namespace = await make_namespace(client)
    sizes = replace(SIZES, optional=True)
    store, own = Store([MAPS, sizes]), f"--serviceaccount={namespace}:few"
    changes = Changes(store)

    def grant(name: str, verbs: str, resource: str) -> None:
        control_plane.kubectl(
            "create", "clusterrole", f"{namespace}-{name}", f"--verb={verbs}", f"--resource={resource}"
        )
        role = f"--clusterrole={namespace}-{name}"
        control_plane.kubectl("create", "clusterrolebinding", f"{namespace}-{name}", role, own)

    control_plane.kubectl("create", "serviceaccount", "few", "--namespace", namespace)
    grant("maps", "list,watch", "configmaps,leases.coordination.k8s.io,namespaces")
    async with StormProxy(control_plane) as proxy:
        access = credentials.load(proxy.kubeconfig(namespace, "few"))
        with watching(access, store, Heartbeat(), namespace, later=0.1) as watch:
            await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "m"))
            await changes.until(lambda: store.get(MAPS, "m", namespace) == ())
            assert proxy.asked[WIDGETS.all()] == 0
            await client.post(WIDGETS.all(namespace), widget(namespace, "w", size=7))
            grant("widgets", "list,watch", str(WIDGETS))
            await changes.until(lambda: store.get(sizes, "w", namespace) == 7)
            assert proxy.asked[WIDGETS.all()] > 0
            await asyncio.to_thread(watch.stop)


_REFUSALS = {400: "BadRequest", 404: "NotFound", 405: "MethodNotAllowed", 409: "Conflict", 422: "Invalid"}
_FAILURES = (
    *((status, reason, "configmaps", False) for status, reason in _REFUSALS.items()),
    *product([410], ["Expired"], ["configmaps", "leases", "namespaces"], [False, True]),
    *product([500], ["InternalError"], ["configmaps", "leases", "namespaces"], [True]),
)
_OF_EACH_KIND = (_FAILURES[0], (410, "Expired", "configmaps", False), (410, "Expired", "leases", True), _FAILURES[-1])
"""Of each kind of failure one, and each resource once."""


@pytest.mark.parametrize(
    ("status", "reason", "plural", "event"),
    [pytest.param(*each, marks=[] if each in _OF_EACH_KIND else pytest.mark.repeats) for each in _FAILURES],
)
async def test_a_watch_that_fails_goes_on_or_ends_as_a_whole_but_is_never_blind(
    control_plane: ControlPlane, client: Client, status: int, reason: str, plural: str, event: bool
) -> None:
    """A watch that ends says so at once, and its process is restarted. ``event``: it is begun, and then fails."""
    namespace = await make_namespace(client)
    control_plane.kubectl("create", "serviceaccount", "eyes", "--namespace", namespace)
    binding = ("clusterrolebinding", namespace, "--clusterrole=cluster-admin", f"--serviceaccount={namespace}:eyes")
    control_plane.kubectl("create", *binding)
    store, ended = Store([MAPS, kinds.NAMESPACES]), threading.Event()
    changes = Changes(store)
    async with StormProxy(control_plane) as proxy:
        access = credentials.load(proxy.kubeconfig(namespace, "eyes"))
        with watching(access, store, Heartbeat(), namespace, on_end=ended.set) as watch:
            await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "before"))
            await changes.until(lambda: ObjectKey(namespace, "before") in store.view(MAPS).objects)
            (proxy.fail_a_watch if event else proxy.refuse_a_watch)(plural, status, reason)
            await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "after"))
            seen = asyncio.create_task(changes.until(lambda: ObjectKey(namespace, "after") in store.view(MAPS).objects))
            over = asyncio.create_task(awaited(ended))
            done, pending = await asyncio.wait({seen, over}, return_when=asyncio.FIRST_COMPLETED, timeout=15)
            for task in pending:
                task.cancel()
            assert done, "it neither sees what changes nor ends"
            if watch.alive:
                await asyncio.to_thread(watch.stop)
            else:
                assert ended.is_set()


async def test_several_kinds_are_watched_side_by_side(control_plane: ControlPlane, client: Client) -> None:
    await install_widgets(client)
    namespace = await make_namespace(client)
    pods: WatchedKind[str] = WatchedKind("Pod", PODS, lambda raw: None)
    store = Store([MAPS, SIZES, pods])
    changes = Changes(store)
    with watching(credentials.load(control_plane.kubeconfig), store, Heartbeat(), namespace) as watch:
        await client.post(WIDGETS.all(namespace), widget(namespace, "w", size=7))
        await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "m"))
        await changes.until(lambda: store.get(SIZES, "w", namespace) == 7)
        await changes.until(lambda: store.get(MAPS, "m", namespace) == ())
        assert store.view(pods).objects == {}
        await asyncio.to_thread(watch.stop)


async def test_kinds_of_one_resource_each_get_their_own(control_plane: ControlPlane, client: Client) -> None:
    """A stream has one selector: that of one kind would hide the objects of the other."""
    namespace = await make_namespace(client)
    other: WatchedKind[Data] = WatchedKind(
        "Other", CONFIG_MAPS, lambda raw: data_of(raw) if raw["metadata"]["name"] == "b" else None, labels="test/other"
    )
    store = Store([MAPS, other])
    changes = Changes(store)
    with watching(credentials.load(control_plane.kubeconfig), store, Heartbeat(), namespace) as watch:
        await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "a", kind="1"))
        await client.post(
            CONFIG_MAPS.all(namespace),
            {**config_map(namespace, "b"), "metadata": {"name": "b", "labels": {"test/other": "yes"}}},
        )
        await changes.until(lambda: store.get(MAPS, "a", namespace) == (("kind", "1"),))
        await changes.until(lambda: store.get(other, "b", namespace) == ())
        await asyncio.to_thread(watch.stop)


async def test_all_of_charterers_kinds_are_listed_and_watched(control_plane: ControlPlane, client: Client) -> None:
    await asyncio.to_thread(install_crds, control_plane)
    namespace = await make_namespace(client)
    store = Store(ALL_KINDS)
    changes = Changes(store)
    with watching(credentials.load(control_plane.kubeconfig), store, Heartbeat(), namespace) as watch:
        await Resync(client, store).once()
        assert namespace in {key.name for key in store.view(kinds.NAMESPACES).objects}
        container = {"name": "trainer", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}
        body = {
            "apiVersion": "charterer.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": "sft", "namespace": namespace},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        await client.post(kinds.TRAINING_JOBS.resource.all(namespace), body)
        await changes.until(lambda: store.get(kinds.TRAINING_JOBS, "sft", namespace) is not None)
        await client.delete(kinds.TRAINING_JOBS.resource.one("sft", namespace))  # no other test finds it there
        await asyncio.to_thread(watch.stop)


async def test_what_is_deleted_while_a_crd_is_changed_is_missed_for_a_moment_only(
    control_plane: ControlPlane, client: Client, tmp_path: Path
) -> None:
    """The API server begins the kind's watches anew then, and none can be taken up where it was."""
    await install_widgets(client)
    namespace = await make_namespace(client)
    store = Store([SIZES])
    resync, changes, loop = Resync(client, store), Changes(store), asyncio.get_running_loop()
    with Gate("127.0.0.1", int(control_plane.url.rsplit(":", 1)[1])) as gate:
        access = credentials.load(kubeconfig_through(gate, control_plane.kubeconfig, tmp_path / "kubeconfig"))
        with watching(
            access, store, Heartbeat(), namespace, lambda: loop.call_soon_threadsafe(resync.request)
        ) as watch:
            repairing = asyncio.create_task(resync.run())
            for name in ("stays", "goes"):
                await client.post(WIDGETS.all(namespace), widget(namespace, name))
                await changes.until(lambda: store.get(SIZES, name, namespace) == 1)  # noqa: B023 - awaited in this very turn
            gate.close()
            await client.delete(WIDGETS.one("goes", namespace))
            await change_widgets(client)
            gate.open()
            await changes.until(lambda: store.get(SIZES, "goes", namespace) is None, seconds=SETTLE - 5)
            assert store.get(SIZES, "stays", namespace) == 1
            await client.post(WIDGETS.all(namespace), widget(namespace, "later"))
            await changes.until(lambda: store.get(SIZES, "later", namespace) == 1)
            repairing.cancel()
            await asyncio.to_thread(watch.stop)
