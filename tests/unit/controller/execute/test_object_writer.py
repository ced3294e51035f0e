"""What a write to the API server leaves in the store, and what is taken for done."""

from __future__ import annotations

from typing import Any, cast

import pytest

from charterer.cluster import kinds
from charterer.cluster.client import Client
from charterer.cluster.errors import AlreadyExists, NotFound
from charterer.cluster.store import ObjectKey, Store
from charterer.controller.execute.context import ObjectWriter, Stale
from charterer.controller.outcome import ActionOutcome
from charterer.workloads import ALL_KINDS, INDEXED_JOB
from tests.unit.api import values

OWNER = {"apiVersion": "charterer.dev/v1alpha1", "kind": "TrainingJob", "name": "sft", "uid": values.UID}
RUN = values.raw("Job", {"suspend": True}, name="sft-r2", ownerReferences=[OWNER | {"controller": True}])


class Cluster:
    """An API server that has deleted everything already, or has ``present`` under every name."""

    def __init__(self, present: dict[str, Any] | None = None) -> None:
        self.present = present

    async def delete(self, path: str, **options: object) -> dict[str, Any]:
        raise NotFound("DELETE", path, 404, "NotFound", "there is none")

    async def post(self, path: str, body: dict[str, Any], **options: object) -> dict[str, Any]:
        raise AlreadyExists("POST", path, 409, "AlreadyExists", "there is one")

    async def get(self, path: str) -> dict[str, Any]:
        assert self.present is not None
        return self.present


def writer(store: Store, present: dict[str, Any] | None = None) -> ObjectWriter:
    return ObjectWriter(cast("Client", Cluster(present)), store)


async def test_an_object_that_is_gone_already_is_forgotten_and_its_deletion_is_stale() -> None:
    store = Store(ALL_KINDS)
    kind = INDEXED_JOB.kind
    store.put(kind, RUN)
    assert store.view(kind).objects
    with pytest.raises(Stale):
        await writer(store).delete(kind, ObjectKey("research", "sft-r2"), values.UID)
    assert not store.view(kind).objects


async def test_an_object_under_the_same_name_is_the_one_wanted_only_if_the_same_job_controls_it() -> None:
    store = Store(ALL_KINDS)
    body = {"metadata": {key: RUN["metadata"][key] for key in ("name", "namespace", "ownerReferences")}}
    assert await writer(store, RUN).create(INDEXED_JOB.kind, body) is ActionOutcome.DONE
    for owners in ([], [OWNER | {"controller": True, "uid": "another"}]):
        taken = values.raw("Job", {}, name="sft-r2", ownerReferences=owners)
        with pytest.raises(AlreadyExists):
            await writer(store, taken).create(INDEXED_JOB.kind, body)
    labelled = {"metadata": {**body["metadata"], "labels": {"a": "b"}}}
    with pytest.raises(AlreadyExists):
        await writer(store, RUN).create(kinds.SERVICES, labelled)
