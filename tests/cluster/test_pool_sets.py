"""GPUPoolSets on a real control plane: their pools come, change and go with them, and nobody else's are touched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.errors import Invalid
from charterer.cluster.paths import EVENTS, GPU_POOL_SETS, GPU_POOLS
from tests.testbed.bed import SYSTEM, Bed, group
from tests.testbed.controlplane import ControlPlane, ControlPlaneError
from tests.testbed.operators import Killer

SETS = pytest.mark.groups(group("p4-a"), group("p4-b"), group("p5-a"), group("p5-b", hourlyPrice="24.00"))


def a_set(bed: Bed, types: Sequence[str] = ("p4", "p5"), zones: Sequence[str] = ("a", "b")) -> dict[str, Any]:
    """The spec of a set: groups of the fake cloud on one axis, the capacity type on the other."""
    groups = [f"{kind}-{zone}" for kind in types for zone in zones]
    return {
        "template": {
            "metadata": {"labels": {"team": "research"}},
            "spec": {"fake": {"endpoint": bed.cloud.url}, "maxNodes": 3, "startSeconds": 1, "cooldownSeconds": 2},
        },
        "axes": [
            {"name": "group", "values": [{"name": name, "spec": {"fake": {"group": name}}} for name in groups]},
            {"name": "capacity", "values": [{"name": "od", "spec": {"capacityType": "OnDemand"}}]},
        ],
    }


def names(bed: Bed) -> set[str]:
    return {raw["metadata"]["name"] for raw in bed.mirror.all(GPU_POOLS)}


def pool(bed: Bed, name: str) -> RawObject:
    return bed.mirror.one(GPU_POOLS, name) or {}


def ready(bed: Bed, name: str = "all") -> tuple[str, str]:
    """Status and reason of the set's condition Ready, as far as its present generation was seen."""
    raw = bed.mirror.one(GPU_POOL_SETS, name)
    found = bed.condition(raw, "Ready")
    if raw is None or found.get("observedGeneration") != raw["metadata"]["generation"]:
        return "", ""
    return found["status"], found["reason"]


def shown(bed: Bed) -> Mapping[str, Any]:
    """The set's status."""
    return (bed.mirror.one(GPU_POOL_SETS, "all") or {}).get("status") or {}


def message(bed: Bed, name: str = "all") -> str:
    return bed.condition(bed.mirror.one(GPU_POOL_SETS, name), "Ready").get("message", "")


async def edit(bed: Bed, spec: Mapping[str, Any]) -> None:
    await bed.kube.merge_patch(GPU_POOL_SETS.one("all"), {"spec": spec})


@SETS
async def test_pools_come_change_and_go_with_their_set_and_jobs_run_on_them(bed: Bed) -> None:
    bed.operator()
    await bed.budget()
    await bed.create("GPUPoolSet", "all", a_set(bed))
    every = {f"all-{kind}-{zone}-od" for kind in ("p4", "p5") for zone in ("a", "b")}
    await bed.until(lambda: ready(bed) == ("True", "AsDeclared") and names(bed) == every)
    made = pool(bed, "all-p4-a-od")
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("GPUPoolSet", "all", True)
    assert made["metadata"]["labels"] == {"team": "research", "charterer.dev/pool-set": "all"}
    await bed.until(lambda: (shown(bed).get("pools"), shown(bed).get("readyPools")) == (4, 4))

    await bed.job("one")
    await bed.running("one")
    (rental,) = bed.rentals()
    used = rental["spec"]["pool"]
    await bed.until(lambda: shown(bed).get("nodes") == 1)

    await edit(bed, {"template": {"spec": {"maxNodes": 5}, "metadata": {"labels": {"team": None, "unit": "vision"}}}})
    labels = {"unit": "vision", "charterer.dev/pool-set": "all"}
    await bed.until(lambda: {pool(bed, name)["spec"]["maxNodes"] for name in every} == {5})
    await bed.until(lambda: all(pool(bed, name)["metadata"]["labels"] == labels for name in every))
    await bed.until(lambda: ready(bed) == ("True", "AsDeclared"))
    assert bed.run("one") == 1

    await bed.kube.merge_patch(GPU_POOLS.one("all-p5-b-od"), {"spec": {"maxNodes": 9, "price": {"hourly": "1"}}})
    await bed.until(
        lambda: (
            pool(bed, "all-p5-b-od")["spec"]
            == {**pool(bed, "all-p5-a-od")["spec"], "fake": {"endpoint": bed.cloud.url, "group": "p5-b"}}
        )
    )

    # The pool that is used goes with its value, in the ordinary way: the job moves, and the pool waits for its rental.
    await edit(bed, {"exclude": [{"group": used.removeprefix("all-").removesuffix("-od")}]})
    await bed.until(lambda: names(bed) == every - {used} and ready(bed) == ("True", "AsDeclared"))
    await bed.running_again("one", 1)

    await bed.delete("TrainingJob", "one")
    await bed.given_back()
    await bed.delete("GPUPoolSet", "all")
    await bed.until(lambda: not names(bed))
    events = (await bed.kube.list(EVENTS.all())).items
    told = {raw["reason"] for raw in events if (raw.get("regarding") or {}).get("kind") == "GPUPoolSet"}
    assert {"PoolCreated", "PoolChanged", "PoolRemoved"} <= told


