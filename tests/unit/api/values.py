"""Domain values for tests of the API layer, and raw objects as an API server sends them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from charterer.domain.budget import Balance, Cause, ClassHistory, Costs, DayCosts, JobTime, PastPeriod
from charterer.domain.cost_row import Payer, RecordedCost, Spell, Use
from charterer.domain.ids import NO_PROFILE, ClassId, InstanceId, NodeName, PoolId, RentalId
from charterer.domain.job import Allocation, Finish, FinishKind, Placement, RunOutcome, RunRecord
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.order import KEPT, CoolDown, RefusalKind, Scope
from charterer.domain.pool import BAND_ENDS, NOTHING_COUNTED, NodeLifetimes, Offering, PriceSegment, Quote
from charterer.domain.rental import RentalPhase
from charterer.domain.reports import Progress
from charterer.domain.time import Instant

Json = dict[str, Any]

UID = "0a1b2c3d-1111-2222-3333-444455556666"
CREATED = "2026-01-31T12:00:00Z"


def raw(kind: str, spec: Json, name: str = "sft", generation: int = 3, status: Json | None = None, **meta: Any) -> Json:
    """An object of one of our kinds as the API server would send it."""
    return {
        "apiVersion": "charterer.dev/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "research",
            "uid": UID,
            "resourceVersion": "41",
            "generation": generation,
            "creationTimestamp": CREATED,
            "managedFields": [{"manager": "kubectl"}],
            **meta,
        },
        "spec": spec,
        **({} if status is None else {"status": status}),
    }


def raw_job(status: Json | None = None, containers: list[Json] | None = None, **spec: Any) -> Json:
    """A TrainingJob that asks for 1 to 8 GPUs unless told otherwise."""
    template = {"spec": {"containers": containers or [{"name": "trainer", "image": "acme/sft:1"}]}}
    whole = {"gpus": {"min": 1, "max": 8}, "template": template, **spec}
    return raw("TrainingJob", {key: value for key, value in whole.items() if value is not None}, status=status)


def raw_budget(status: Json | None = None, **spec: Any) -> Json:
    return raw("GPUBudget", {"amount": "60000", "namespaceSelector": {}, **spec}, status=status)


def raw_pool(status: Json | None = None, **spec: Any) -> Json:
    fake = {"endpoint": "http://127.0.0.1:1", "group": "a100"}
    return raw("GPUPool", {"fake": fake, "maxNodes": 6, **spec}, status=status)


def raw_rental(status: Json | None = None, **spec: Any) -> Json:
    cloud = {"fake": {"endpoint": "http://127.0.0.1:1", "group": "a100"}}
    whole = {"pool": "a100", **cloud, "budget": "team", "reserved": "12.00", "worstHourly": "6.00", **spec}
    return raw("GPURental", whole, status=status)


def option(gpus: int = 8) -> Option:
    return Option(pool=PoolId("a100"), gpus=gpus, speed=1.0, price=Price(24_000_000))


def allocation(run: int = 2, pods: int = 2, gpus_per_pod: int = 4) -> Allocation:
    """On rentals a100-0, a100-1, …"""
    placements = tuple(Placement(RentalId(f"a100-{place}"), gpus_per_pod) for place in range(pods))
    return Allocation(run, option(pods * gpus_per_pod), placements, Instant(1_769_860_800_000_000))


# --- strategies: whatever may stand in a status -----------------------------------------------------------------------

names = st.from_regex(r"[a-z][a-z0-9-]{0,20}[a-z0-9]", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=60)
instants = st.integers(0, 4_102_444_800_000_000).map(Instant)
amounts = st.integers(0, 10**18 - 1).map(Money)
prices = st.integers(0, 10**18 - 1).map(Price)
counts = st.integers(0, 100_000)
numbers = st.floats(0, 1e12, allow_nan=False)

options = st.builds(
    Option,
    pool=names.map(PoolId),
    gpus=st.integers(1, 100_000),
    speed=st.floats(1e-30, 9e18),
    price=prices,
    entry_seconds=numbers,
    entry_cost=amounts,
    resource=texts,
)
placements = st.lists(
    st.builds(Placement, rental=names.map(RentalId), gpus=st.integers(1, 100_000)), min_size=1, max_size=4
).map(tuple)
allocations = st.builds(Allocation, run=counts, option=options, placements=placements, since=instants)
run_records = st.builds(
    RunRecord,
    number=counts,
    outcome=st.sampled_from(RunOutcome),
    option=options,
    placements=placements,
    since=instants,
    until=instants,
    message=texts,
)
progresses = st.builds(
    Progress,
    run=counts,
    fraction=st.none() | st.floats(0, 1),
    step=st.none() | counts,
    throughput=st.none() | numbers,
    at=instants,
    reached=st.none() | st.floats(0, 1),
    reached_step=st.none() | counts,
)
finishes = st.builds(Finish, kind=st.sampled_from(FinishKind), at=instants, reason=names, message=texts)
records_of_a_job = st.fixed_dictionaries(
    {
        "allocation": st.none() | allocations,
        "replaced": st.lists(allocations, max_size=3).map(tuple),
        "last_run": counts,
        "records": st.lists(run_records, max_size=4).map(tuple),
        "failures": counts,
        "restarts": counts,
        "finish": st.none() | finishes,
        "invalid": texts,
        "progress": st.none() | progresses,
        "predicted": st.none() | amounts,
        "predicted_end": st.none() | instants,
    }
)
experiences = st.builds(
    ClassHistory,
    jobs=numbers,
    predicted=numbers,
    actual=numbers,
    squares=numbers,
    since=instants,
    at=instants,
    arrivals=numbers,
    recent_arrivals=numbers,
    complete=numbers,
    cost_logs=st.floats(-1e6, 1e6),
    cost_log_squares=numbers,
    life_logs=st.floats(-1e6, 1e6),
    life_log_squares=numbers,
)
_of_namespaces = st.dictionaries(
    names, st.tuples(amounts, st.dictionaries(st.sampled_from(JobTime), amounts, max_size=3)), max_size=3
)
"""The dollars of namespaces, and what is known of them."""
_Namespaces = Mapping[str, tuple[Money, Mapping[JobTime, Money]]]


def _known(namespaces: _Namespaces) -> tuple[dict[str, Money], dict[tuple[str, JobTime], Money]]:
    known = {(name, kind): part for name, (_, parts) in namespaces.items() for kind, part in parts.items()}
    return {name: amount for name, (amount, _) in namespaces.items()}, known


def _costs(
    by_pool: Mapping[tuple[PoolId, Cause], Money],
    namespaces: _Namespaces,
    through: Instant,
    lifetime: Money,
    days: list[DayCosts],
) -> Costs:
    by_namespace, went_to = _known(namespaces)
    return Costs(by_pool, by_namespace, through, lifetime, days=tuple(days), went_to=went_to)


past_periods = st.builds(PastPeriod, start=instants, spent=amounts, aim=st.none() | amounts)
balances = st.builds(
    Balance,
    period_start=instants,
    settled=amounts,
    lifetime=amounts,
    folded=st.frozensets(names, max_size=5),
    history=st.lists(past_periods, max_size=5).map(tuple),
    carried=st.integers(-(10**18) + 1, 10**18 - 1).map(Money),
    class_history=st.dictionaries(st.builds(ClassId, names, names) | st.just(NO_PROFILE), experiences, max_size=4),
    jobs_cost=amounts,
    counted=st.dictionaries(names, instants, max_size=4),
    counted_through=st.none() | instants,
    costs=st.just(Costs())
    | st.builds(
        _costs,
        st.dictionaries(st.tuples(names.map(PoolId), st.sampled_from(Cause)), amounts, max_size=5),
        _of_namespaces,
        through=instants,
        lifetime=amounts,
        days=st.lists(
            st.builds(
                DayCosts,
                instants,
                st.dictionaries(st.sampled_from(Cause), amounts),
                st.dictionaries(names, amounts),
                st.dictionaries(st.sampled_from(JobTime), amounts, max_size=3),
            ),
            max_size=2,
        ),
    ),
)
_payers = st.builds(
    Payer, names, names, names, st.integers(0, 99), names, names, st.dictionaries(names, names, max_size=2)
)
_parts = st.dictionaries(st.sampled_from(JobTime), st.integers(1, 300), max_size=3).map(
    lambda parts: tuple((kind, parts[kind]) for kind in JobTime if kind in parts)
)
_spells = st.lists(st.builds(Spell, instants, _parts), max_size=3).map(tuple)
_uses = st.builds(Use, _payers, st.integers(1, 999), instants, st.none() | instants, _spells)
segments = st.builds(PriceSegment, since=instants, price=st.integers(0, 10**13 - 1).map(Price))
records_of_a_rental = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(RentalPhase),
        "instance": st.none() | names.map(InstanceId),
        "provider_id": texts,
        "node": st.none() | names.map(NodeName),
        "launched": st.none() | instants,
        "ready": st.none() | instants,
        "ended": st.none() | instants,
        "segments": st.lists(segments, max_size=4).map(tuple),
        "billing_minimum_seconds": counts,
        "cost": st.none() | amounts,
        "released_because": texts,
        "uses": st.lists(_uses, max_size=3).map(tuple),
        "uses_since": st.none() | instants,
        "recorded": st.none() | st.builds(RecordedCost, instants, amounts, st.integers(1, 99)),
    }
)
offerings = st.builds(Offering, gpu_type=texts, gpus_per_node=counts, instance_type=texts, zone=texts)
quotes = st.builds(Quote, price=prices, worst=prices, billing_minimum_seconds=counts, source=texts, as_of=instants)
cool_downs = st.builds(
    CoolDown,
    kind=st.sampled_from(RefusalKind),
    scope=st.sampled_from(Scope),
    where=texts,
    code=texts,
    message=texts,
    since=instants,
    until=instants,
    times=st.integers(1, 99),
)
_by_band = st.tuples(*[st.floats(0, 1e6)] * len(BAND_ENDS))
lifetimes = st.builds(
    NodeLifetimes,
    deaths=_by_band,
    hours=_by_band,
    events=st.floats(0, 1e6),
    shared=st.floats(0, 1e6),
    joint=st.floats(0, 1e6),
    announced=st.floats(0, 1e6),
    at=instants,
    recent=st.lists(instants, max_size=3).map(tuple),
    counted=st.lists(st.text("abc-0123", min_size=1), max_size=3).map(tuple),
)
records_of_a_pool = st.fixed_dictionaries(
    {
        "offering": st.none() | offerings,
        "quote": st.none() | quotes,
        "cooled": st.lists(cool_downs, max_size=KEPT).map(tuple),
        "lifetimes": st.just(NOTHING_COUNTED) | lifetimes,
    }
)
