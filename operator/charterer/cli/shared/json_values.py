"""Values as JSON and YAML show them: dollars as decimal strings, like those of the API."""

from __future__ import annotations

from charterer.cli.shared.output import JsonValue
from charterer.domain.ids import PoolId, Rate
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.time import format_instant
from charterer.policy.nodes.pool_quota import LaunchWait


def option_json(option: Option) -> dict[str, JsonValue]:
    """An option by its pool, width, slice, variant and price."""
    return {
        "pool": option.pool,
        "gpus": option.gpus,
        "slice": option.slice,
        "variant": option.variant,
        "hourly": option.price.decimal(),
    }


def dollars_json(amount: float) -> str:
    """Dollars as a decimal string, to the cent."""
    return Money(round(amount * 100) * 10_000).decimal()


def rate_json(rate: Rate | None) -> str | None:
    """An exchange rate in dollars per job-hour saved; null where there is none."""
    return None if rate is None else dollars_json(rate * 3600)


def late_pool_json(name: PoolId, wait: LaunchWait) -> JsonValue:
    """A pool whose next node is expected late, and why.

    ``refusedPool`` and what follows it: of the last refusal, in doubt since then; of another pool of its account, or of
    itself.
    """
    expected, probation = wait.expected, wait.probation
    said: dict[str, JsonValue] = {
        "name": name,
        "expectedSeconds": round(expected.seconds),
        "lowSeconds": round(expected.low),
        "highSeconds": round(expected.high),
        "basis": "measured" if expected.measured else "assumed",
    }
    if probation is None:
        return said
    return said | {
        "refusedPool": probation.by or name,
        "refusedAt": format_instant(probation.since),
        "timesInARow": probation.times,
        "askedAgainAt": format_instant(probation.until),
        "kind": str(probation.kind),
        "code": probation.code,
    }
