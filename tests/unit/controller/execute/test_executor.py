"""What a handler meets becomes the outcome of its command or step."""

from __future__ import annotations

from typing import cast

import pytest

from charterer.cluster.errors import Conflict, Fenced, Withheld
from charterer.controller.execute import ClusterExecutor, ExecutionContext, Stale
from charterer.controller.execute import executor as executing
from charterer.controller.outcome import ActionOutcome
from charterer.domain.ids import RentalId
from charterer.domain.steps import Forget
from charterer.providers.errors import CloudCallWithheld
from tests.factory import POOL


@pytest.mark.parametrize(
    ("met", "outcome"),
    [
        (Stale(), ActionOutcome.STALE),
        (Conflict("PATCH", "/x", 409, "Conflict", "changed"), ActionOutcome.STALE),
        (Withheld("PATCH", "/x", 0, "DryRun", "not sent"), ActionOutcome.WITHHELD),
        (CloudCallWithheld(POOL, "ask", "DryRun", "not sent"), ActionOutcome.WITHHELD),
    ],
)
async def test_what_is_stale_or_withheld_is_an_outcome_and_no_error(
    met: Exception, outcome: ActionOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handler(context: ExecutionContext, action: object) -> ActionOutcome:
        raise met

    monkeypatch.setattr(executing, "HANDLERS", {Forget: handler})
    executor = ClusterExecutor(cast(ExecutionContext, None))
    assert await executor.execute(Forget(RentalId("a100-1"))) is outcome


async def test_any_other_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(context: ExecutionContext, action: object) -> ActionOutcome:
        raise Fenced("PATCH", "/x", 0, "NotLeading", "not sent")

    monkeypatch.setattr(executing, "HANDLERS", {Forget: handler})
    with pytest.raises(Fenced):
        await ClusterExecutor(cast(ExecutionContext, None)).execute(Forget(RentalId("a100-1")))