@pytest.mark.repeats  # tests/unit/lifecycle/test_pool_set.py
@SETS
async def test_a_pool_of_somebody_else_is_never_taken_over_changed_or_deleted(bed: Bed) -> None:
    bed.operator()
    await bed.pool("all-p4-a-od", fake={"endpoint": bed.cloud.url, "group": "p4-a"}, maxNodes=1)
    before = pool(bed, "all-p4-a-od") or await bed.kube.get(GPU_POOLS.one("all-p4-a-od"))
    await bed.create("GPUPoolSet", "all", a_set(bed))
    await bed.until(lambda: ready(bed) == ("False", "NameTaken"))
    assert "GPUPool all-p4-a-od" in message(bed)
    await bed.until(lambda: len(names(bed)) == 4)
    await edit(bed, {"exclude": [{"group": "p4-a"}, {"group": "p5-b"}]})
    await bed.until(lambda: ready(bed) == ("True", "AsDeclared"))
    await bed.delete("GPUPoolSet", "all")
    await bed.until(lambda: names(bed) == {"all-p4-a-od"})
    after = pool(bed, "all-p4-a-od")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])


@pytest.mark.repeats  # tests/unit/lifecycle/test_pool_set.py
@SETS
async def test_what_cannot_change_is_told_and_a_pool_that_is_deleted_by_hand_is_made_anew(bed: Bed) -> None:
    bed.operator()
    spec = a_set(bed, zones=("a",))
    await bed.create("GPUPoolSet", "all", spec)
    await bed.until(lambda: ready(bed) == ("True", "AsDeclared"))
    first = pool(bed, "all-p4-a-od")["metadata"]["uid"]
    spec["axes"][0]["values"][0]["spec"]["fake"]["group"] = "p4-b"
    await edit(bed, {"axes": spec["axes"]})
    await bed.until(lambda: ready(bed) == ("False", "CannotChange"))
    assert "spec.fake.group is 'p4-a' there and 'p4-b' here" in message(bed)
    assert pool(bed, "all-p4-a-od")["metadata"]["uid"] == first
    await bed.delete("GPUPool", "all-p4-a-od")
    await bed.until(lambda: ready(bed) == ("True", "AsDeclared"))
    made = pool(bed, "all-p4-a-od")
    assert (made["metadata"]["uid"] != first, made["spec"]["fake"]["group"]) == (True, "p4-b")


@pytest.mark.repeats  # tests/unit/lifecycle/test_pool_set.py
@SETS
async def test_a_set_that_cannot_be_used_says_why_and_its_pools_stay(bed: Bed) -> None:
    bed.operator()
    await bed.create("GPUPoolSet", "all", a_set(bed))
    await bed.until(lambda: ready(bed) == ("True", "AsDeclared"))
    await edit(bed, {"exclude": [{"zone": "a"}]})
    await bed.until(lambda: bed.condition(bed.mirror.one(GPU_POOL_SETS, "all"), "Ready").get("reason") == "InvalidSpec")
    assert "spec.exclude[0] names an axis 'zone'" in message(bed)
    await edit(bed, {"exclude": None, "template": {"spec": {"price": {"hourly": "9", "adjustment": "-10%"}}}})
    await bed.until(lambda: ready(bed) == ("False", "Failing"))
    assert "price needs exactly one of hourly and adjustment" in message(bed)
    assert len(names(bed)) == 4
    await edit(bed, {"template": {"spec": {"price": {"adjustment": None}}}})
    await bed.until(lambda: ready(bed) == ("True", "AsDeclared"))


