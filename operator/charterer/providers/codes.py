"""Vendors' codes: the meanings that a code can have, the error for a code, and one refusal for several errors.

Each adapter has the table of its vendor's codes, and says how far a refusal with each code reaches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from charterer.domain.ids import OrderToken, PoolId
from charterer.domain.order import Refusal, RefusalKind, Scope
from charterer.domain.time import Instant
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

# Answers that do not have the form that the cloud's documentation describes.


@contextmanager
def understood(pool: PoolId, call: str, otherwise: type[ProviderError]) -> Iterator[None]:
    """Turn the failure to read an answer into an error about that pool. The error concerns no other pool."""
    try:
        yield
    except (LookupError, ValueError, TypeError) as error:
        raise otherwise(pool, call, "MalformedAnswer", f"{type(error).__name__}: {error}") from error


logger = logging.getLogger(__name__)

LONGEST_MESSAGE: Final = 400
"""Most characters of a vendor's message that are stored."""


class CodeMeaning(Enum):
    """The class of errors to which a code belongs."""

    CAPACITY = auto()
    QUOTA = auto()
    NOT_OFFERED = auto()
    """The type is not sold there. For a spot type, this may mean that it is out of stock."""
    LATE = auto()
    """A machine was made and is billed, and failed afterwards."""
    THROTTLED = auto()
    UNAUTHORIZED = auto()
    NOT_FOUND = auto()
    EXISTS = auto()
    """An object with that name already exists."""
    INVALID = auto()
    BUSY = auto()
    SERVER = auto()
    """The server failed. A read may be repeated. For a mutation it is unknown whether it took effect."""
    SUMMARY = auto()
    """The code does not say why. Other codes of the same answer may."""


@dataclass(frozen=True, slots=True)
class Code:
    """The meaning of a code, and how far a refusal with it reaches."""

    meaning: CodeMeaning
    scope: Scope = Scope.POOL


@dataclass(frozen=True, slots=True)
class LaunchError:
    """Why a machine was not made, and where, in the vendor's words. A field is empty if the vendor does not say it."""

    code: str
    message: str
    instance_type: str = ""
    zone: str = ""
    subnet: str = ""


class LaunchRefused(ProviderError):
    """A launch was refused by a code that came instead of an answer to the call."""

    reason = RefusalKind.LAUNCH_FAILED.value

    def __init__(self, pool: PoolId, call: str, error: LaunchError, at: Instant) -> None:
        super().__init__(pool, call, error.code, error.message)
        self.error = error
        self.at = at


class AlreadyThere(ProviderError):
    """An object with the name that the new one should get exists already. Nothing was done."""

    reason = "AlreadyExists"


_REFUSE_LAUNCHES: Final = frozenset({CodeMeaning.CAPACITY, CodeMeaning.QUOTA, CodeMeaning.NOT_OFFERED})
_SERVER_FAILED: Final = frozenset({CodeMeaning.SERVER, CodeMeaning.LATE})
_ERRORS: Final[Mapping[CodeMeaning, type[ProviderError]]] = {
    CodeMeaning.UNAUTHORIZED: CloudUnauthorized,
    CodeMeaning.NOT_FOUND: NotFoundInCloud,
    CodeMeaning.EXISTS: AlreadyThere,
    CodeMeaning.INVALID: InvalidRequest,
    CodeMeaning.BUSY: Busy,
    CodeMeaning.SUMMARY: Busy,
}


def lost(*, mutation: bool) -> type[CloudOutcomeUnknown] | type[Transient]:
    """The class of error of a call without an answer."""
    return CloudOutcomeUnknown if mutation else Transient


def error_of_code(
    pool: PoolId,
    call: str,
    told: LaunchError,
    known: Code | None,
    status: int,
    at: Instant,
    wait: float,
    *,
    mutation: bool,
) -> ProviderError:
    """The error for the code with which a whole call was answered.

    ``known``: the code's meaning, or None if the adapter does not know the code.
    ``status``: the HTTP status.
    ``at``: the cloud's time of the answer.
    ``wait``: seconds before the next call, if there were too many calls.
    """
    code, message = told.code, told.message
    if known is None and status < 500:
        logger.error("GPUPool %s: %s: unknown code %s (HTTP %d): %s", pool, call, code, status, message)
        return UnknownCode(pool, call, code, message)
    if known is None or known.meaning in _SERVER_FAILED:
        return lost(mutation=mutation)(pool, call, code, message)
    if known.meaning is CodeMeaning.THROTTLED:
        return Throttled(pool, call, code, message, wait)
    if known.meaning in _REFUSE_LAUNCHES:
        return LaunchRefused(pool, call, told, at)
    return _ERRORS[known.meaning](pool, call, code, message)


Known: TypeAlias = tuple[LaunchError, Code | None]
"""An error with the meaning of its code. The meaning is None if the adapter does not know the code."""
OrderOfKinds: TypeAlias = Sequence[tuple[RefusalKind, tuple[CodeMeaning | None, ...]]]
"""Kinds of refusals, each with its meanings. The most specific kind is first. None stands for unknown codes."""


def one_refusal(
    pool: PoolId,
    errors: Sequence[Known],
    kinds: OrderOfKinds,
    reach: Callable[[LaunchError, Code | None], tuple[Scope, str]],
    at: Instant,
    order: OrderToken,
    plain: Callable[[str], str] = lambda message: message,
) -> Refusal:
    """One refusal for all errors. Its kind is the first of ``kinds`` to which one of the errors belongs, or
    LaunchFailed if there is none.

    Codes that only sum up other codes are left out. ``reach``: how far an error reaches, and the name of the place that
    it reaches. If the errors reach different places, the refusal is of the whole pool. ``plain``: shortens a message
    for people.
    """
    telling = [pair for pair in errors if pair[1] is None or pair[1].meaning is not CodeMeaning.SUMMARY] or errors
    for error, code in telling:
        if code is None:
            logger.error("GPUPool %s: unknown code %s: %s", pool, error.code, error.message)
    kind, those = next(
        (kind, those)
        for kind, meanings in (*kinds, (RefusalKind.LAUNCH_FAILED, (None, *CodeMeaning)))
        if (those := [pair for pair in telling if (pair[1] and pair[1].meaning) in meanings])
    )
    reaches = {reach(*pair) for pair in those}
    scope, where = reaches.pop() if len(reaches) == 1 else (Scope.POOL, str(pool))
    codes = ", ".join(dict.fromkeys(error.code for error, _ in those))
    message = "; ".join(dict.fromkeys(plain(error.message) for error, _ in those))[:LONGEST_MESSAGE]
    return Refusal(kind, scope, where, codes, message, at, order)
