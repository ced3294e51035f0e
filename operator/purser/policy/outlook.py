"""The forecast of one budget, from what the planner gives its groups of jobs and from what it remembers of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from purser.domain.budget import Balance
from purser.domain.time import Instant
from purser.policy.allowance import Account
from purser.policy.exchange_rate import Demand
from purser.policy.kappa import Reckoning
from purser.policy.load import HISTORY_WINDOW_SECONDS, GroupKey
from purser.policy.promise import Bounds, Forecast, Stream, forecast, remembered

if TYPE_CHECKING:
    from purser.policy.standing import Share


def look(
    money: Account,
    shares: Mapping[GroupKey, Share],
    demands: Sequence[Demand],
    reckoning: Reckoning,
    balance: Balance | None,
    now: Instant,
) -> Forecast:
    """The forecast at what the groups are given.

    Jobs in sight without counted arrivals say nothing of those to come: for them what is remembered of their class
    stands, as for classes of which no job is in sight. Those may take whatever the plan gives them.
    """
    counted = {key: share for key, share in shares.items() if share.group.arrivals is not None}
    streams = [_stream(key, share, reckoning) for key, share in counted.items()]
    seen = {key[0] for key in counted}
    absent = [
        remembered(known, reckoning.of(class_id).squared_cv, reckoning.overhead, now)
        for class_id, known in (() if balance is None else balance.experience.items())
        if class_id not in seen
    ]
    most = sum(demand.load * demand.spends[-1] for demand in demands)
    return forecast(
        money, [*streams, *absent], Bounds(inf if any(one.spends for one in absent) else most), reckoning.spread
    )


def look_at_fixed(money: Account, shares: Mapping[GroupKey, Share], reckoning: Reckoning) -> Forecast:
    """The forecast at an exchange rate that is kept whatever is spent."""
    streams = [_stream(key, share, reckoning) for key, share in shares.items()]
    rate = sum(stream.spends for stream in streams)
    return forecast(money, streams, Bounds(rate, rate), reckoning.spread)


def _stream(key: GroupKey, share: Share, reckoning: Reckoning) -> Stream:
    """λ counts for as many jobs as a week of it brings."""
    known = reckoning.of(key[0])
    return Stream(
        arrivals=share.arrivals,
        dollars=share.dollars * reckoning.factor(key[0]),
        seconds=share.seconds * known.value,
        squared_cv=known.squared_cv,
        counted=share.arrivals * HISTORY_WINDOW_SECONDS,
        kappa_error=known.error,
    )
