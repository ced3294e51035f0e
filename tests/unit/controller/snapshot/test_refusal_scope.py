"""A refusal concerns every pool of the account that would ask for what was refused, and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.clouds.fake import FakeGroup
from charterer.clouds.karpenter import NodeClaims
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.observe import observe
from charterer.controller.snapshot.pools import with_refusals_in_scope
from charterer.domain.ids import OrderToken, PoolId
from charterer.domain.order import CoolDown, RefusalKind, Scope, cool_down
from charterer.domain.pool import CapacityType, Offering, Pool
from charterer.domain.rental import Rental
from charterer.providers.aws.calls import refusal
from charterer.providers.codes import LaunchError
from charterer.providers.karpenter.provider import About, of_event
from tests import factory as make
from tests.unit.controller.snapshot.test_offers import STATE

EAST = "us-east-1"
FLEET = AwsFleet(EAST, "gpu", "$Default", ("subnet-a",), ("p4d.24xlarge",))
CLAIMS = NodeClaims("karpenter.k8s.aws", "EC2NodeClass", "gpu", "p4d.24xlarge", "us-east-1a")


def aws(name: str, types: str = "p4d.24xlarge", zones: str = "us-east-1a", gpus: int = 8, **changes: Any) -> Pool:
    """A pool of AWS with one way to launch a node for each type and zone."""
    offering = Offering("NVIDIA-A100-SXM4-40GB", gpus, types, zones)
    return make.pool(**{"id": PoolId(name), "cloud": FLEET, "offering": offering} | changes)


def refused(pool: Pool, code: str, type_name: str = "p4d.24xlarge", zone: str = "us-east-1a", **changes: Any) -> Pool:
    """The pool as it cools after AWS refused it this type in this zone."""
    error = LaunchError(code, "m", type_name, zone, "subnet-a")
    told = refusal(pool.id, [error], EAST, pool.capacity_type, make.at(0), OrderToken("c1"))
    return replace(pool, cooled=(replace(cool_down((), told, 60.0, make.at(0), None), **changes),))


def reached(*pools: Pool, rentals: tuple[Rental, ...] = ()) -> dict[str, str]:
    """The pools that cool because of another one, and which that is."""
    found = with_refusals_in_scope({pool.id: pool for pool in pools}, rentals)
    assert list(found) == [pool.id for pool in pools]
    return {name: str(pool.reached.by) for name, pool in found.items() if pool.reached is not None}


def launched(pool: Pool, seconds: float) -> Rental:
    return make.rental(pool=pool.id, launched=make.at(seconds))


STOCK_OUT = refused(aws("a"), "InsufficientInstanceCapacity")


class TestWhomItReaches:
    def test_a_stock_out_of_a_zone_reaches_the_pools_of_the_same_type_there(self) -> None:
        group = aws("group", cloud=AwsGroup(EAST, "asg"))
        others = (
            aws("other-zone", zones="us-east-1b"),
            aws("other-type", "p5.48xlarge"),
            aws("spot", capacity_type=CapacityType.SPOT),
            aws("other-role", cloud=replace(FLEET, assume_role="arn:aws:iam::1:role/x")),
            aws("reserved", cloud=replace(FLEET, capacity_reservation="cr-1")),
            aws("unknown", offering=None),
            make.pool(id=PoolId("fake"), offering=aws("x").offering),
        )
        assert reached(STOCK_OUT, aws("b"), group, *others) == {"b": "a", "group": "a"}

    @pytest.mark.parametrize(
        ("types", "zones"), [("p4d.24xlarge", "us-east-1a,us-east-1b"), ("p4d.24xlarge,p4de.24xlarge", "us-east-1a")]
    )
    def test_a_pool_with_a_zone_or_a_type_left_is_still_offered(self, types: str, zones: str) -> None:
        assert reached(STOCK_OUT, aws("wide", types, zones)) == {}

    def test_a_pool_with_nothing_left_cools_until_the_first_of_its_places_is_asked_for_again(self) -> None:
        later = make.at(900)
        there = refused(aws("b", zones="us-east-1b"), "InsufficientInstanceCapacity", zone="us-east-1b", until=later)
        pools = [STOCK_OUT, there, aws("wide", zones="us-east-1a,us-east-1b")]
        wide = with_refusals_in_scope({pool.id: pool for pool in pools}, ())[PoolId("wide")]
        assert wide.cool_down == wide.reached == replace(STOCK_OUT.cooled[0], by=PoolId("a"))

    @pytest.mark.parametrize(
        ("code", "reaches"),
        [
            ("VcpuLimitExceeded", {"same-family", "other-family", "other-zone"}),
            ("PendingVerification", {"same-family", "other-family", "other-zone", "other-quota", "smaller"}),
            ("InsufficientFreeAddressesInSubnet", set()),
            ("ReservationCapacityExceeded", set()),
            ("SpotMaxPriceTooLow", set()),
            ("InvalidAMIID.NotFound", set()),
        ],
    )
    def test_each_scope_of_aws_reaches_those_that_share_it(self, code: str, reaches: set[str]) -> None:
        others = (
            aws("same-family", "p4d.48xlarge"),
            aws("other-family", "p5.48xlarge"),
            aws("other-zone", zones="us-east-1b"),
            aws("other-quota", "g5.48xlarge"),
            aws("smaller", "p4d.8xlarge", gpus=4),
        )
        assert set(reached(refused(aws("a"), code), *others)) == reaches

    def test_a_quota_counts_virtual_cpus_so_a_type_with_fewer_of_them_is_still_offered(self) -> None:
        tall = refused(aws("a", "p5.48xlarge"), "VcpuLimitExceeded", "p5.48xlarge")
        others = (aws("equal", "p5e.48xlarge"), aws("half", "p4d.24xlarge"), aws("named-otherwise", "p9.metal"))
        assert set(reached(tall, *others)) == {"equal"}

    def test_spot_has_quotas_of_its_own_one_for_p5_and_one_for_the_older_p(self) -> None:
        types = {"a": "p4d.24xlarge", "p5": "p5.48xlarge", "p4de": "p4de.24xlarge", "p3dn": "p3dn.24xlarge"}
        [first, *others] = [aws(name, kind, capacity_type=CapacityType.SPOT) for name, kind in types.items()]
        told = refused(first, "MaxSpotInstanceCountExceeded")
        assert set(reached(told, *others, aws("on-demand"))) == {"p4de", "p3dn"}

    def test_karpenter_says_of_a_zone_which_machine_was_out_of_stock_there(self) -> None:
        pool = aws("a", cloud=CLAIMS)
        told = of_event("InsufficientInstanceCapacity: none", About(pool, CLAIMS, None, make.at(0)))
        cooling = replace(pool, cooled=(cool_down((), told, 60.0, make.at(0), None),))
        others = (
            aws("same", cloud=CLAIMS),
            aws("other-type", cloud=replace(CLAIMS, instance_type="p5.48xlarge")),
            aws("other-zone", cloud=replace(CLAIMS, zone="us-east-1b")),
            aws("spot", cloud=CLAIMS, capacity_type=CapacityType.SPOT),
            aws("itself"),
        )
        assert reached(cooling, *others) == {"same": "a"}

    def test_a_quota_of_ec2_is_known_through_karpenter_too_and_of_no_other_cloud(self) -> None:
        for kind, reaches in (("p4d.24xlarge", {"p5"}), ("g2-standard-96", set[str]())):
            claims = replace(CLAIMS, instance_type=kind)
            pool = aws("a", kind, cloud=claims)
            told = of_event("VcpuLimitExceeded: limit", About(pool, claims, None, make.at(0)))
            cooling = replace(pool, cooled=(cool_down((), told, 60.0, make.at(0), None),))
            p5 = aws("p5", "p5.48xlarge", cloud=replace(claims, instance_type="p5.48xlarge"))
            g2 = aws("g2", "g2-standard-48", cloud=replace(claims, instance_type="g2-standard-48"))
            assert set(reached(cooling, p5, g2)) == reaches

    def test_a_quota_of_the_fake_cloud_is_that_of_a_gpu_type(self) -> None:
        quota = make.cooled(make.at(60), scope=Scope.FAMILY, where=make.OFFERING.gpu_type)
        other = Offering("NVIDIA-H100-80GB-HBM3", 4, "h.4", "z1")
        pools = (
            make.pool(cooled=quota),
            make.pool(id=PoolId("same")),
            make.pool(id=PoolId("other-type"), offering=other),
            make.pool(id=PoolId("other-account"), cloud=FakeGroup("http://elsewhere", "g")),
        )
        assert reached(*pools) == {"same": "a100"}

    def test_what_is_not_the_refused_pools_own_offer_reaches_none(self) -> None:
        strange = refused(aws("a"), "InsufficientInstanceCapacity", "p5.48xlarge")
        assert reached(strange, aws("b", "p5.48xlarge")) == {}


class TestWhenItIsOver:
    def test_a_node_launched_after_the_refusal_in_a_pool_of_the_same_ends_it_for_others(self) -> None:
        other = aws("b")
        for pool in (STOCK_OUT, other):
            assert reached(STOCK_OUT, other, rentals=(launched(pool, 5),)) == {}
            assert reached(STOCK_OUT, other, rentals=(launched(pool, -5),)) == {"b": "a"}

    def test_a_node_that_may_be_of_another_zone_does_not(self) -> None:
        wide = aws("wide", zones="us-east-1a,us-east-1b")
        assert reached(STOCK_OUT, aws("b"), wide, rentals=(launched(wide, 5),)) == {"b": "a"}

    def test_a_refusal_of_the_other_pool_counts_on(self) -> None:
        told = refusal(PoolId("b"), [_stock_out()], EAST, CapacityType.ON_DEMAND, make.at(60), OrderToken("c2"))
        pools = {pool.id: pool for pool in (STOCK_OUT, aws("b"))}
        known = with_refusals_in_scope(pools, ())[PoolId("b")].cool_downs
        again = cool_down(known, told, 60.0, make.at(60), None)
        assert (again.times, again.by) == (2, None)


def _stock_out() -> LaunchError:
    return LaunchError("InsufficientInstanceCapacity", "m", "p4d.24xlarge", "us-east-1a", "subnet-a")


def test_the_snapshot_has_it_and_nothing_of_it_is_recorded_as_the_pools_own() -> None:
    pools = {ObjectKey("", pool.id): pool for pool in (STOCK_OUT, aws("b"))}
    pool = observe(replace(STATE, pools=pools), make.at(30)).pools[PoolId("b")]
    cooling = pool.cooling(make.at(30))
    assert isinstance(cooling, CoolDown)
    assert (cooling.by, cooling.kind, pool.cooled) == ("a", RefusalKind.STOCK_OUT, ())
    assert pool.cooling(make.at(60)) is None
