"""What the two applications answer over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest

from charterer.domain.ids import JobId
from charterer.domain.pool import Hazard
from charterer.domain.reports import Progress
from charterer.domain.time import Instant
from charterer.server.http import (
    Check,
    HeldAnswers,
    HttpServer,
    ServerLimits,
    health_app,
    metrics_app,
    progress_app,
    serve,
)
from charterer.server.listener import RateLimiter
from charterer.server.progress import CurrentRun, Members, ProgressBoard
from charterer.server.tokens import Authenticator
from tests.patience import PATIENCE
from tests.unit.server.support import ALLOCATION, JOB, POD_UID, Adviser, Clock, Directory, Reviewer, bearer, token

NOW = Instant(1_700_000_000_000_000)


async def fetch(site: HttpServer, path: str) -> tuple[int, str, str]:
    url = f"http://127.0.0.1:{site.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, answer.headers["Content-Type"], await answer.text()


async def test_health_says_what_is_well_and_what_is_not() -> None:
    states = {"loop": True, "events": True}

    def check(name: str) -> Check:
        return lambda: (states[name], f"{name} checked")

    app = health_app({"loop": check("loop"), "events": check("events")}, {})
    site = await serve(app, "127.0.0.1", 0)
    try:
        assert (await fetch(site, "/healthz"))[0] == 200
        states["events"] = False
        status, _, text = await fetch(site, "/healthz")
        assert status == 503
        assert "ok   loop" in text
        assert "FAIL events: events checked" in text
        assert (await fetch(site, "/readyz"))[0] == 200
        assert (await fetch(site, "/metrics"))[0] == 404
    finally:
        await site.close()


async def test_metrics_are_on_a_port_of_their_own() -> None:
    site = await serve(metrics_app(lambda: b"a_metric 1.0\n"), "127.0.0.1", 0)
    try:
        exposition = "text/plain; version=0.0.4; charset=utf-8"
        assert await fetch(site, "/metrics") == (200, exposition, "a_metric 1.0\n")
        assert (await fetch(site, "/healthz"))[0] == 404
    finally:
        await site.close()


async def test_a_port_in_use_is_an_error() -> None:
    site = await serve(health_app({}, {}), "127.0.0.1", 0)
    try:
        with pytest.raises(OSError, match="in use"):
            await serve(health_app({}, {}), "127.0.0.1", site.port)
    finally:
        await site.close()


_SOON = ServerLimits(request_seconds=0.3)


@dataclass
class Endpoint:
    """The progress application on a port, with everything a test turns."""

    directory: Directory = field(default_factory=Directory)
    reviewer: Reviewer = field(default_factory=Reviewer)
    board: ProgressBoard = field(default_factory=ProgressBoard)
    clock: Clock = field(default_factory=Clock)
    adviser: Adviser = field(default_factory=Adviser)
    held: HeldAnswers = field(init=False)
    site: HttpServer | None = None

    def __post_init__(self) -> None:
        self.held = HeldAnswers(self._generation, seconds=5.0, most=2)

    def _generation(self, job: JobId) -> int | None:
        run = self.directory.find(job)
        return None if run is None or run.members is None else run.members.generation

    async def open(self) -> None:
        app = progress_app(
            Authenticator(self.reviewer, self.directory, clock=self.clock),
            self.directory,
            self.board,
            lambda: NOW,
            self.adviser,
            self.held,
            pace=RateLimiter(rate=1.0, burst=5, clock=self.clock),
            limits=_SOON,
        )
        self.site = await serve(app, "127.0.0.1", 0, limits=_SOON)

    async def post(
        self, body: bytes, header: str | None = None, path: str = "/v1/progress", **more: str
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        assert self.site is not None
        url = f"http://127.0.0.1:{self.site.port}{path}"
        headers = {"Authorization": bearer(token()) if header is None else header, **more}
        async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
            return answer.status, await answer.json(), dict(answer.headers)


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    await endpoint.open()
    assert endpoint.site is not None
    yield endpoint
    await endpoint.site.close()


async def test_a_report_is_kept_and_answered_with_the_allocation(endpoint: Endpoint) -> None:
    status, answer, _ = await endpoint.post(b'{"run": 2, "index": 0, "fraction": 0.42, "throughput": 812.5}')
    assert (status, answer) == (200, {"allocation": ALLOCATION, "stopping": False, "againSeconds": 10})
    assert endpoint.board.latest(JOB) == Progress(run=2, fraction=0.42, step=None, throughput=812.5, at=NOW)


async def test_the_answer_carries_the_batch_size_where_there_is_one_to_use(endpoint: Endpoint) -> None:
    endpoint.adviser.batch = 1024
    _, answer, _ = await endpoint.post(b'{"run": 2, "batch": 512, "stepSeconds": 0.25}')
    assert answer == {"allocation": ALLOCATION, "stopping": False, "againSeconds": 10, "batch": 1024}
    assert [(report.batch, report.step_seconds) for report in endpoint.adviser.heard] == [(512, 0.25)]


async def test_on_nodes_that_are_taken_back_the_answer_says_how_often_to_save(endpoint: Endpoint) -> None:
    hazard = Hazard((0.4, 0.1, 0.1, 0.1), 0.0, 0.0, 0.1, 0.05, 0.2, 5.0, 50.0)
    run = CurrentRun(2, frozenset({POD_UID}), ALLOCATION, False, hazard, (0.1, 5.0))
    endpoint.directory.runs[JOB] = run
    answer = (await endpoint.post(b'{"checkpointSeconds": 120}'))[1]
    assert answer["checkpointEverySeconds"] == round((2 * 120 * 3600 / 0.5) ** 0.5)


async def test_nothing_is_learned_from_a_report_that_is_refused(endpoint: Endpoint) -> None:
    assert (await endpoint.post(b'{"run": 1, "batch": 512, "stepSeconds": 0.25}'))[0] == 409
    status, answer, _ = await endpoint.post(b'{"batch": 0, "stepSeconds": 0.25}')
    assert (status, answer["error"]["message"]) == (400, "batch: 0 is not a whole number from 1 to 1000000000")
    assert endpoint.adviser.heard == []


async def test_a_pod_hears_that_its_run_is_to_stop(endpoint: Endpoint) -> None:
    endpoint.directory.runs[JOB] = CurrentRun(2, frozenset({POD_UID}), ALLOCATION, stopping=True)
    _, answer, _ = await endpoint.post(b"{}")
    assert answer["stopping"] is True


async def test_a_report_without_a_token_is_401_and_says_how(endpoint: Endpoint) -> None:
    status, answer, headers = await endpoint.post(b"{}", header="none")
    assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "Bearer" in answer["error"]["message"]


_TRAINER_STATUS = b'{"trainerStatus": {"progressPercentage": 42, "lastUpdatedTime": "2026-11-26T20:00:00Z"}}'


async def test_a_report_in_kubeflows_protocol_is_progress_as_well(endpoint: Endpoint) -> None:
    status, answer, _ = await endpoint.post(_TRAINER_STATUS, path="/v1/trainer-status/0")
    assert (status, answer["allocation"]) == (200, ALLOCATION)
    assert endpoint.board.latest(JOB) == Progress(run=2, fraction=0.42, step=None, throughput=None, at=NOW)


async def test_of_several_pods_only_the_first_reports_progress_in_kubeflows_protocol(endpoint: Endpoint) -> None:
    assert (await endpoint.post(_TRAINER_STATUS, path="/v1/trainer-status/1"))[0] == 200
    assert endpoint.board.latest(JOB) is None


async def test_a_loop_that_was_left_because_of_a_stop_is_not_done(endpoint: Endpoint) -> None:
    endpoint.directory.runs[JOB] = CurrentRun(2, frozenset({POD_UID}), ALLOCATION, stopping=True)
    await endpoint.post(_TRAINER_STATUS, path="/v1/trainer-status/0")
    status, answer, _ = await endpoint.post(_TRAINER_STATUS.replace(b"42", b"100"), path="/v1/trainer-status/0")
    assert (status, answer["stopping"]) == (200, True)
    latest = endpoint.board.latest(JOB)
    assert latest is not None
    assert latest.fraction == 0.42


async def test_a_wrong_report_in_kubeflows_protocol_is_400_with_the_field(endpoint: Endpoint) -> None:
    status, answer, _ = await endpoint.post(_TRAINER_STATUS.replace(b"42", b"142"), path="/v1/trainer-status/0")
    wanted = "progressPercentage: 142 is not a number from 0 to 100: percent of the work that is done"
    assert (status, answer["error"]["message"]) == (400, wanted)


async def test_a_report_in_kubeflows_protocol_needs_a_token(endpoint: Endpoint) -> None:
    assert (await endpoint.post(_TRAINER_STATUS, header="none", path="/v1/trainer-status/0"))[0] == 401


async def test_a_report_of_another_run_is_409(endpoint: Endpoint) -> None:
    status, answer, _ = await endpoint.post(b'{"run": 1, "fraction": 0.4}')
    assert (status, answer["error"]["code"]) == (409, "RunIsOver")
    assert endpoint.board.latest(JOB) is None


async def test_a_wrong_report_is_400_with_the_field(endpoint: Endpoint) -> None:
    status, answer, _ = await endpoint.post(b'{"fraction": 4}')
    assert status == 400
    assert "fraction" in answer["error"]["message"]


async def test_a_body_without_end_is_413(endpoint: Endpoint) -> None:
    status, answer, _ = await endpoint.post(b'{"new": "' + b"x" * 70_000 + b'"}')
    assert (status, answer["error"]["code"]) == (413, "TooLarge")


async def test_a_pod_that_calls_too_often_is_429_until_it_has_waited(endpoint: Endpoint) -> None:
    answers = [await endpoint.post(b"{}") for _ in range(6)]
    assert [status for status, _, _ in answers] == [200] * 5 + [429]
    retry_after = answers[-1][2]["Retry-After"]
    endpoint.clock.now += float(retry_after)
    assert (await endpoint.post(b"{}"))[0] == 200


async def test_reports_go_on_while_another_address_sends_forged_tokens(endpoint: Endpoint) -> None:
    """The forger names the job and its live pod, whose uids are no secret, and signs nothing."""
    forged = [token(salt=f"forged {number}") for number in range(300)]
    endpoint.reviewer.revoked.update(forged)
    assert endpoint.site is not None
    url = f"http://127.0.0.1:{endpoint.site.port}/v1/progress"
    statuses = []
    stranger = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
    async with aiohttp.ClientSession(connector=stranger) as session:
        for number, each in enumerate(forged):
            async with session.post(url, data=b"{}", headers={"Authorization": bearer(each)}) as answer:
                statuses.append(answer.status)
            if number % 100 == 50:
                assert (await endpoint.post(b'{"fraction": 0.4}'))[0] == 200
    assert (statuses.count(401), statuses.count(429)) == (5, 295)
    assert endpoint.reviewer.asked.count(token()) == 1


async def _answer(endpoint: Endpoint, request: bytes) -> str:
    """What the server answers to these bytes until it closes the connection, which it does by itself."""
    assert endpoint.site is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.site.port)
    try:
        writer.write(request)
        return (await reader.read()).decode(errors="replace")
    finally:
        writer.close()


def _head(*headers: str) -> bytes:
    lines = ["POST /v1/progress HTTP/1.1", "Host: x", f"Authorization: {bearer(token())}", *headers, "", ""]
    return "\r\n".join(lines).encode()


async def test_a_connection_that_brings_no_whole_request_in_time_is_closed(endpoint: Endpoint) -> None:
    assert await _answer(endpoint, b"") == ""
    assert await _answer(endpoint, b"POST /v1/progress HTTP/1.1\r\nHost: x\r\n") == ""
    late = await _answer(endpoint, _head("Content-Length: 10", "Connection: close") + b"{")
    assert late.startswith("HTTP/1.1 408")
    assert "TooSlow" in late


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "nonsense"])
async def test_an_encoded_body_is_refused(endpoint: Endpoint, encoding: str) -> None:
    status, answer, _ = await endpoint.post(b"{}", **{"Content-Encoding": encoding})
    assert (status, answer["error"]["code"]) == (415, "ContentEncoding")


@pytest.mark.parametrize(
    "body",
    [
        b'{"fraction": 1' + b"0" * 400 + b"}",
        b'{"throughput": 1e999}',
        b'{"stepSeconds": NaN}',
        b'{"fraction": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"step": "\\ud800"}',
        b"\xff\xfe",
        b"[]",
    ],
    ids=["huge", "infinite", "nan", "deep", "surrogate", "no-utf-8", "list"],
)
async def test_whatever_a_report_contains_a_wrong_one_is_400_and_no_traceback_is_logged(
    endpoint: Endpoint, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    status, answer, _ = await endpoint.post(body)
    assert (status, answer["error"]["code"]) == (400, "InvalidReport")
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "request_",
    [
        _head("Transfer-Encoding: chunked", "Connection: close") + b"zz\r\n{}\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /v1/progress HTTP/9.9\r\n\r\n",
        b"POST /v1/progress HTTP/1.1\r\nA: " + b"x" * 100_000 + b"\r\n\r\n",
        _head("Content-Length: -1"),
    ],
    ids=["chunks", "tls", "version", "long-header", "length"],
)
async def test_what_is_no_http_is_400_and_no_line_of_the_log(
    endpoint: Endpoint, request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await _answer(endpoint, request_)).split()[1] == "400"
    assert caplog.text == ""


async def test_a_fault_of_ours_is_one_line_of_the_log(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    endpoint.directory.runs[JOB] = CurrentRun(3, frozenset({POD_UID}), ALLOCATION, stopping=False)  # upsets the adviser
    answer = await _answer(endpoint, _head("Content-Length: 2", "Connection: close") + b"{}")
    assert answer.startswith("HTTP/1.1 500")
    assert "a request was not handled: AssertionError at support.py:" in caplog.text
    assert "Traceback" not in caplog.text


# --- which pods should train together ---------------------------------------------------------------------------------


def _of_generation(generation: int) -> CurrentRun:
    addresses = tuple(f"sft-r2-{index}.sft" for index in range(generation))
    members = Members(generation, tuple(range(generation)), addresses, "key")
    return CurrentRun(2, frozenset({POD_UID}), ALLOCATION, stopping=False, members=members)


async def _held(endpoint: Endpoint, answers: int) -> None:
    """Until so many answers wait."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if len(endpoint.held) == answers:
                return
            await asyncio.sleep(0.001)


