"""Whether an operator leads is judged from its Lease, whatever the clocks of two machines say."""

from __future__ import annotations

from typing import Any

import pytest
from click import ClickException

from charterer.api.manifests import to_annotations
from charterer.cluster.client import Listing
from charterer.cluster.errors import Forbidden
from charterer.domain.money import Price
from charterer.domain.snapshot import NO_LIMITS, OperatorLimits
from charterer.domain.time import after, format_instant
from charterer.tools.commands.shared.leader import LeaderSeen, as_operated, find_leader, leader_if_known
from tests.unit.controller.snapshot.test_offers import STATE
from tests.worlds import MID_MONTH


def lease(
    age: float, version: str = "1", holder: str = "charterer-0_1f2e3d4c", namespace: str = "operators"
) -> dict[str, Any]:
    return {
        "metadata": {"namespace": namespace, "resourceVersion": version},
        "spec": {"holderIdentity": holder, "renewTime": format_instant(after(MID_MONTH, -age))},
    }


class Leases:
    """An API server that gives one list of Leases after the other."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.slept: list[float] = []

    async def list(self, path: str, *, fields: str) -> Listing:
        assert (path, fields) == ("/apis/coordination.k8s.io/v1/leases", "metadata.name=charterer")
        return Listing(tuple(self.answers.pop(0)), 1)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def leader(self) -> LeaderSeen:
        client: Any = self
        return await find_leader(client, lambda: MID_MONTH, self.sleep)


async def test_who_renewed_the_lease_lately_leads() -> None:
    leases = Leases([lease(5)])
    assert await leases.leader() == LeaderSeen("charterer-0", "operators")
    assert leases.slept == []


async def test_nobody_leads_where_the_lease_is_old_and_stays_as_it_is() -> None:
    for age in (40, 11):  # an operator stops by itself when it could not renew its Lease for 10 s
        leader = await Leases([lease(age)], [lease(age)]).leader()
        assert leader.trouble == f"the operator's Lease in namespace operators is {age} s old: nobody acts on this"


async def test_a_leader_whose_clock_is_wrong_leads() -> None:
    for age in (400, -400):
        assert not (await Leases([lease(age)], [lease(age - 5, version="2")]).leader()).trouble


async def test_a_dead_leader_whose_clock_was_ahead_does_not_lead() -> None:
    leader = await Leases([lease(-400)], [lease(-400)]).leader()
    assert leader.trouble.endswith("was not renewed for 7 s: nobody acts on this")


async def test_a_lease_that_was_given_up_or_never_was_names_nobody() -> None:
    assert "was given up" in (await Leases([lease(5, holder="")]).leader()).trouble
    assert "no operator has ever run here" in (await Leases([]).leader()).trouble


async def test_of_two_leases_the_one_renewed_last_counts() -> None:
    leader = await Leases([lease(9_000, namespace="former"), lease(2)]).leader()
    assert leader == LeaderSeen("charterer-0", "operators")


def limited(**annotations: str) -> dict[str, Any]:
    written = lease(5)
    written["metadata"]["annotations"] = {
        f"charterer.dev/{name.replace('_', '-')}": text for name, text in annotations.items()
    }
    return written


async def test_the_operators_own_limits_are_read_and_count_in_what_is_planned() -> None:
    leader = await Leases([limited(max_nodes="4", max_dollars_per_hour="99.50")]).leader()
    assert leader.limits == OperatorLimits(4, Price.parse("99.50"))
    assert as_operated(STATE, leader).limits == leader.limits
    assert (await Leases([limited()]).leader()).limits == NO_LIMITS
    assert as_operated(STATE, None) is STATE


async def test_the_kinds_that_the_operator_does_not_adopt_are_read_from_what_it_writes() -> None:
    written = to_annotations(NO_LIMITS, frozenset({"RayJob", "Job"}))
    leases = Leases([{**lease(5), "metadata": {**lease(5)["metadata"], "annotations": dict(written)}}])
    leader = await leases.leader()
    assert leader.not_adopted == {"Job", "RayJob"}
    assert as_operated(STATE, leader).not_adopted == leader.not_adopted
    assert to_annotations(NO_LIMITS, frozenset()) == {}


async def test_limits_that_no_operator_wrote_are_named_with_what_to_do() -> None:
    for wrong in ({"max_nodes": "-1"}, {"max_nodes": "9" * 99}, {"max_nodes": "٣"}, {"max_dollars_per_hour": "many"}):
        with pytest.raises(ClickException) as raised:
            await Leases([limited(**wrong)]).leader()
        (text,) = wrong.values()
        said = raised.value.message
        assert said.startswith("the operator's Lease in namespace operators: annotation charterer.dev/max-")
        assert repr(text) in said
        assert "remove it" in said


async def test_nothing_is_said_where_the_lease_may_not_be_read() -> None:
    class Closed:
        async def list(self, path: str, *, fields: str) -> Listing:
            raise Forbidden("GET", path, 403, "Forbidden", "no")

    client: Any = Closed()
    assert await leader_if_known(client, lambda: MID_MONTH) == LeaderSeen()


async def test_a_lease_without_a_spec_is_that_of_nobody() -> None:
    empty = {"metadata": {"namespace": "elsewhere", "resourceVersion": "1"}}
    assert (await Leases([empty, lease(2)]).leader()).holder == "charterer-0"
    assert "was given up" in (await Leases([empty]).leader()).trouble
