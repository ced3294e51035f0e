"""What a cloud says of a whole call counts for each order of it, and is seen in the next survey."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.controller.execute import CloudWriter
from charterer.controller.surveys import SurveyPace, Surveys
from charterer.domain.order import Ask, Order, RefusalKind, Reply
from charterer.domain.pool import Pool
from charterer.domain.steps import AskCloud, Cool
from charterer.lifecycle import next_steps
from charterer.lifecycle.pool import order_token
from charterer.providers.accounts import Accounts
from charterer.providers.errors import (
    CloudOutcomeUnknown,
    CloudUnauthorized,
    CloudUnreachable,
    InvalidRequest,
    NotFoundInCloud,
    ProviderError,
    Throttled,
    UnknownCode,
)
from tests import factory as make
from tests.unit.providers.slow_cloud import NAMED, SlowCloud
from tests.virtual_time import run_in_virtual_time

POOL = make.pool()
RENTAL = make.rental("a100-1")
ASK = Ask((Order(order_token(RENTAL.uid), RENTAL.id),), 1)
SAID = (make.POOL, "ec2:CreateFleet", "SomeCode", "no launch template gpu")


class RefusingCloud(SlowCloud):
    """A cloud that answers each ask with an error."""

    def __init__(self, error: ProviderError) -> None:
        super().__init__()
        self.refusal = error
        self.surveys = {make.POOL: replace(make.survey(traits=NAMED), target=None)}

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        raise self.refusal


async def steps_after(error: ProviderError) -> list[object]:
    """The pool's next step once the ask has failed."""
    surveys = Surveys(
        Accounts({}, adapter=lambda pool, environ: RefusingCloud(error)),
        lambda: {POOL.id: POOL},
        lambda: frozenset({POOL.id}),
        lambda: None,
        SurveyPace(),
    )
    writer = CloudWriter(Accounts({}, adapter=lambda pool, environ: RefusingCloud(error)), surveys)
    with pytest.raises(type(error)):
        await writer.ask(POOL, ASK)
    snapshot = replace(make.snapshot(POOL, RENTAL), surveys={POOL.id: surveys.latest[POOL.id]})
    steps, _ = next_steps(snapshot)
    return [step for step in steps.values() if isinstance(step, Cool | AskCloud)]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidRequest(*SAID), RefusalKind.INVALID_REQUEST),
        (NotFoundInCloud(*SAID), RefusalKind.INVALID_REQUEST),
        (CloudUnauthorized(*SAID), RefusalKind.UNAUTHORIZED),
        (UnknownCode(*SAID), RefusalKind.UNKNOWN_CODE),
    ],
)
def test_a_pool_whose_cloud_refuses_the_whole_call_cools_down_so_that_jobs_use_another(
    error: ProviderError, kind: RefusalKind
) -> None:
    async def main() -> None:
        [cool] = await steps_after(error)
        assert isinstance(cool, Cool)
        cooled = cool.cool_down
        assert (cooled.kind, cooled.code, cooled.message) == (kind, "SomeCode", "no launch template gpu")

    run_in_virtual_time(main())


@pytest.mark.parametrize("error", [CloudUnreachable(*SAID), CloudOutcomeUnknown(*SAID), Throttled(*SAID, 5.0)])
def test_a_call_that_was_not_refused_is_made_again(error: ProviderError) -> None:
    async def main() -> None:
        [ask] = await steps_after(error)
        assert isinstance(ask, AskCloud)

    run_in_virtual_time(main())
