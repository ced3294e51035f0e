"""What Charterer creates in the cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from charterer.api import decode, manifests
from charterer.api.manifests import EventSubject, Reporter
from charterer.domain.ids import BudgetId, InstanceId, JobId, PoolId, RentalId
from charterer.domain.money import Money, Price
from charterer.domain.plan import Reason, ReasonCode, Rent
from charterer.domain.pool import Instance, InstanceState
from charterer.domain.reasons.nodes import AnyDemand
from charterer.domain.rental import Gang
from charterer.domain.steps import RecordOrphan
from charterer.domain.time import Instant
from tests import factory as make
from tests.unit.api import values

POOL = make.pool()


class TestRentals:
    def test_a_command_to_rent_becomes_a_rental_that_is_read_back_as_it_was_meant(self) -> None:
        reason = Reason(ReasonCode.DEMAND, 60.0, Money(1), AnyDemand(Money(1)))
        rent = Rent(RentalId("a100-7"), PoolId("a100"), BudgetId("team"), Money(12_000_000), Price(6_000_000), reason)
        made = manifests.rental(rent, POOL)
        assert made["metadata"]["finalizers"] == ["charterer.dev/ledger"]
        rental = decode.rental(values.raw("GPURental", made["spec"], **made["metadata"]))
        assert (rental.id, rental.pool, rental.budget) == (rent.rental, rent.pool, rent.budget)
        assert (rental.cloud, rental.capacity_type) == (POOL.cloud, POOL.capacity_type)
        assert (rental.reserved, rental.worst, rental.instance) == (rent.reserve, rent.worst, None)
        assert rental.gang is None

    def test_a_rental_of_a_gang_is_read_back_with_it(self) -> None:
        gang = Gang("0c1d2e3f-1", JobId("0c1d2e3f-uid"), "research/sft", 4)
        reason = Reason(ReasonCode.DEMAND, 60.0, Money(1), AnyDemand(Money(1)))
        rent = Rent(RentalId("a100-7"), PoolId("a100"), BudgetId("team"), Money(1), Price(6_000_000), reason, gang)
        made = manifests.rental(rent, POOL)
        assert decode.rental(values.raw("GPURental", made["spec"], **made["metadata"])).gang == gang

    def test_an_orphan_becomes_a_rental_that_knows_its_instance(self) -> None:
        instance = Instance(InstanceId("i-7"), InstanceState.RUNNING, "fake:///i-7", None, Instant(0), None, (), 0)
        step = RecordOrphan(RentalId("a100-o-i-7"), PoolId("a100"), BudgetId("team"), instance, Price(6_000_000))
        made = manifests.orphan_rental(step, POOL)
        rental = decode.rental(values.raw("GPURental", made["spec"], **made["metadata"]))
        assert (rental.instance, rental.worst, rental.reserved) == ("i-7", Price(6_000_000), Money(0))


class TestEvents:
    JOB = EventSubject("charterer.dev/v1alpha1", "TrainingJob", "research", "sft", values.UID)
    REPORTER = Reporter("charterer.dev/operator", "charterer-0")

    def _event(self, **changed: Any) -> dict[str, Any]:
        said = {"reason": "BudgetOptimal", "action": "Allocate", "note": "8 GPUs of a100", **changed}
        return manifests.event(said.pop("subject", self.JOB), self.REPORTER, Instant(1_000_000), **said)

    def test_an_event_is_beside_what_it_is_about(self) -> None:
        event = self._event(warning=True)
        assert (event["metadata"]["namespace"], event["regarding"]["name"]) == ("research", "sft")
        assert (event["type"], event["eventTime"]) == ("Warning", "1970-01-01T00:00:01.000000Z")

    def test_an_event_about_a_cluster_scoped_object_is_in_the_default_namespace(self) -> None:
        event = self._event(subject=replace(self.JOB, kind="GPUPool", namespace="", name="a100"))
        assert event["metadata"]["namespace"] == "default"
        assert "namespace" not in event["regarding"]

    def test_the_same_event_has_the_same_name_and_another_has_another(self) -> None:
        assert self._event()["metadata"]["name"] == self._event()["metadata"]["name"]
        assert self._event()["metadata"]["name"] != self._event(note="16 GPUs of a100")["metadata"]["name"]

    def test_a_long_note_is_cut_to_what_the_api_server_takes(self) -> None:
        assert len(self._event(note="€" * 1000)["note"].encode()) <= 1024