async def test_the_answer_names_the_pods_that_should_train_together(endpoint: Endpoint) -> None:
    assert "members" not in (await endpoint.post(b"{}"))[1]
    endpoint.directory.runs[JOB] = _of_generation(2)
    assert (await endpoint.post(b"{}"))[1]["members"] == {
        "generation": 2,
        "indexes": [0, 1],
        "addresses": ["sft-r2-0.sft", "sft-r2-1.sft"],
        "key": "key",
    }


async def test_an_answer_that_is_to_wait_for_a_change_comes_when_the_members_change(endpoint: Endpoint) -> None:
    endpoint.directory.runs[JOB] = _of_generation(2)
    waiting = asyncio.create_task(endpoint.post(b'{"waitGeneration": 2}'))
    await _held(endpoint, 1)
    endpoint.held.look()
    assert len(endpoint.held) == 1
    endpoint.directory.runs[JOB] = _of_generation(3)
    endpoint.held.look()
    status, answer, _ = await waiting
    assert (status, answer["members"]["generation"]) == (200, 3)
    assert len(endpoint.held) == 0


async def test_an_answer_does_not_wait_for_a_change_that_the_pod_has_not_heard_of(endpoint: Endpoint) -> None:
    endpoint.directory.runs[JOB] = _of_generation(3)
    _, answer, _ = await endpoint.post(b'{"waitGeneration": 2}')
    assert answer["members"]["generation"] == 3


