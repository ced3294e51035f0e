"""How an operation that was to end something ended."""

from __future__ import annotations

from charterer.domain.ids import PoolId
from charterer.providers.gcp.calls import Answer
from charterer.providers.gcp.errors import Lack, SdkError, call_error
from charterer.providers.gcp.history import errors_in
from charterer.providers.gcp.permissions import Call


def raise_for(pool: PoolId, call: Call, answer: Answer) -> None:
    """Raise the ProviderError that an operation's first error stands for, if it has one: nothing has happened then."""
    for error in errors_in(answer.body.get("error", {})):
        status = int(answer.body.get("http_error_status_code", 400))
        told = SdkError(Lack.CODE, error.code, error.message, status, answer.at)
        raise call_error(pool, call.full_name, told, mutation=call.mutation)
