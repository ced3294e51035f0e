"""The record of costs names machines as bills do."""

from __future__ import annotations

import pytest

from charterer.ledger.cost_rows import billed_id
from charterer.tools.reconciliation import resource_key
from tests.factory.pools import rental

_VM = "/subscriptions/s1/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/gpu/virtualMachines/3"


@pytest.mark.parametrize(
    ("instance", "provider_id", "resource"),
    [
        ("i-0abc", "aws:///us-east-1a/i-0abc", "arn:aws:ec2:us-east-1:1:instance/i-0abc"),
        ("claim-7", "aws:///us-east-1a/i-0abc", "i-0abc"),
        ("5a1b-vm-id", f"azure://{_VM}", _VM.lower()),
        ("876543", "gce://project/zone/charterer-c1", "//compute.googleapis.com/projects/1/zones/z/instances/876543"),
        ("i-0abc", "", "arn:aws:ec2:us-east-1:1:instance/i-0abc"),
    ],
    ids=["aws", "karpenter", "azure", "google", "no-node-yet"],
)
def test_a_machine_on_record_has_the_id_of_its_bill(instance: str, provider_id: str, resource: str) -> None:
    recorded = billed_id(rental(instance=instance, provider_id=provider_id))
    assert resource_key(recorded) == resource_key(resource)


def test_a_rental_without_a_machine_has_none() -> None:
    assert billed_id(rental()) == ""
