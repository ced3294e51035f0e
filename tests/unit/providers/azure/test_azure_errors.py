"""Codes of Azure: what each means, how far it reaches."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.clouds.azure import AzureScaleSet
from charterer.domain.ids import PoolId
from charterer.domain.order import RefusalKind, Scope
from charterer.domain.pool import CapacityType
from charterer.domain.time import Instant
from charterer.providers.azure.calls import CODES, Place, call_error, launch_error, meaning_of, refusal
from charterer.providers.codes import CodeMeaning, LaunchError, LaunchRefused
from charterer.providers.errors import (
    Busy,
    CloudOutcomeUnknown,
    CloudUnauthorized,
    InvalidRequest,
    NotFoundInCloud,
    ProviderError,
    Throttled,
    Transient,
    UnknownCode,
)

POOL = PoolId("p")
SIZE = "Standard_NC96ads_A100_v4"
CLOUD = AzureScaleSet("s", "rg", "westeurope", "gpu")
NO_QUOTA = "Operation could not be completed as it results in exceeding approved {} quota. Current Limit: 0"
BUSY = "Operation is not allowed: Another agentpool operation (gpu - Scaling) is in progress, please wait"


def error_for(code: str, message: str = "", status: int = 400, *, mutation: bool = True) -> ProviderError:
    return call_error(POOL, "call", LaunchError(code, message), status, None, Instant(7), mutation=mutation)


@pytest.mark.parametrize(
    ("code", "message", "status", "kind"),
    [
        ("AuthorizationFailed", "", 403, CloudUnauthorized),
        ("AnotherWord", "", 403, CloudUnauthorized),
        ("ResourceNotFound", "", 404, NotFoundInCloud),
        ("ResourceGroupNotFound", "", 404, InvalidRequest),
        ("PreconditionFailed", "", 412, Busy),
        ("OperationNotAllowed", BUSY, 409, Busy),
        ("OperationNotAllowed", "The set is marked for deletion.", 409, Busy),
        ("OperationNotAllowed", "This is not allowed for another reason", 409, InvalidRequest),
        ("OperationNotAllowed", NO_QUOTA.format("standardX Cores"), 409, LaunchRefused),
        ("AllocationFailed", "", 409, LaunchRefused),
        ("SomethingNew", "", 400, UnknownCode),
        ("SomethingNew", "", 500, CloudOutcomeUnknown),
        ("ServiceUnavailable", "", 503, CloudOutcomeUnknown),
        ("AnyCode", "", 429, Throttled),
    ],
)
def test_a_code_has_one_meaning(code: str, message: str, status: int, kind: type[ProviderError]) -> None:
    assert type(error_for(code, message, status)) is kind


def test_a_read_of_a_server_that_fails_is_repeated() -> None:
    assert type(error_for("InternalServerError", "", 500, mutation=False)) is Transient


@pytest.mark.parametrize(
    ("text", "scope", "where"),
    [
        ("standardNCADSA100v4Family Cores", Scope.FAMILY, "NCads_A100_v4 Spot westeurope"),
        ("Total Regional Cores", Scope.CAPACITY_TYPE, "Spot westeurope"),
        ("LowPriorityCores", Scope.CAPACITY_TYPE, "Spot westeurope"),
    ],
)
def test_the_text_tells_which_quota_it_is(text: str, scope: Scope, where: str) -> None:
    told = LaunchError("OperationNotAllowed", NO_QUOTA.format(text))
    found = refusal(POOL, told, Place(SIZE, CapacityType.SPOT, CLOUD), Instant(7))
    assert (found.kind, found.scope, found.where) == (RefusalKind.QUOTA_EXCEEDED, scope, where)


@pytest.mark.parametrize(
    ("code", "zone", "kind", "scope", "where"),
    [
        ("AllocationFailed", "", RefusalKind.STOCK_OUT, Scope.REGION, f"{SIZE} OnDemand westeurope"),
        (
            "ZonalAllocationFailed",
            "westeurope-2",
            RefusalKind.STOCK_OUT,
            Scope.ZONE,
            f"{SIZE} OnDemand westeurope-2",
        ),
        ("ZonalAllocationFailed", "", RefusalKind.STOCK_OUT, Scope.POOL, "p"),
        ("SubnetIsFull", "", RefusalKind.STOCK_OUT, Scope.POOL, "p"),
        ("SkuNotAvailable", "", RefusalKind.INVALID_REQUEST, Scope.REGION, f"{SIZE} OnDemand westeurope"),
        ("OSProvisioningTimedOut", "", RefusalKind.LAUNCH_FAILED, Scope.POOL, "p"),
        ("Unheard", "", RefusalKind.UNKNOWN_CODE, Scope.POOL, "p"),
    ],
)
def test_a_refusal_names_how_far_it_reaches(code: str, zone: str, kind: RefusalKind, scope: Scope, where: str) -> None:
    found = refusal(POOL, LaunchError(code, "text", zone=zone), Place(SIZE, CapacityType.ON_DEMAND, CLOUD), Instant(7))
    assert (found.kind, found.scope, found.where, found.at) == (kind, scope, where, Instant(7))


def test_a_size_that_spot_does_not_have_now_is_a_stock_out() -> None:
    told = LaunchError("SkuNotAvailable", "")
    found = refusal(POOL, told, Place(SIZE, CapacityType.SPOT, CLOUD), Instant(7))
    assert found.kind is RefusalKind.STOCK_OUT


@pytest.mark.parametrize(
    "error",
    [
        {"code": "AllocationFailed", "message": "no room"},
        {
            "code": "ResourceOperationFailure",
            "message": "it failed",
            "details": [{"code": "AllocationFailed", "message": "no room"}],
        },
        {
            "code": "ReconcileVMSSAgentPoolFailed",
            "message": 'original error: Code="AllocationFailed" Message="no room"',
        },
    ],
)
def test_the_reason_is_found_within_summaries(error: dict[str, Any]) -> None:
    assert launch_error(error) == LaunchError("AllocationFailed", "no room")


def test_an_error_without_words_is_told_as_it_is() -> None:
    assert launch_error({}) == LaunchError("", "")
    assert launch_error({"code": "New", "message": "m", "details": [{"code": "Newer"}]}) == LaunchError("New", "m")


def test_a_stock_out_is_never_taken_for_a_mistake_or_the_reverse() -> None:
    for code in CODES:
        found = meaning_of(code, "")
        assert found is not None
        if "Allocation" in code:
            assert found.meaning is CodeMeaning.CAPACITY
        if "Quota" in code:
            assert found.meaning is CodeMeaning.QUOTA
