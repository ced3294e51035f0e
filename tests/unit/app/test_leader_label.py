"""The label of the leader's pod gets there, whatever the API server answers at first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from charterer.app.process import LeaderLabel
from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError, NotFound, OutcomeUnknown, TooManyRequests
from tests.virtual_time import clock, run_for, run_in_virtual_time

PATH = "/api/v1/namespaces/charterer/pods/charterer-0"
THROTTLED = TooManyRequests("PATCH", PATH, 429, "TooManyRequests", "later", 5.0)
LOST = OutcomeUnknown("PATCH", PATH, 500, "InternalError", "an error")


class Api:
    """The API server; ``failures`` are raised by the next writes. ``asked`` has the seconds and value of each."""

    def __init__(self, *failures: ApiError) -> None:
        self.failures = list(failures)
        self.began = clock()
        self.asked: list[tuple[float, str]] = []
        self.label = "true"

    async def merge_patch(self, path: str, body: Mapping[str, Any]) -> None:
        assert path == PATH
        leader = body["metadata"]["labels"]["charterer.dev/leader"]
        self.asked.append((clock() - self.began, leader))
        if self.failures:
            raise self.failures.pop(0)
        self.label = leader


def labelled(api: Api) -> LeaderLabel:
    return LeaderLabel(cast(Client, api), "charterer", "charterer-0")


def test_the_label_that_a_former_process_left_is_taken_away_before_this_one_leads() -> None:
    async def main() -> None:
        api = Api()
        await run_for(60.0, labelled(api).run())
        assert api.label == "false"
        assert len(api.asked) == 1

    run_in_virtual_time(main())


@pytest.mark.parametrize("failures", [[LOST], [THROTTLED], [LOST] * 5])
def test_a_refused_label_is_written_again_until_it_is_there(failures: list[ApiError]) -> None:
    async def main() -> None:
        api = Api(*failures)
        label = labelled(api)
        label.leads()
        await run_for(60.0, label.run())
        assert api.label == "true"
        assert len(api.asked) == len(failures) + 1

    run_in_virtual_time(main())


def test_the_api_server_is_left_alone_as_long_as_it_asks_and_longer_after_each_refusal() -> None:
    async def main() -> None:
        api = Api(THROTTLED, LOST, LOST, LOST)
        await run_for(100.0, labelled(api).run())
        assert [seconds for seconds, _ in api.asked] == [0.0, 5.0, 15.0, 35.0, 65.0]

    run_in_virtual_time(main())


def test_outside_a_cluster_there_is_no_pod_and_nothing_is_repeated() -> None:
    async def main() -> None:
        api = Api(NotFound("PATCH", PATH, 404, "NotFound", "no such pod"))
        await run_for(60.0, labelled(api).run())
        assert len(api.asked) == 1

    run_in_virtual_time(main())
