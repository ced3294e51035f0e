"""The API server as adapters see it: the time of a list, and failures by what is known of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, cast

import pytest

from charterer.app.leader import ClusterObjects
from charterer.cluster import errors
from charterer.cluster.client import Client, Listing, RawObject
from charterer.domain.time import Instant
from charterer.providers.objects import CallFailure, ObjectsError
from tests.virtual_time import run_in_virtual_time


class Server:
    """A client of an API server whose clock is ``ahead`` of the event loop's; each answer takes ``seconds``."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead
        self.seconds = 0.0
        self.date: tuple[str, float] | None = None
        self.error: errors.ApiError | None = None

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead

    async def list(self, path: str, *, labels: str, fields: str) -> Listing:
        await self._answer()
        return Listing((), 1)

    async def post(self, path: str, body: Any, *, dry_run: bool) -> RawObject:
        await self._answer()
        return {}

    async def _answer(self) -> None:
        written = format_datetime(datetime.fromtimestamp(int(self.now), UTC), usegmt=True)
        await asyncio.sleep(self.seconds)
        self.date = written, asyncio.get_running_loop().time()
        if self.error is not None:
            raise self.error


def objects(server: Server) -> ClusterObjects:
    return ClusterObjects(cast(Client, server))


def test_a_later_list_has_a_later_time_however_long_it_took() -> None:
    """Answers tell whole seconds. A survey with an earlier time than the one before would not be believed."""

    async def main() -> None:
        server = Server(ahead=5_000_000.25)
        seen = objects(server)
        last = Instant(0)
        for seconds in (0.01, 0.4, 0.02, 0.9, 0.03, 2.5, 0.01, 0.01):
            server.seconds = seconds
            began = server.now
            at = (await seen.list("/x")).at
            assert last < at <= round(began * 1e6)
            assert at > round((began - 4) * 1e6)
            last = at

    run_in_virtual_time(main())


def test_a_server_whose_clock_was_set_back_is_followed() -> None:
    async def main() -> None:
        server = Server(ahead=5_000_000.0)
        seen = objects(server)
        await seen.list("/x")
        server.ahead -= 3600
        assert (await seen.list("/x")).at <= round((server.now + 12) * 1e6)

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (errors.OutcomeUnknown, CallFailure.UNKNOWN),
        (errors.Unreachable, CallFailure.NOT_DONE),
        (errors.Fenced, CallFailure.NOT_DONE),
        (errors.Forbidden, CallFailure.FORBIDDEN),
        (errors.Unauthorized, CallFailure.FORBIDDEN),
        (errors.NotFound, CallFailure.ABSENT),
        (errors.Invalid, CallFailure.REFUSED),
    ],
)
def test_each_failure_says_what_is_known(error: type[errors.ApiError], failure: CallFailure) -> None:
    async def main() -> None:
        server = Server()
        server.error = error("POST", "/x", 400, "Reason", "as the server says")
        with pytest.raises(ObjectsError, match="create /x: as the server says") as caught:
            await objects(server).create("/x", {})
        assert caught.value.failure is failure

    run_in_virtual_time(main())


def test_a_throttled_call_says_for_how_long() -> None:
    async def main() -> None:
        server = Server()
        server.error = errors.TooManyRequests("POST", "/x", 429, "TooManyRequests", "slow down", 7.0)
        with pytest.raises(ObjectsError) as caught:
            await objects(server).create("/x", {})
        assert (caught.value.failure, caught.value.retry_after) == (CallFailure.THROTTLED, 7.0)

    run_in_virtual_time(main())


def test_what_exists_already_is_no_failure() -> None:
    async def main() -> None:
        server = Server()
        server.error = errors.AlreadyExists("POST", "/x", 409, "AlreadyExists", "exists")
        assert not await objects(server).create("/x", {})

    run_in_virtual_time(main())
