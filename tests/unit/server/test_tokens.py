"""Only a live pod of the job's current run may report, and Kubernetes is asked rarely."""

from __future__ import annotations

import asyncio
import logging

import pytest

from charterer.domain.ids import JobId
from charterer.server.listener import Refused
from charterer.server.progress import CurrentRun
from charterer.server.tokens import Authenticator, Caller
from tests.unit.server.support import ALLOCATION, JOB, POD_UID, Clock, Directory, Reviewer, bearer, token

POD, OTHER = "10.0.0.1", "10.0.0.2"
EXTRA = {
    "authentication.kubernetes.io/pod-name": ["sft-r2-0-abcde"],
    "authentication.kubernetes.io/pod-uid": [POD_UID],
}


def authenticator(reviewer: Reviewer, directory: Directory, clock: Clock, *, cache_size: int = 100) -> Authenticator:
    return Authenticator(reviewer, directory, cache_seconds=300, cache_size=cache_size, clock=clock, wall_clock=clock)


async def refusal(authenticator: Authenticator, authorization: str | None, address: str = POD) -> Refused:
    with pytest.raises(Refused) as refused:
        await authenticator.authenticate(authorization, address)
    return refused.value


@pytest.fixture
def reviewer() -> Reviewer:
    return Reviewer()


@pytest.fixture
def directory() -> Directory:
    return Directory()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guard(reviewer: Reviewer, directory: Directory, clock: Clock) -> Authenticator:
    return authenticator(reviewer, directory, clock)


async def test_a_pod_of_the_current_run_is_let_in(guard: Authenticator) -> None:
    assert await guard.authenticate(bearer(token()), POD) == Caller(JOB, "sft-r2-0-abcde", POD_UID)


@pytest.mark.parametrize("header", [None, "", "Basic abc", "Bearer", "Bearer   "])
async def test_a_call_without_a_bearer_token_is_401(guard: Authenticator, header: str | None) -> None:
    assert (await refusal(guard, header)).status == 401


@pytest.mark.parametrize(
    "text", ["abc", "a.b.c", "a.WzFd.c", "a." + "W" * 4000 + ".c", "x" * 9000, "a.eyJhdWQiOltdfQ.c", "a.\N{BULLET}.c"]
)
async def test_what_is_no_service_account_token_is_401_and_not_asked_about(
    guard: Authenticator, reviewer: Reviewer, text: str
) -> None:
    assert (await refusal(guard, bearer(text))).status == 401
    assert reviewer.asked == []


@pytest.mark.parametrize(
    "audiences",
    [["https://kubernetes.default.svc"], "other", [f"charterer.dev/tj/{JOB}", "charterer.dev/tj/another"], 7, [None]],
)
async def test_a_token_for_another_audience_is_401_and_not_asked_about(
    guard: Authenticator, reviewer: Reviewer, audiences: object
) -> None:
    refused = await refusal(guard, bearer(token(audiences=audiences)))
    assert (refused.status, reviewer.asked) == (401, [])
    assert "audience" in refused.message


async def test_a_token_without_end_is_401_before_anything_reads_it(guard: Authenticator) -> None:
    assert "longer than" in (await refusal(guard, bearer(token(salt="x" * 9000)))).message


async def test_a_token_that_is_bound_to_no_pod_is_403(guard: Authenticator) -> None:
    assert (await refusal(guard, bearer(token(pod_uid="")))).code == "NotAPod"


async def test_strangers_cost_the_api_server_nothing(guard: Authenticator, reviewer: Reviewer) -> None:
    assert (await refusal(guard, bearer(token(job="unknown")))).code == "NoSuchJob"
    assert (await refusal(guard, bearer(token(pod_uid="another")))).code == "NotCurrentRun"
    assert reviewer.asked == []


async def test_a_token_that_kubernetes_rejects_is_401(guard: Authenticator, reviewer: Reviewer) -> None:
    reviewer.revoked.add(token())
    assert (await refusal(guard, bearer(token()))).status == 401


async def test_a_pod_that_kubernetes_names_differently_than_the_token_claims_is_refused(
    directory: Directory, clock: Clock
) -> None:
    async def review(_: object) -> dict[str, object]:
        extra = {
            "authentication.kubernetes.io/pod-name": ["evil"],
            "authentication.kubernetes.io/pod-uid": ["another"],
        }
        return {"status": {"authenticated": True, "audiences": [f"charterer.dev/tj/{JOB}"], "user": {"extra": extra}}}

    assert (await refusal(Authenticator(review, directory, clock=clock), bearer(token()))).code == "NotCurrentRun"


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": True},
        {"authenticated": True, "audiences": ["other"], "user": {"extra": EXTRA}},
        {"authenticated": True, "audiences": [f"charterer.dev/tj/{JOB}"], "user": {}},
        {"authenticated": True, "audiences": [f"charterer.dev/tj/{JOB}"], "user": {"extra": {}}},
        {"authenticated": "yes", "audiences": [f"charterer.dev/tj/{JOB}"]},
    ],
)
async def test_an_answer_of_kubernetes_that_proves_nothing_is_401(
    directory: Directory, clock: Clock, status: dict[str, object]
) -> None:
    async def review(_: object) -> dict[str, object]:
        return {"status": status}

    assert (await refusal(Authenticator(review, directory, clock=clock), bearer(token()))).status == 401


async def test_kubernetes_is_asked_once_per_token_until_the_answer_is_old(
    guard: Authenticator, reviewer: Reviewer, clock: Clock
) -> None:
    for _ in range(3):
        await guard.authenticate(bearer(token()), POD)
    assert len(reviewer.asked) == 1
    clock.now += 301
    await guard.authenticate(bearer(token()), POD)
    assert len(reviewer.asked) == 2


