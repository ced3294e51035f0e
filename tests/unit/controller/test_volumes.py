"""Where the volumes of jobs can be attached: how it is looked up, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast

from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError, Forbidden, NotFound, Unreachable
from charterer.controller.snapshot.source import Volumes
from charterer.domain.ids import JobId
from charterer.domain.job import Finish, FinishKind
from charterer.domain.node_demands import NodeDemands, Requirement
from tests import factory
from tests.virtual_time import run_in_virtual_time

ZONE = "topology.kubernetes.io/zone"
CLAIM = "/api/v1/namespaces/team/persistentvolumeclaims/data"
VOLUME = "/api/v1/persistentvolumes/pv-1"
CLASS = "/apis/storage.k8s.io/v1/storageclasses/zonal"
JOB = factory.job("train", namespace="team", demands=NodeDemands(claims=("data",)))
IN_A = (Requirement(ZONE, "In", ("a",), "PersistentVolumeClaim data"),)
BOUND: Mapping[str, Any] = {"spec": {"volumeName": "pv-1"}}
Found = Mapping[str, Any] | ApiError


def volume(zone: str) -> Mapping[str, Any]:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}


def storage_class(*zones: str) -> Mapping[str, Any]:
    return {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]}


class Api:
    """An API server with some objects, by their paths; it raises those that are errors."""

    def __init__(self, objects: Mapping[str, Found]) -> None:
        self.objects = dict(objects)
        self.asked: list[str] = []

    async def get(self, path: str) -> Mapping[str, Any]:
        self.asked.append(path)
        await asyncio.sleep(0.1)
        found = self.objects.get(path)
        if found is None:
            raise NotFound("GET", path, 404, "NotFound", "no such object")
        if isinstance(found, ApiError):
            raise found
        return found


def looking(api: Api, scene: Callable[[Volumes], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await scene(Volumes(cast(Client, api), lambda: None))

    run_in_virtual_time(main())


def test_a_job_waits_until_its_volume_is_known_and_is_asked_of_once() -> None:
    api = Api({CLAIM: BOUND, VOLUME: volume("a")})

    async def scene(volumes: Volumes) -> None:
        assert volumes.terms([JOB]) == {JOB.id: None}
        await asyncio.sleep(1.0)
        assert volumes.terms([JOB]) == {JOB.id: ((IN_A,),)}
        await asyncio.sleep(1000.0)
        assert volumes.terms([JOB]) == {JOB.id: ((IN_A,),)}
        assert api.asked == [CLAIM, VOLUME]

    looking(api, scene)


def test_a_volume_that_is_not_bound_goes_where_its_class_allows_and_is_looked_up_again() -> None:
    api = Api({CLAIM: {"spec": {"storageClassName": "zonal"}}, CLASS: storage_class("a", "b"), VOLUME: volume("a")})

    async def scene(volumes: Volumes) -> None:
        volumes.terms([JOB])
        await asyncio.sleep(1.0)
        in_both = (Requirement(ZONE, "In", ("a", "b"), "StorageClass zonal"),)
        assert volumes.terms([JOB]) == {JOB.id: ((in_both,),)}
        api.objects[CLAIM] = BOUND
        await asyncio.sleep(20.0)
        volumes.terms([JOB])
        await asyncio.sleep(1.0)
        assert volumes.terms([JOB]) == {JOB.id: ((IN_A,),)}

    looking(api, scene)


def test_a_volume_that_is_made_with_each_pod_goes_where_its_class_allows() -> None:
    job = factory.job("train", namespace="team", demands=NodeDemands(classes=("zonal",)))

    async def scene(volumes: Volumes) -> None:
        volumes.terms([job])
        await asyncio.sleep(1.0)
        assert volumes.terms([job]) == {job.id: (((Requirement(ZONE, "In", ("b",), "StorageClass zonal"),),),)}

    looking(Api({CLASS: storage_class("b")}), scene)


def test_what_the_operator_may_not_see_or_nobody_made_asks_for_nothing() -> None:
    async def scene(volumes: Volumes) -> None:
        volumes.terms([JOB])
        await asyncio.sleep(1.0)
        assert volumes.terms([JOB]) == {JOB.id: ()}

    looking(Api({}), scene)
    looking(Api({CLAIM: Forbidden("GET", CLAIM, 403, "Forbidden", "cannot get resource")}), scene)
    looking(Api({CLAIM: BOUND, VOLUME: {"spec": {}}}), scene)


def test_an_api_server_that_does_not_answer_is_asked_again() -> None:
    api = Api({CLAIM: Unreachable("GET", CLAIM, 0, "", "timed out"), VOLUME: volume("a")})

    async def scene(volumes: Volumes) -> None:
        volumes.terms([JOB])
        await asyncio.sleep(1.5)
        assert volumes.terms([JOB]) == {JOB.id: None}
        api.objects[CLAIM] = BOUND
        await asyncio.sleep(10.0)
        volumes.terms([JOB])
        await asyncio.sleep(1.0)
        assert volumes.terms([JOB]) == {JOB.id: ((IN_A,),)}

    looking(api, scene)


def test_jobs_without_volumes_and_those_that_are_over_are_not_looked_at() -> None:
    api = Api({CLAIM: {"spec": {}}})
    over = factory.job(
        "over",
        id=JobId("over"),
        namespace="team",
        demands=NodeDemands(claims=("data",)),
        finish=Finish(FinishKind.COMPLETE, factory.T0, "Complete", ""),
    )

    async def scene(volumes: Volumes) -> None:
        assert volumes.terms([factory.job("plain"), over]) == {}
        await asyncio.sleep(1.0)
        assert not api.asked

    looking(api, scene)
