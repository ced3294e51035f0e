"""Values as JSON and YAML show them: dollars as decimal strings, like those of the API."""

from __future__ import annotations

from charterer.cli.shared.output import JsonValue
from charterer.domain.ids import PoolId, Rate
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.order import CoolDown
from charterer.domain.time import format_instant


def option_json(option: Option) -> dict[str, JsonValue]:
    """An option by its pool, width and price."""
    return {"pool": option.pool, "gpus": option.gpus, "hourly": option.price.decimal()}


def dollars_json(amount: float) -> str:
    """Dollars as a decimal string, to the cent."""
    return Money(round(amount * 100) * 10_000).decimal()


def rate_json(rate: Rate | None) -> str | None:
    """An exchange rate in dollars per job-hour saved; null where there is none."""
    return None if rate is None else dollars_json(rate * 3600)


def late_pool_json(name: PoolId, doubt: CoolDown) -> JsonValue:
    """A pool whose next node is expected late, and why; ``refusedPool`` is another one of its account, or itself."""
    return {
        "name": name,
        "expectedSeconds": doubt.seconds,
        "refusedPool": doubt.by or name,
        "refusedAt": format_instant(doubt.since),
        "timesInARow": doubt.times,
        "askedAgainAt": format_instant(doubt.until),
        "kind": str(doubt.kind),
        "code": doubt.code,
    }
