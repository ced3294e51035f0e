"""How far the capacity of a scale set is lowered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from charterer.domain.ids import InstanceId
from charterer.domain.pool import Pool
from charterer.domain.time import after
from charterer.providers.azure.listing import LAG_SECONDS, Group, GroupState, ListedVm
from charterer.providers.azure.scale_sets import Scaling
from tests.factory import T0, pool

RUNS = ListedVm(InstanceId("vm-1"), "/vm-1", "1", "vm-1", "", "Succeeded", "running", T0, None)
ENDS = replace(RUNS, id=InstanceId("vm-2"), path="/vm-2", key="2", provisioning="Deleting")


class ScaleSet(Group):
    """A set that wants three VMs, of which one runs and one is being deleted."""

    def __init__(self) -> None:
        self.state = GroupState("set", "1", 3, False, False, "size", (), None, "", (), (RUNS, ENDS), T0, {})

    async def read(self, pool: Pool) -> GroupState:
        self.state = replace(self.state, asked=after(self.state.asked, LAG_SECONDS))
        return self.state

    async def set_capacity(self, pool: Pool, state: GroupState, capacity: int) -> str:
        self.state = replace(self.state, capacity=capacity, etag=f"{state.etag}1")
        return ""

    async def delete(self, pool: Pool, state: GroupState, vms: Sequence[ListedVm]) -> str:
        raise AssertionError("nothing is to be deleted")


async def withdrawn(group: ScaleSet, keep: int = 1) -> int:
    """The capacity after the withdrawal of what is not kept."""
    scaling = Scaling(cast(Any, None), cast(Any, None))
    await scaling.read(pool(), group)
    await scaling.withdraw(pool(), group, keep)
    return group.state.capacity


async def test_a_vm_that_is_being_deleted_counts_until_it_is_gone() -> None:
    """Below the number of VMs Azure would choose which to end, and it might be the one that runs."""
    group = ScaleSet()
    assert await withdrawn(group) == 2
    group.state = replace(group.state, vms=(RUNS,))
    assert await withdrawn(group) == 1
