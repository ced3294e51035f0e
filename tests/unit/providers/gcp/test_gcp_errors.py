"""What each code of Google Cloud means."""

from __future__ import annotations

from pathlib import Path

import pytest

from charterer.domain.ids import OrderToken, PoolId
from charterer.domain.order import Refusal, RefusalKind, Scope
from charterer.domain.pool import CapacityType
from charterer.domain.time import Instant
from charterer.providers.codes import AlreadyThere, LaunchError, LaunchRefused
from charterer.providers.errors import (
    Busy,
    CloudOutcomeUnknown,
    CloudUnauthorized,
    CloudUnreachable,
    InvalidRequest,
    NotFoundInCloud,
    ProviderError,
    Throttled,
    Transient,
    UnknownCode,
)
from charterer.providers.gcp import calls
from charterer.providers.gcp.calls import CODES, Lack, SdkError, call_error, refusal

POOL, AT, TOKEN = PoolId("a"), Instant(5), OrderToken("c1")
PLACE = ("a3-highgpu-8g", "us-east4-b", "my-project")
ZONE, FAMILY = "a3-highgpu-8g OnDemand us-east4-b", "nvidia-h100-80gb OnDemand us-east4"


def refused(*listed: LaunchError, sold: CapacityType = CapacityType.ON_DEMAND) -> Refusal:
    return refusal(POOL, listed, PLACE, sold, AT, TOKEN)


OUT = LaunchError("ZONE_RESOURCE_POOL_EXHAUSTED", "none left")
QUOTA = LaunchError("QUOTA_EXCEEDED", "Quota 'NVIDIA_H100_GPUS' exceeded.  Limit: 8.0 in region us-east4.")
EVERYWHERE = LaunchError("QUOTA_EXCEEDED", "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally.")
DISKS = LaunchError("QUOTA_EXCEEDED", "Quota 'SSD_TOTAL_GB' exceeded.  Limit: 500.0 in region us-east4.")
MINIMUM = LaunchError("VM_MIN_COUNT_NOT_REACHED", "Requested minimum count of 4 VMs could not be created.")

