"""A cloud refuses a whole call: each order of it counts as refused, and the next survey shows that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from charterer.controller.execute import CloudWriter
from charterer.controller.surveys import SurveyPace, Surveys
from charterer.domain.ids import PoolId
from charterer.domain.order import Ask, Order, RefusalKind, Reply
from charterer.domain.pool import Pool, Survey
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
from charterer.providers.provider import NONE_KNOWN, KnownMachines
from tests import factory as make
from tests.unit.providers.slow_cloud import NAMED, SlowCloud
from tests.virtual_time import run_in_virtual_time

POOL = make.pool()
RENTAL = make.rental("a100-1")
ASK = Ask((Order(order_token(RENTAL.uid), RENTAL.id),), 1)
SAID = (make.POOL, "ec2:CreateFleet", "SomeCode", "no launch template gpu")


class RefusingCloud(SlowCloud):
    """A cloud that answers each ask with an error. ``silent``: and each survey, but the first."""

    def __init__(self, error: ProviderError, *, silent: bool = False) -> None:
        super().__init__()
        self.silent = silent
        self.refusal = error
        self.surveys = {make.POOL: replace(make.survey(traits=NAMED), target=None)}

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        if self.silent and "survey" in self.sent:
            raise self.refusal
        return await super().survey(pools)

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        raise self.refusal


async def steps_after(cloud: RefusingCloud) -> list[object]:
    """The pool's next step once the ask has failed."""
    accounts = Accounts({}, adapter=lambda pool, environ: cloud)
    surveys = Surveys(
        accounts,
        lambda: {POOL.id: POOL},
        lambda: frozenset({POOL.id}),
        lambda: NONE_KNOWN,
        lambda: None,
        SurveyPace(),
    )
    await surveys.refresh(POOL.id)
    with pytest.raises(type(cloud.refusal)):
        await CloudWriter(accounts, surveys).ask(POOL, ASK)
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
        [cool] = await steps_after(RefusingCloud(error))
        assert isinstance(cool, Cool)
        cooled = cool.cool_down
        assert (cooled.kind, cooled.code, cooled.message) == (kind, "SomeCode", "no launch template gpu")

    run_in_virtual_time(main())


@pytest.mark.parametrize("error", [CloudUnreachable(*SAID), CloudOutcomeUnknown(*SAID), Throttled(*SAID, 5.0)])
def test_a_call_that_was_not_refused_is_made_again(error: ProviderError) -> None:
    async def main() -> None:
        [ask] = await steps_after(RefusingCloud(error))
        assert isinstance(ask, AskCloud)

    run_in_virtual_time(main())


def test_credentials_with_which_the_pool_cannot_even_be_looked_at_say_nothing_of_it() -> None:
    async def main() -> None:
        [ask] = await steps_after(RefusingCloud(CloudUnauthorized(*SAID), silent=True))
        assert isinstance(ask, AskCloud)

    run_in_virtual_time(main())
