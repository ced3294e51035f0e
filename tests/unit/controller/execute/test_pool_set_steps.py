"""A step on a pool of a set does nothing unless the set and the pool are still those that it was meant for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from charterer.api import decode
from charterer.cluster.client import Client
from charterer.cluster.errors import AlreadyExists, NotFound
from charterer.cluster.store import Store
from charterer.controller.execute.context import ExecutionContext, ObjectWriter
from charterer.controller.execute.executor import ClusterExecutor
from charterer.controller.outcome import ActionOutcome, Held
from charterer.domain.ids import PoolId, PoolSetId
from charterer.domain.steps import CreatePool, DeletePool, EditPool, Step
from charterer.workloads import ALL_KINDS
from tests import factory as make
from tests.unit.api.test_pool_set import GROUPS, raw

Json = dict[str, Any]
SET = PoolSetId("gpu")
A, B, C = PoolId("gpu-a"), PoolId("gpu-b"), PoolId("gpu-c")
CREATE, EDIT, DELETE = CreatePool(SET, A), EditPool(SET, B), DeletePool(SET, C, "uid-c")
SPEC = {"fake": {"endpoint": "http://cloud", "group": "b"}, "maxNodes": 9}


class ApiServer:
    """The API server of one set, which declares the pools a and b, with the pools b and c of that set.

    ``webhook``: fields of a pool's spec that something else writes into whatever is stored.
    """

    def __init__(self) -> None:
        self.pool_set: Json | None = raw(GROUPS)
        self.pools: dict[str, Json] = {}
        self.webhook: Mapping[str, object] = {}
        self.deleted: list[str] = []
        owner = {"apiVersion": "charterer.dev/v1alpha1", "kind": "GPUPoolSet", "name": "gpu", "uid": "uid-gpu"}
        for name in (B, C):
            metadata = {**raw(GROUPS)["metadata"], "name": name, "uid": f"uid-{name[-1]}", "resourceVersion": "7"}
            self.pools[name] = {
                "metadata": {**metadata, "ownerReferences": [{**owner, "controller": True}]},
                "spec": deepcopy(SPEC),
            }

    async def get(self, path: str) -> Json:
        name = path.rpartition("/")[2]
        found = self.pool_set if "/gpupoolsets/" in path else self.pools.get(name)
        if found is None:
            raise NotFound("GET", path, 404, "NotFound", "there is none")
        return deepcopy(found)

    async def post(self, path: str, body: Json, *, strict: bool) -> Json:
        name = body["metadata"]["name"]
        if name in self.pools:
            raise AlreadyExists("POST", path, 409, "AlreadyExists", "there is one")
        metadata = {**raw(GROUPS)["metadata"], **body["metadata"], "uid": f"uid-{name}"}
        self.pools[name] = {**body, "metadata": metadata}
        return deepcopy(self.pools[name])

    async def json_patch(self, path: str, operations: Sequence[Mapping[str, Any]]) -> Json:
        pool = self.pools[path.rpartition("/")[2]]
        assert [each["value"] for each in operations if each["op"] == "test"] == [
            pool["metadata"]["uid"],
            pool["metadata"]["resourceVersion"],
        ]
        by_path = {each["path"]: each["value"] for each in operations if each["op"] == "add"}
        pool["metadata"]["labels"], pool["spec"] = by_path["/metadata/labels"], {**by_path["/spec"], **self.webhook}
        return deepcopy(pool)

    async def delete(self, path: str, *, uid: str, **options: object) -> Json:
        name = path.rpartition("/")[2]
        assert self.pools.pop(name)["metadata"]["uid"] == uid
        self.deleted.append(name)
        return {}

    async def carry_out(self, step: Step) -> ActionOutcome:
        """Carry out a step that was decided when the set was as it is at first."""
        snapshot = replace(make.snapshot(), pool_sets={SET: decode.pool_set(raw(GROUPS))})
        client = cast(Client, self)
        parts = SimpleNamespace(
            decided=SimpleNamespace(snapshot=lambda: snapshot),
            objects=ObjectWriter(client, Store(ALL_KINDS)),
            client=client,
        )
        return await ClusterExecutor(cast(ExecutionContext, parts)).execute(step)


async def test_a_pool_is_created_once_and_controlled_by_its_set() -> None:
    server = ApiServer()
    assert await server.carry_out(CREATE) is ActionOutcome.DONE
    (owner,) = server.pools[A]["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("uid-gpu", True, True)
    assert server.pools[A]["spec"] == {**SPEC, "fake": {"endpoint": "http://cloud", "group": "a"}, "maxNodes": 2}
    assert await server.carry_out(CREATE) is ActionOutcome.DONE  # its answer was lost
    server.pools[A]["metadata"]["ownerReferences"] = []
    with pytest.raises(AlreadyExists):
        await server.carry_out(CREATE)


async def test_a_pool_gets_the_labels_and_the_spec_of_its_set_and_no_others() -> None:
    server = ApiServer()
    server.pools[B]["metadata"]["labels"] = {"old": "label"}
    assert await server.carry_out(EDIT) is ActionOutcome.DONE
    assert server.pools[B]["metadata"]["labels"] == {"team": "research", "charterer.dev/pool-set": "gpu"}
    assert server.pools[B]["spec"]["maxNodes"] == 2


async def test_a_pool_that_something_else_changes_at_once_is_not_fought_over() -> None:
    server = ApiServer()
    server.webhook = {"maxNodes": 3}
    with pytest.raises(Held, match="GPUPool gpu-b is not as GPUPoolSet gpu declares it, although it was written so"):
        await server.carry_out(EDIT)


async def test_a_pool_that_is_declared_no_more_is_deleted() -> None:
    server = ApiServer()
    assert await server.carry_out(DELETE) is ActionOutcome.DONE
    assert server.deleted == [C]


@pytest.mark.parametrize("step", [CREATE, EDIT, DELETE])
@pytest.mark.parametrize(
    "change", [{"generation": 2}, {"uid": "another"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}]
)
async def test_nothing_is_done_for_a_set_that_is_another_by_now(step: Step, change: Json) -> None:
    server = ApiServer()
    assert server.pool_set is not None
    server.pool_set["metadata"] |= change
    before = deepcopy(server.pools)
    assert await server.carry_out(step) is ActionOutcome.STALE
    server.pool_set = None
    assert await server.carry_out(step) is ActionOutcome.STALE
    assert server.pools == before


@pytest.mark.parametrize("step", [EDIT, DELETE])
async def test_nothing_is_done_to_a_pool_that_the_set_does_not_control_by_now(step: EditPool | DeletePool) -> None:
    server = ApiServer()
    server.pools[step.pool]["metadata"]["ownerReferences"][0]["uid"] = "another"
    before = deepcopy(server.pools)
    assert await server.carry_out(step) is ActionOutcome.STALE
    assert server.pools == before


async def test_what_was_to_be_deleted_and_is_another_pool_or_declared_is_not_deleted() -> None:
    server = ApiServer()
    assert await server.carry_out(DeletePool(SET, C, "another")) is ActionOutcome.STALE
    assert await server.carry_out(DeletePool(SET, B, "uid-b")) is ActionOutcome.STALE
    assert server.deleted == []
