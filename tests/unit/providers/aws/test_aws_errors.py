"""What each code of AWS means."""

from __future__ import annotations

from pathlib import Path

import botocore.session
import pytest

from charterer.domain.ids import OrderToken, PoolId
from charterer.domain.order import Refusal, RefusalKind, Scope
from charterer.domain.pool import CapacityType
from charterer.domain.time import Instant
from charterer.providers.aws import calls
from charterer.providers.aws.calls import CODES, call_error, refusal
from charterer.providers.aws.permissions import Call
from charterer.providers.codes import LaunchError, LaunchRefused
from charterer.providers.errors import (
    AtMinSize,
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

POOL, AT, TOKEN = PoolId("a"), Instant(5), OrderToken("c1")


def refused(*listed: LaunchError, sold: CapacityType = CapacityType.ON_DEMAND) -> Refusal:
    return refusal(POOL, listed, "eu-west-1", sold, AT, TOKEN)


def error(code: str, zone: str = "eu-west-1a", message: str = "m", type_name: str = "p5.48xlarge") -> LaunchError:
    return LaunchError(code, message, type_name, zone, f"subnet-{zone[-1:]}")


OUT, QUOTA = error("InsufficientInstanceCapacity"), error("VcpuLimitExceeded")

SEVERAL: list[tuple[str, tuple[LaunchError, ...], RefusalKind, Scope, str]] = [
    ("one zone", (OUT,), RefusalKind.STOCK_OUT, Scope.ZONE, "p5.48xlarge OnDemand eu-west-1a"),
    ("two zones", (OUT, error("Unsupported", "eu-west-1b")), RefusalKind.STOCK_OUT, Scope.POOL, "a"),
    ("quota before stock", (OUT, QUOTA), RefusalKind.QUOTA_EXCEEDED, Scope.FAMILY, "P OnDemand eu-west-1"),
    ("unknown before all", (OUT, QUOTA, error("New")), RefusalKind.UNKNOWN_CODE, Scope.POOL, "a"),
    ("a wrong request before quota", (QUOTA, error("InvalidAMIID.NotFound")), RefusalKind.INVALID_REQUEST, Scope.POOL,
     "a"),
    ("rights before a wrong request", (error("InvalidKeyPair.NotFound"), error("UnauthorizedOperation")),
     RefusalKind.UNAUTHORIZED, Scope.ACCOUNT, "eu-west-1"),
    ("a summary beside a reason", (error("UnfulfillableCapacity"), QUOTA), RefusalKind.QUOTA_EXCEEDED, Scope.FAMILY,
     "P OnDemand eu-west-1"),
    ("a summary alone", (error("UnfulfillableCapacity"),), RefusalKind.STOCK_OUT, Scope.ZONE,
     "p5.48xlarge OnDemand eu-west-1a"),
    ("a placement group", (error("InsufficientInstanceCapacity", message="limit of this Placement Group"),),
     RefusalKind.STOCK_OUT, Scope.POOL, "a"),
    ("an account", (error("PendingVerification"),), RefusalKind.QUOTA_EXCEEDED, Scope.ACCOUNT, "eu-west-1"),
    ("a server's failure", (error("InternalError"),), RefusalKind.LAUNCH_FAILED, Scope.POOL, "a"),
    ("a place that is not told", (error("InsufficientInstanceCapacity", "", type_name=""),), RefusalKind.STOCK_OUT,
     Scope.POOL, "a"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("listed", "kind", "scope", "where"), [case[1:] for case in SEVERAL], ids=[c[0] for c in SEVERAL]
)
def test_several_codes_are_one_refusal(
    listed: tuple[LaunchError, ...], kind: RefusalKind, scope: Scope, where: str
) -> None:
    told = refused(*listed)
    assert (told.kind, told.scope, told.where, told.at, told.order) == (kind, scope, where, AT, TOKEN)


def test_a_refusal_has_the_vendors_words_without_what_only_their_owner_can_decode() -> None:
    told = refused(error("UnauthorizedOperation", message="You may not. Encoded authorization failure message: SECRET"))
    assert (told.code, told.message) == ("UnauthorizedOperation", "You may not.")
    assert len(refused(error("New", message="x" * 9999)).message) == 400


CALLS: list[tuple[str, int, bool, type[ProviderError]]] = [
    ("RequestLimitExceeded", 503, True, Throttled),
    ("InternalError", 500, True, CloudOutcomeUnknown),
    ("InternalError", 500, False, Transient),
    ("NeverSeen", 502, True, CloudOutcomeUnknown),
    ("NeverSeen", 400, True, UnknownCode),
    ("UnauthorizedOperation", 403, True, CloudUnauthorized),
    ("InvalidInstanceID.NotFound", 400, True, NotFoundInCloud),
    ("InvalidAMIID.Unavailable", 400, True, InvalidRequest),
    ("ResourceContention", 409, True, Busy),
    ("InsufficientInstanceCapacity", 500, True, LaunchRefused),
    ("VcpuLimitExceeded", 400, True, LaunchRefused),
]


@pytest.mark.parametrize(("code", "status", "mutation", "kind"), CALLS)
def test_a_code_of_a_whole_call_has_one_meaning(
    code: str, status: int, mutation: bool, kind: type[ProviderError]
) -> None:
    assert type(call_error(POOL, "ec2:CreateFleet", code, "m", status, AT, mutation=mutation)) is kind


def test_a_validation_error_about_the_minimum_size_is_told_as_such() -> None:
    said = "Currently, desiredSize equals minSize (1)."
    assert type(call_error(POOL, "c", "ValidationError", said, 400, AT, mutation=True)) is AtMinSize


def test_every_code_says_who_documents_it() -> None:
    lines = Path(calls.__file__).read_text().splitlines()
    rows = [line for line in lines if line.startswith('    "') and line.rstrip().split("#")[0].rstrip().endswith(",")]
    assert len(rows) >= len(CODES)
    assert [row for row in rows if not any(source in row for source in ("KA", "SP", "PC", "# D", "# M", ", D"))] == []


def test_every_error_that_the_models_document_for_our_calls_is_known() -> None:
    session = botocore.session.get_session()
    unknown = {}
    for call in Call:
        operation = session.get_service_model(call.service).operation_model(call.operation)
        codes = {shape.error_code or shape.name for shape in operation.error_shapes}
        if missing := {code for code in codes if calls.meaning_of(code) is None}:
            unknown[call.full_name] = missing
    assert unknown == {}
