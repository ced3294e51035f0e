"""What Charterer writes is taken by a real API server as it is meant, and comes back as the same value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from charterer.api import decode, manifests
from charterer.api.manifests import EventSubject, Reporter
from charterer.api.models.base import dump
from charterer.api.models.gpubudget_status import GPUBudgetRecord
from charterer.api.models.gpupool import GPUPoolRecord
from charterer.api.models.gpurental import GPURentalRecord
from charterer.api.models.trainingjob_status import TrainingJobRecord
from charterer.domain.budget import Balance, PastPeriod
from charterer.domain.ids import BudgetId, InstanceId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Allocation, Finish, FinishKind, Placement, RunOutcome, RunRecord
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode, Rent
from charterer.domain.pool import Offering, PriceSegment, Quote
from charterer.domain.reasons.nodes import AnyDemand
from charterer.domain.rental import Gang, RentalPhase
from charterer.domain.reports import Progress
from charterer.domain.time import parse_instant
from tests import factory
from tests.cluster.crd_cases import Json, make
from tests.testbed.controlplane import ControlPlane, ControlPlaneError

SINCE = parse_instant("2026-01-31T12:00:00.123456Z")
OPTION = Option(PoolId("a100"), 8, 1.7560975609756098, Price(39_600_001), 150.25, Money(825_000))
ALLOCATION = Allocation(2, OPTION, (Placement(RentalId("a100-0"), 4), Placement(RentalId("a100-1"), 4)), SINCE)


@pytest.fixture
def make_kept(api: ControlPlane) -> Iterator[Any]:
    """Creates objects and deletes them at the end."""
    kept: list[Json] = []

    def create(what: Json) -> Json:
        created: Json = json.loads(api.kubectl("create", "-f", "-", "-o", "json", input=json.dumps(what)))
        kept.append(created)
        return created

    yield create
    for raw in kept:
        with suppress(ControlPlaneError):  # the garbage collector may be quicker, when its owner is gone
            api.kubectl(
                *("patch", "--type=merge", "-p", '{"metadata":{"finalizers":null}}', "-f", "-"), input=json.dumps(raw)
            )
        api.kubectl("delete", "--ignore-not-found", "-f", "-", input=json.dumps(raw))


def _write_status(api: ControlPlane, of: Json, status: Json) -> Json:
    """As the operator does it: server-side apply to the status with the resourceVersion that was seen."""
    metadata = {key: of["metadata"][key] for key in ("name", "namespace", "resourceVersion") if key in of["metadata"]}
    body = {"apiVersion": of["apiVersion"], "kind": of["kind"], "metadata": metadata, "status": status}
    flags = ("--server-side", "--field-manager=charterer", "--subresource=status", "-o", "json")
    written: Json = json.loads(api.kubectl("apply", "-f", "-", *flags, input=json.dumps(body)))
    assert written["status"] == {**of.get("status", {}), **status}
    return written


def test_a_jobs_record_survives_the_api_server(api: ControlPlane, make_kept: Any) -> None:
    raw = make_kept(make("TrainingJob", "record-job"))
    before = decode.training_job(raw).job
    run = RunRecord(1, RunOutcome.INTERRUPTED, OPTION, ALLOCATION.placements, SINCE, SINCE, "node lost")
    job = replace(
        before,
        allocation=ALLOCATION,
        replaced=(replace(ALLOCATION, run=1),),
        last_run=2,
        records=(run,),
        failures=1,
        restarts=1,
        finish=Finish(FinishKind.FAILED, SINCE, "BackoffLimitExceeded", "failed 4 times"),
        invalid="spec.template: unknown field",
        progress=Progress(2, 1.0, 1200, 1e-9, SINCE),
    )
    after = decode.training_job(_write_status(api, raw, dump(TrainingJobRecord.from_domain(job)))).job
    assert after == replace(job, resource_version=after.resource_version)


def test_a_budgets_ledger_survives_the_api_server(api: ControlPlane, make_kept: Any) -> None:
    raw = make_kept(make("GPUBudget", "record-budget"))
    past = (PastPeriod(SINCE, Money(5), Money(6)),)
    balance = Balance(SINCE, Money(1), Money(10**15 + 1), frozenset({"uid-2", "uid-1"}), past)
    budget = replace(decode.budget(raw), balance=balance)
    after = decode.budget(_write_status(api, raw, dump(GPUBudgetRecord.from_domain(budget.balance))))
    assert after == replace(budget, resource_version=after.resource_version)


def test_a_pools_offer_and_cooling_survive_the_api_server(api: ControlPlane, make_kept: Any) -> None:
    raw = make_kept(make("GPUPool", "record-pool"))
    pool = replace(
        decode.pool(raw),
        offering=Offering("NVIDIA-A100-SXM4-40GB", 8, "p4d.24xlarge", "use1-az1", "account/a100"),
        quote=Quote(Price(19_800_000), Price(32_770_000), 60, "list", SINCE),
        cooled=factory.cooled(SINCE),
    )
    after = decode.pool(_write_status(api, raw, dump(GPUPoolRecord.from_domain(pool))))
    assert after == replace(pool, resource_version=after.resource_version)


def test_a_rental_is_made_and_its_record_survives_the_api_server(api: ControlPlane, make_kept: Any) -> None:
    gang = Gang("0c1d2e3f-1", JobId("0c1d2e3f-uid"), "research/sft", 4)
    reason = Reason(ReasonCode.DEMAND, 0.0, Money(0), AnyDemand(Money(0)))
    rent = Rent(RentalId("a100-7"), PoolId("a100"), BudgetId("team"), Money(12_000_000), Price(6_000_000), reason, gang)
    raw = make_kept(manifests.rental(rent, factory.pool()))
    rental = replace(
        decode.rental(raw),
        phase=RentalPhase.ENDED,
        instance=InstanceId("i-7"),
        provider_id="fake:///i-7",
        node=NodeName("node-7"),
        launched=SINCE,
        ready=SINCE,
        ended=SINCE,
        segments=(PriceSegment(SINCE, Price(5_999_999)),),
        billing_minimum_seconds=60,
        cost=Money(100_001),
        released_because="Idle",
    )
    after = decode.rental(_write_status(api, raw, dump(GPURentalRecord.from_domain(rental))))
    assert after == replace(rental, resource_version=after.resource_version)


def test_an_event_is_taken(api: ControlPlane, make_kept: Any) -> None:
    subject = EventSubject("charterer.dev/v1alpha1", "GPUPool", "", "a100", "uid-1")
    reporter = Reporter("charterer.dev/operator", "charterer-0")
    note = "no a100 to be had: " + "€" * 1000
    make_kept(manifests.event(subject, reporter, SINCE, reason="StockOut", action="Cool", note=note, warning=True))