async def test_a_run_that_ends_while_its_pod_waits_is_409(endpoint: Endpoint) -> None:
    endpoint.directory.runs[JOB] = _of_generation(2)
    waiting = asyncio.create_task(endpoint.post(b'{"run": 2, "waitGeneration": 2}'))
    await _held(endpoint, 1)
    del endpoint.directory.runs[JOB]
    endpoint.held.look()
    assert (await waiting)[0] == 409


async def test_no_more_answers_wait_than_may(endpoint: Endpoint) -> None:
    endpoint.directory.runs[JOB] = _of_generation(2)
    waiting = [asyncio.create_task(endpoint.post(b'{"waitGeneration": 2}')) for _ in range(2)]
    await _held(endpoint, 2)
    assert (await endpoint.post(b'{"waitGeneration": 2}'))[0] == 200
    endpoint.directory.runs[JOB] = _of_generation(3)
    endpoint.held.look()
    assert [status for status, _, _ in await asyncio.gather(*waiting)] == [200, 200]


async def test_the_pod_of_the_lowest_index_in_the_group_speaks_for_the_run(endpoint: Endpoint) -> None:
    run = _of_generation(3)
    assert run.members is not None
    endpoint.directory.runs[JOB] = replace(run, members=run.members._replace(indexes=(1, 2)))
    await endpoint.post(b'{"index": 0, "fraction": 0.1}')
    assert endpoint.board.latest(JOB) is None
    await endpoint.post(b'{"index": 1, "fraction": 0.2, "generation": 3}')
    latest = endpoint.board.latest(JOB)
    assert latest is not None
    assert (latest.fraction, latest.generation) == (0.2, 3)