async def test_the_same_token_asked_about_twice_at_once_is_one_question(
    guard: Authenticator, reviewer: Reviewer
) -> None:
    await asyncio.gather(*(guard.authenticate(bearer(token()), POD) for _ in range(10)))
    assert len(reviewer.asked) == 1


async def test_a_remembered_token_of_a_pod_that_is_gone_is_refused_at_once(
    guard: Authenticator, directory: Directory
) -> None:
    await guard.authenticate(bearer(token()), POD)
    directory.runs[JOB] = CurrentRun(3, frozenset({"next"}), ALLOCATION, stopping=False)
    assert (await refusal(guard, bearer(token()))).code == "NotCurrentRun"


async def test_what_is_remembered_never_outlives_the_token(guard: Authenticator, clock: Clock) -> None:
    short = bearer(token(expires=clock.now + 60))
    await guard.authenticate(short, POD)
    clock.now += 61
    assert "expired" in (await refusal(guard, short)).message


async def test_a_refusal_is_remembered_for_seconds_only(guard: Authenticator, reviewer: Reviewer, clock: Clock) -> None:
    reviewer.revoked.add(token())
    for _ in range(3):
        await refusal(guard, bearer(token()))
    assert len(reviewer.asked) == 1
    reviewer.revoked.clear()
    clock.now += 11
    await guard.authenticate(bearer(token()), POD)


async def test_the_number_of_remembered_pods_is_bounded_and_the_longest_unused_goes_first(
    reviewer: Reviewer, directory: Directory, clock: Clock
) -> None:
    guard = authenticator(reviewer, directory, clock, cache_size=2)
    directory.runs[JOB] = CurrentRun(2, frozenset("abc"), ALLOCATION, stopping=False)
    first, second, third = (bearer(token(pod_uid=pod)) for pod in "abc")
    for header in (first, second, first, third, first):
        await guard.authenticate(header, POD)
    assert len(reviewer.asked) == 3
    await guard.authenticate(second, POD)
    assert len(reviewer.asked) == 4


def forged(number: int, pod_uid: str = POD_UID) -> str:
    """A token without a valid signature that names the job and a live pod, each time another."""
    return token(salt=f"forged {number}", pod_uid=pod_uid)


async def test_forged_tokens_are_asked_about_rarely_and_honest_ones_go_on(
    guard: Authenticator, reviewer: Reviewer, directory: Directory, clock: Clock
) -> None:
    """From the pod's own address, too: a token that was accepted is asked about again whatever comes from there."""
    reviewer.revoked.update(forged(number) for number in range(5_000))
    await guard.authenticate(bearer(token()), POD)
    codes = {(await refusal(guard, bearer(forged(number)), POD)).code for number in range(5_000)}
    assert codes == {"Unauthenticated", "TooManyTokens"}
    assert len(reviewer.asked) < 10
    await guard.authenticate(bearer(token()), POD)
    assert reviewer.asked.count(token()) == 1, "it was remembered"
    clock.now += 301
    for number in range(5_000):
        await refusal(guard, bearer(forged(number)), POD)
    await guard.authenticate(bearer(token()), POD)
    assert len(reviewer.asked) < 20


async def test_forged_tokens_of_one_address_keep_no_pod_from_bringing_a_new_one(
    guard: Authenticator, reviewer: Reviewer, directory: Directory
) -> None:
    reviewer.revoked.update(forged(number) for number in range(1_000))
    waits = [(await refusal(guard, bearer(forged(number)), OTHER)).retry_after for number in range(1_000)]
    assert waits[-1] == 5
    await guard.authenticate(bearer(token(salt="the first of this pod")), POD)


async def test_a_token_that_was_accepted_once_and_is_revoked_is_asked_about_rarely_too(
    guard: Authenticator, reviewer: Reviewer, clock: Clock
) -> None:
    await guard.authenticate(bearer(token()), POD)
    clock.now += 301
    reviewer.revoked.add(token())
    for _ in range(100):
        await refusal(guard, bearer(token()), POD)
    assert len(reviewer.asked) == 2


async def test_an_address_that_names_many_pods_is_bounded_too(
    reviewer: Reviewer, directory: Directory, clock: Clock
) -> None:
    guard = authenticator(reviewer, directory, clock, cache_size=2)
    pods = [f"pod-{number}" for number in range(500)]
    directory.runs[JOB] = CurrentRun(2, frozenset(pods), ALLOCATION, stopping=False)
    tokens = [forged(number, pod) for number, pod in enumerate(pods)]
    reviewer.revoked.update(tokens)
    for each in tokens:
        await refusal(guard, bearer(each), OTHER)
    assert len(reviewer.asked) == 100


async def test_an_unreachable_api_server_is_503_and_asked_again_at_the_next_call(
    guard: Authenticator, reviewer: Reviewer
) -> None:
    reviewer.down = True
    refused = await refusal(guard, bearer(token()))
    assert (refused.status, refused.retry_after) == (503, 5)
    reviewer.down = False
    await guard.authenticate(bearer(token()), POD)


async def test_no_token_ever_reaches_the_log_or_a_message(
    guard: Authenticator, reviewer: Reviewer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    reviewer.down = True
    messages = [(await refusal(guard, bearer(token()))).message]
    reviewer.down = False
    reviewer.revoked.add(token())
    messages.append((await refusal(guard, bearer(token()))).message)
    assert token().split(".")[1] not in "".join([*messages, caplog.text])


async def test_an_unknown_job_is_named_in_the_refusal(guard: Authenticator) -> None:
    assert JobId("missing") in (await refusal(guard, bearer(token(job="missing")))).message