@pytest.mark.long
@SETS
async def test_killed_around_every_step_its_pools_are_as_a_set_declares(bed: Bed) -> None:
    journal, kinds = bed.directory / "journal", frozenset({"CreatePool", "EditPool", "DeletePool"})
    operator = bed.operator(killer=Killer(journal, kinds))
    async with operator.revived():
        await bed.create("GPUPoolSet", "all", a_set(bed))
        await bed.until(lambda: ready(bed) == ("True", "AsDeclared") and len(names(bed)) == 4)
        await edit(bed, {"template": {"spec": {"maxNodes": 5}}})
        await bed.until(lambda: {pool(bed, name)["spec"]["maxNodes"] for name in names(bed)} == {5})
        await edit(bed, {"exclude": [{"group": "p4-a"}]})
        await bed.until(lambda: ready(bed) == ("True", "AsDeclared") and len(names(bed)) == 3)
    assert set(journal.read_text().splitlines()) == {f"{when} {kind}" for kind in kinds for when in ("before", "after")}


async def test_the_api_server_refuses_what_no_edit_should_do(bed: Bed) -> None:
    spec = a_set(bed)
    await bed.create("GPUPoolSet", "all", spec)
    with pytest.raises(Invalid, match="the names and the order of axes cannot change"):
        await edit(bed, {"axes": spec["axes"][::-1]})
    many = [{"name": f"g{number}", "spec": {"fake": {"group": f"g{number}"}}} for number in range(33)]
    capacity = [{"name": kind.lower(), "spec": {"capacityType": kind}} for kind in ("OnDemand", "Spot")]
    with pytest.raises(Invalid, match="at most 64 combinations"):
        await edit(bed, {"axes": [{"name": "group", "values": many}, {"name": "capacity", "values": capacity}]})
    with pytest.raises(Invalid, match="Duplicate value"):
        await edit(bed, {"axes": [{"name": "group", "values": many[:1] * 2}, spec["axes"][1]]})
    with pytest.raises(Invalid, match=r"axes\[0\].values\[0\].spec.maxNodes"):
        await edit(
            bed, {"axes": [{"name": "group", "values": [{"name": "a", "spec": {"maxNodes": -1}}]}, spec["axes"][1]]}
        )
    assert "spec.template.spec.price" not in json.dumps((await bed.kube.get(GPU_POOL_SETS.one("all")))["spec"])


def test_the_operator_writes_pools_of_sets_and_of_other_pools_only_finalizers(
    installed: ControlPlane,
) -> None:
    operator = installed.service_account_kubeconfig(SYSTEM, "charterer")

    def pool(name: str, **metadata: Any) -> str:
        spec = {"fake": {"endpoint": "http://cloud", "group": name}, "maxNodes": 1}
        kind = {"apiVersion": "charterer.dev/v1alpha1", "kind": "GPUPool"}
        return json.dumps({**kind, "metadata": {"name": name, **metadata}, "spec": spec})

    owner = {"apiVersion": "charterer.dev/v1alpha1", "kind": "GPUPoolSet", "name": "s", "uid": "u"}
    as_operator = ("--kubeconfig", str(operator))
    create = ("create", "-f", "-", *as_operator, "--dry-run=server")
    installed.kubectl(*create, input=pool("made", ownerReferences=[{**owner, "controller": True}]))
    for metadata in ({}, {"ownerReferences": [owner]}):
        with pytest.raises(ControlPlaneError, match="GPUPools of GPUPoolSets only"):
            installed.kubectl(*create, input=pool("made", **metadata))
    installed.kubectl("create", "-f", "-", input=pool("kept"))
    patch = ("patch", "gpupool", "kept", *as_operator, "--type=merge", "-p")
    for change in ({"spec": {"maxNodes": 9}}, {"metadata": {"labels": {"team": "mine"}}}):
        with pytest.raises(ControlPlaneError, match="GPUPools of GPUPoolSets only"):
            installed.kubectl(*patch, json.dumps(change))
    with pytest.raises(ControlPlaneError, match="GPUPools of GPUPoolSets only"):
        installed.kubectl("delete", "gpupool", "kept", *as_operator)
    for finalizers in (["charterer.dev/in-use"], None):
        installed.kubectl(*patch, json.dumps({"metadata": {"finalizers": finalizers}}))
    installed.kubectl("delete", "gpupool", "kept")
