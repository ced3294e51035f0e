"""The quota of virtual CPUs that a preflight compares with what runs in the account."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.clouds.aws import QUOTAS
from charterer.domain.pool import CapacityType
from charterer.providers.provider import PreflightFinding
from tests.clouds.aws.services import VCPU_QUOTAS
from tests.contract.aws_pools import FLEET, GROUP, TYPE, AwsMarket
from tests.contract.conftest import OpenAws


async def quota(m: AwsMarket) -> PreflightFinding:
    [found] = [finding for finding in await m.provider.preflight(m.pool) if finding.subject == "quota"]
    return found


def test_the_codes_are_those_of_the_server() -> None:
    assert {quota.code: quota.name for quota in QUOTAS} == {code: name for code, (name, _) in VCPU_QUOTAS.items()}


async def test_a_new_account_has_no_quota_and_is_told_what_to_ask_for(aws: OpenAws) -> None:
    m = aws(max_nodes=3)
    m.account.quota["on-demand"] = 0
    assert await quota(m) == PreflightFinding(
        "quota",
        False,
        "Running On-Demand P instances: 0 of 0 vCPUs are used, a node has 96, so that 0 fit: ask for 288 in Service "
        "Quotas (L-417A185B) or lower spec.maxNodes 3",
    )


async def test_what_others_run_counts_and_the_pools_own_nodes_are_no_want(aws: OpenAws) -> None:
    m = aws(max_nodes=3)
    m.account.quota["on-demand"] = 4 * 96
    m.account.start_by_hand("p5.48xlarge", "subnet-a", {})
    assert "192 of 384 vCPUs are used, a node has 96, so that 2 fit: ask for 480" in (await quota(m)).message
    m.account.quota["on-demand"] = 5 * 96
    for name in ("one", "two", "three"):
        await m.ask(name)
    assert (await quota(m)).well, "its nodes run: nothing more is needed"
    m.account.start_by_hand("g5.12xlarge", "subnet-a", {})
    assert "480 of 480 vCPUs" in (await quota(m)).message, "of another family"


async def test_spot_has_quotas_of_its_own(aws: OpenAws) -> None:
    m = aws(replace(FLEET, instance_types=("p5.48xlarge",)), CapacityType.SPOT, max_nodes=1)
    m.account.quota |= {"on-demand": 0, "spot": 192}
    m.account.start_by_hand("p5.48xlarge", "subnet-a", {})
    found = await quota(m)
    assert found.message.startswith("All P5 Spot Instance Requests: 0 of 192 vCPUs")
    assert found.well


@pytest.mark.parametrize(
    ("types", "capacity"),
    [
        (("p6-b200.48xlarge",), CapacityType.SPOT),
        (("p4d.24xlarge", "p5.48xlarge"), CapacityType.SPOT),
    ],
)
async def test_where_no_quota_is_known_nothing_is_claimed(
    aws: OpenAws, types: tuple[str, ...], capacity: CapacityType
) -> None:
    m = aws(replace(FLEET, instance_types=types), capacity)
    found = await quota(m)
    assert found.well
    assert found.message == f"no quota is known for {', '.join(types)}, Spot: look in Service Quotas"
    assert "servicequotas:GetServiceQuota" not in m.account.count()


async def test_groups_are_compared_too_and_reservations_need_no_quota(aws: OpenAws) -> None:
    assert (await quota(aws(GROUP))).message.startswith("Running On-Demand P instances")
    m = aws(replace(FLEET, capacity_reservation="cr-1"))
    m.account.reservations["cr-1"] = (TYPE, "us-east-1a", 1)
    assert "quota" not in {finding.subject for finding in await m.provider.preflight(m.pool)}


async def test_a_role_that_may_not_read_quotas_is_told_so(aws: OpenAws) -> None:
    m = aws()
    m.account.denied = {"servicequotas:GetServiceQuota"}
    assert "servicequotas:GetServiceQuota: AccessDenied" in (await quota(m)).message