SEVERAL: list[tuple[str, tuple[LaunchError, ...], RefusalKind, Scope, str]] = [
    ("a stock-out", (OUT,), RefusalKind.STOCK_OUT, Scope.ZONE, ZONE),
    ("a summary beside a reason", (MINIMUM, QUOTA), RefusalKind.QUOTA_EXCEEDED, Scope.FAMILY, FAMILY),
    ("a summary alone", (MINIMUM,), RefusalKind.STOCK_OUT, Scope.ZONE, ZONE),
    ("quota before stock", (OUT, QUOTA), RefusalKind.QUOTA_EXCEEDED, Scope.FAMILY, FAMILY),
    ("a quota of all regions", (EVERYWHERE,), RefusalKind.QUOTA_EXCEEDED, Scope.ACCOUNT, "my-project"),
    ("a quota of something else", (DISKS,), RefusalKind.QUOTA_EXCEEDED, Scope.POOL, "a"),
    ("a new code of a quota", (LaunchError("NEW_QUOTA_LIMIT", "GPU quota"),), RefusalKind.QUOTA_EXCEEDED,
     Scope.FAMILY, FAMILY),
    ("unknown before all", (OUT, QUOTA, LaunchError("NEW", "?")), RefusalKind.UNKNOWN_CODE, Scope.POOL, "a"),
    ("rights before a wrong request", (LaunchError("INVALID_USAGE", "no"), LaunchError("PERMISSIONS_ERROR", "no")),
     RefusalKind.UNAUTHORIZED, Scope.ACCOUNT, "my-project"),
    ("a full reservation", (LaunchError("INVALID_USAGE", "Specified reservation [r] does not have available resources "
                                        "for the request."),), RefusalKind.STOCK_OUT, Scope.POOL, "a"),
    ("no such reservation", (LaunchError("INVALID_USAGE", "Specified reservation [r] does not exist."),),
     RefusalKind.INVALID_REQUEST, Scope.POOL, "a"),
    ("no addresses", (LaunchError("IP_SPACE_EXHAUSTED", "none"),), RefusalKind.STOCK_OUT, Scope.POOL, "a"),
    ("a server's failure", (LaunchError("INTERNAL_ERROR", "no"),), RefusalKind.LAUNCH_FAILED, Scope.POOL, "a"),
    ("a group that is changed", (LaunchError("RESOURCE_NOT_READY", "no"),), RefusalKind.LAUNCH_FAILED, Scope.POOL,
     "a"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("listed", "kind", "scope", "where"), [case[1:] for case in SEVERAL], ids=[c[0] for c in SEVERAL]
)
def test_several_codes_are_one_refusal(
    listed: tuple[LaunchError, ...], kind: RefusalKind, scope: Scope, where: str
) -> None:
    told = refused(*listed)
    assert (told.kind, told.scope, told.where, told.at, told.order) == (kind, scope, where, AT, TOKEN)


def test_a_spot_node_that_is_taken_back_while_it_is_created_is_a_stock_out() -> None:
    gone = LaunchError("UNSUPPORTED_OPERATION", "Instance is being preempted")
    assert refused(gone, sold=CapacityType.SPOT).kind is RefusalKind.STOCK_OUT
    assert refused(gone).kind is RefusalKind.INVALID_REQUEST


def test_a_refusal_has_the_vendors_words_and_not_too_many() -> None:
    assert (refused(OUT, OUT).code, refused(OUT, OUT).message) == ("ZONE_RESOURCE_POOL_EXHAUSTED", "none left")
    assert len(refused(LaunchError("NEW", "x" * 9999)).message) == 400


CALLS: list[tuple[SdkError, bool, type[ProviderError]]] = [
    (SdkError(Lack.CODE, "rateLimitExceeded", "m", 403), True, Throttled),
    (SdkError(Lack.CODE, "", "m", 429), False, Throttled),
    (SdkError(Lack.CODE, "backendError", "m", 503), True, CloudOutcomeUnknown),
    (SdkError(Lack.CODE, "backendError", "m", 503), False, Transient),
    (SdkError(Lack.CODE, "neverSeen", "m", 502), True, CloudOutcomeUnknown),
    (SdkError(Lack.CODE, "neverSeen", "m", 400), True, UnknownCode),
    (SdkError(Lack.CODE, "", "m", 502), False, Transient),
    (SdkError(Lack.CODE, "forbidden", "m", 403), True, CloudUnauthorized),
    (SdkError(Lack.CODE, "", "m", 401), True, CloudUnauthorized),
    (SdkError(Lack.CODE, "notFound", "m", 404), True, NotFoundInCloud),
    (SdkError(Lack.CODE, "alreadyExists", "m", 409), True, AlreadyThere),
    (SdkError(Lack.CODE, "conditionNotMet", "m", 412), True, Busy),
    (SdkError(Lack.CODE, "invalid", "m", 400), True, InvalidRequest),
    (SdkError(Lack.CODE, "quotaExceeded", "m", 403), True, LaunchRefused),
    (SdkError(Lack.CREDENTIALS, "DefaultCredentialsError", "m"), True, CloudUnauthorized),
    (SdkError(Lack.CONNECTION, "ConnectTimeout", "m"), True, CloudUnreachable),
    (SdkError(Lack.ANSWER, "ReadTimeout", "m"), True, CloudOutcomeUnknown),
    (SdkError(Lack.ANSWER, "ReadTimeout", "m"), False, Transient),
    (SdkError(Lack.SDK, "ModuleNotFoundError", "m"), True, InvalidRequest),
]


@pytest.mark.parametrize(("error", "mutation", "kind"), CALLS, ids=[f"{c[0]} {c[1]}" for c in CALLS])
def test_an_error_of_a_whole_call_has_one_meaning(error: SdkError, mutation: bool, kind: type[ProviderError]) -> None:
    assert type(call_error(POOL, "instances.bulkInsert", error, mutation=mutation)) is kind


def test_how_long_to_wait_is_what_google_says() -> None:
    told = call_error(POOL, "c", SdkError(Lack.CODE, "rateLimitExceeded", "m", 403, retry_after=7.0), mutation=False)
    assert isinstance(told, Throttled)
    assert told.retry_after == 7.0


def test_every_code_says_who_documents_it() -> None:
    lines = Path(calls.__file__).read_text().splitlines()
    rows = [line for line in lines if line.startswith('    "') and line.rstrip().split("#")[0].rstrip().endswith(",")]
    assert len(rows) >= len(CODES)
    assert [row for row in rows if not any(source in row for source in ("CA", "KG", "SP", "# D", "# M"))] == []
