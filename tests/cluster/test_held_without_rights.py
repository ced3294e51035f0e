"""An object that is held, and that the operator may not adopt, says so itself.

What ``charterer doctor`` says of it half a minute later is in tests/unit/cli/doctor.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.paths import EVENTS, Resource
from tests.cluster.adopted_jobs import create, delete_jobs, job, once_held, plain_job
from tests.cluster.commands import charterer
from tests.testbed.bed import Bed
from tests.testbed.controlplane import ControlPlane

ROLE = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False).one("charterer-runs")


@pytest.fixture(autouse=True)
async def _without_jobs_in_the_end(bed: Bed) -> AsyncIterator[None]:
    yield
    await delete_jobs(bed)


@contextmanager
def without_the_right_to_make_records(plane: ControlPlane) -> Iterator[None]:
    """The operator may create no TrainingJob meanwhile, as in a namespace that the chart's values do not name."""
    rules: list[RawObject] = plane.call("GET", ROLE)["rules"]
    fewer = [rule for rule in rules if not ("trainingjobs" in rule["resources"] and "create" in rule["verbs"])]
    assert len(fewer) == len(rules) - 1
    plane.call("PATCH", ROLE, {"rules": fewer})
    try:
        yield
    finally:
        plane.call("PATCH", ROLE, {"rules": rules})


async def test_an_object_without_the_right_to_its_record_is_told_of_within_seconds_once_and_starts_with_it(
    bed: Bed,
) -> None:
    await bed.budget()
    await once_held(bed)
    with without_the_right_to_make_records(bed.plane):
        held = await create(bed, plain_job("whisper"))
        operator = bed.operator()
        await bed.pool()

        def told() -> list[RawObject]:
            events: list[RawObject] = bed.plane.call("GET", EVENTS.all(bed.namespace))["items"]
            return [each for each in events if each["regarding"].get("uid") == held["metadata"]["uid"]]

        def words() -> list[tuple[str, str]]:
            return [(each["type"], each["reason"]) for each in told() if each["reason"] == "NotAdopted"]

        await bed.until(words, 30)
        refused = "AdoptTarget failed: Forbidden"
        await bed.until(lambda: operator.log.read_text().count(refused) > 1)  # it goes on trying
        assert words() == [("Warning", "NotAdopted")]
        (note,) = [each["note"] for each in told() if each["reason"] == "NotAdopted"]
        assert 'cannot create resource "trainingjobs"' in note
        assert "take the label charterer.dev/adopt off" in note

        explained = await charterer(bed.plane.kubeconfig, "explain", "job/whisper", "-n", bed.namespace)
        assert explained.code == 1
        assert "The operator said: its TrainingJob cannot be made" in explained.err
        assert 'cannot create resource "trainingjobs"' in explained.err
        assert job(bed, "whisper")["spec"]["suspend"] is True
        assert not bed.rentals()
    await bed.running("whisper", seconds=60)
