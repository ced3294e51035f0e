"""A process that begins while the API server refuses waits for it, and does not end."""

from __future__ import annotations

from charterer.app.leader import until_answered
from charterer.cluster.errors import ApiError, TooManyRequests, Unreachable
from tests.virtual_time import clock, run_in_virtual_time


def test_what_is_refused_is_asked_for_again_as_soon_as_the_api_server_allows() -> None:
    async def main() -> None:
        failures: list[ApiError] = [
            Unreachable("GET", "/x", 503, "ServiceUnavailable", "a storm"),
            TooManyRequests("GET", "/x", 429, "TooManyRequests", "a storm", 4.0),
        ]
        began, asked = clock(), []

        async def ask() -> str:
            asked.append(clock() - began)
            if failures:
                raise failures.pop(0)
            return "the certificate"

        assert await until_answered("the certificate", ask) == "the certificate"
        assert asked == [0.0, 1.0, 5.0]

    run_in_virtual_time(main())
