"""A pool's wants of its account, in the words in which a refusal says how far it reaches.

An adapter names the place of a refusal with ``Wanted``, so that the other pools are found that would ask for the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias, assert_never

from charterer.domain.order import Scope
from charterer.domain.pool import AwsFleet, AwsGroup, FakeGroup, NodeClaims, Offering, Pool
from charterer.providers.vcpu_quotas import quota_family, vcpus_by_name


@dataclass(frozen=True, slots=True)
class Wanted:
    """One way to launch a node. ``sold``: the capacity type; ``family``: what a quota counts together.

    Empty where the cloud does not say or does not need it.
    """

    instance_type: str = ""
    sold: str = ""
    zone: str = ""
    family: str = ""
    region: str = ""
    account: str = ""

    def within(self, scope: Scope) -> str:
        """The subject of a refusal of that scope; empty where it concerns no other pool."""
        match scope:
            case Scope.ZONE:
                named = (self.instance_type, self.sold, self.zone)
            case Scope.REGION:
                named = (self.instance_type, self.sold, self.region)
            case Scope.FAMILY:
                named = (self.family, self.sold, self.region)
            case Scope.CAPACITY_TYPE:
                named = ("", self.sold, self.region)
            case Scope.ACCOUNT:
                named = ("", "", self.account)
            case Scope.POOL | Scope.SUBNET:
                return ""
        return " ".join(filter(None, named))


Account: TypeAlias = tuple[str, str]
"""Vendor and account."""


def account_of(pool: Pool) -> Account:
    """The account that the pool is in."""
    match pool.cloud:
        case FakeGroup():
            return "fake", pool.cloud.account
        case NodeClaims():
            return "karpenter", ""
        case AwsFleet(region=region, assume_role=role) | AwsGroup(region=region, assume_role=role):
            return "aws", f"{region} {role}"
        case _ as never:
            assert_never(never)


def of_fake(gpu_type: str) -> Wanted:
    """A machine of the fake cloud: each group has its own stock, and a GPU type has one quota."""
    return Wanted(family=gpu_type)


def of_aws(instance_type: str, sold: str, zone: str, region: str) -> Wanted:
    """An instance of EC2."""
    return Wanted(instance_type, sold, zone, quota_family(instance_type, sold), region, account=region)


def of_claim(pool: Pool, claims: NodeClaims) -> Wanted:
    """A NodeClaim. Karpenter says neither region nor quota: a family is a quota of EC2, elsewhere one instance type."""
    kind, sold = claims.instance_type, pool.capacity_type.value
    return Wanted(kind, sold, claims.zone, quota_family(kind, sold), account=claims.class_name)


def quota_units(offering: Offering) -> int:
    """The least that a node takes of a quota: virtual CPUs of EC2 where types' names say it, else GPUs."""
    vcpus = [known for name in offering.instance_type.split(",") if (known := vcpus_by_name(name)) is not None]
    return min(vcpus, default=offering.gpus_per_node)


def wanted(pool: Pool) -> Sequence[Wanted]:
    """All ways in which the pool may launch a node.

    None while it is not known what a node is, and where the capacity is reserved, which is nobody else's.
    """
    if pool.offering is None or (isinstance(pool.cloud, AwsFleet) and pool.cloud.capacity_reservation):
        return ()
    types, zones = pool.offering.instance_type.split(","), pool.offering.zone.split(",")
    match pool.cloud:
        case FakeGroup():
            return (of_fake(pool.offering.gpu_type),)
        case NodeClaims() as claims:
            return (of_claim(pool, claims),)
        case AwsFleet(region=region) | AwsGroup(region=region):
            return [of_aws(kind, pool.capacity_type.value, zone, region) for kind, zone in product(types, zones)]
        case _ as never:
            assert_never(never)
