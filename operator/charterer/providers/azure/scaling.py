"""Growing and shrinking a scale set: compare and set, never below what is there, and why it did not grow.

Azure counts. It says of no VM which order it is for, and it chooses itself which VM to end when the capacity is lowered
below their number: so that never happens here. What failed for want of a host stays in the set as a VM that is Failed,
with the code in its instance view, which is the record of a failed operation (docs/development/adr/0059).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from charterer.domain.ids import InstanceId, PoolId
from charterer.domain.order import Ask, Refusal, Reply
from charterer.domain.pool import Pool
from charterer.domain.time import Instant, after
from charterer.providers.azure.autoscale import Autoscale
from charterer.providers.azure.calls import Calls
from charterer.providers.azure.errors import Place, launch_error, meaning_of, refusal
from charterer.providers.azure.groups import Group, GroupState
from charterer.providers.azure.listing import LAG_SECONDS
from charterer.providers.azure.permissions import Call
from charterer.providers.codes import CodeMeaning, LaunchError, LaunchRefused
from charterer.providers.errors import Busy, InvalidRequest, NotFoundInCloud, ProviderError, WouldTerminate

_log = logging.getLogger(__name__)

_TRIES: Final = 3
"""How often a change is tried of a set that others change at the same time."""
_CHANGED: Final = frozenset({"PreconditionFailed", "EtagMismatch"})
_RUNS: Final = frozenset({"InProgress", "Running", "Accepted", "Updating", "Scaling", "Creating"})
_SHORT: Final = LaunchError(
    "ProvisioningFailed", "no operation of the scale set runs, and it has fewer VMs than it wants"
)


class Scaling:
    """Changes the scale sets of pools, and tells what they were refused."""

    def __init__(self, calls: Calls, autoscale: Autoscale) -> None:
        self._calls = calls
        self._autoscale = autoscale
        self._steady: dict[PoolId, tuple[object, Instant]] = {}
        """The version of each pool's set, and since when it has been this one."""
        self._operations: dict[PoolId, str] = {}
        """Where the last growth of each pool's set can be asked for, while it may run."""
        self._failed: dict[PoolId, LaunchError] = {}
        """Why the last growth failed, as its operation said."""

    async def read(self, pool: Pool, group: Group) -> GroupState:
        """The set as it is now."""
        state = await group.read(pool)
        version = state.etag, state.capacity, state.updating
        if self._steady.get(pool.id, (None,))[0] != version:
            self._steady[pool.id] = version, state.asked
        return state

    async def ask(self, pool: Pool, group: Group, ask: Ask) -> Reply:
        """Raise the capacity to ``at_least`` if it is lower. The same ask again finds it raised, and changes nothing.

        InvalidRequest for a set that would end or add nodes by itself; Busy while others keep changing it, or while the
        list shows more VMs than it wants: ``at_least`` may count one of them that is gone.
        """
        for tries_left in reversed(range(_TRIES)):
            state = await self.read(pool, group)
            if wrong := [*state.wrong, *await self._autoscale.problems(pool, state)]:
                raise InvalidRequest(pool.id, "ask", "UnfitScaleSet", "; ".join(wrong))
            if state.wanted >= ask.at_least:
                return Reply()
            if state.capacity < len(state.alive):
                message = f"the list shows {len(state.alive)} VMs, and the scale set wants {state.capacity}"
                raise Busy(pool.id, "ask", "MoreListedThanWanted", message)
            try:
                operation = await group.set_capacity(pool, state, ask.at_least)
            except Busy as error:
                if not tries_left or error.code not in _CHANGED:
                    raise
            except LaunchRefused as refused:
                place = place_of(pool, state)
                return Reply(
                    refused={o.token: refusal(pool.id, refused.error, place, refused.at, o.token) for o in ask.orders}
                )
            else:
                self._failed.pop(pool.id, None)
                self._operations[pool.id] = operation
                return Reply()
        raise AssertionError("unreachable: the last try returns or raises")

    async def withdraw(self, pool: Pool, group: Group, keep: int) -> None:
        """Delete the VMs that found no host; where there is none, lower the capacity to ``keep``. One change a call.

        Nothing is done while an operation runs, which may still bring VMs (Busy), and the capacity is lowered only when
        the list must show every VM there is. Never below the number of VMs: Azure would choose which to end.
        """
        state = await self.read(pool, group)
        if state.wanted <= keep and not state.hostless:
            return
        if state.updating:
            raise Busy(pool.id, "withdraw", "Updating", "a change of the scale set runs, which may still bring VMs")
        if state.hostless:
            await self._delete(pool, group, state, [vm.id for vm in state.hostless])
            return
        if len(state.alive) > keep:
            there = f"{len(state.alive)} VMs are there, and {keep} are to be kept"
            raise WouldTerminate(pool.id, "withdraw", "WouldTerminate", there)
        lowest = max(keep, len(state.vms))
        if lowest >= state.capacity:
            return
        if not self._is_steady(pool, state):
            message = f"the scale set changed less than {LAG_SECONDS:.0f} s ago: VMs may have come that no list shows"
            raise Busy(pool.id, "withdraw", "JustChanged", message)
        await group.set_capacity(pool, state, lowest)

    async def terminate(self, pool: Pool, group: Group, instance: InstanceId) -> None:
        """Delete that VM if it is in the pool's scale set now; what is not there has ended."""
        state = await self.read(pool, group)
        await self._delete(pool, group, state, [instance])

    async def refusals(self, pool: Pool, state: GroupState) -> Sequence[Refusal]:
        """Why the set has fewer VMs than it wants, as of now: what found no host never will, until it is deleted."""
        await self._poll(pool)
        place = place_of(pool, state)
        if state.hostless:
            errors = dict.fromkeys(vm.failure for vm in state.hostless if vm.failure is not None)
            return [refusal(pool.id, error, place, state.asked) for error in errors]
        if state.updating or state.capacity <= len(state.vms):
            if not state.updating:
                self._failed.pop(pool.id, None)
            return ()
        error = self._failed.get(pool.id)
        if error is None and not self._is_steady(pool, state):
            return ()
        return [refusal(pool.id, error or _SHORT, place, state.asked)]

    async def _delete(self, pool: Pool, group: Group, state: GroupState, doomed: Sequence[InstanceId]) -> None:
        vms = [vm for vm in state.vms if vm.id in doomed and not vm.deleting]
        if not vms:
            return
        if group.recounts and not state.updating:
            await self._count_again(pool, group, state)
        try:
            await group.delete(pool, state, vms)
        except (NotFoundInCloud, InvalidRequest) as error:  # no code of its own says that a VM is gone, or is going
            there = {vm.id for vm in (await self.read(pool, group)).vms if not vm.deleting}
            if there.intersection(doomed):
                raise
            _log.info("%s", error)

    async def _count_again(self, pool: Pool, group: Group, state: GroupState) -> None:
        """Make the capacity the number of VMs before one is deleted, once lists must show all (Busy).

        Others change the scale set behind a node pool, and Azure takes spot VMs back: the count does not tell.
        """
        there, steady = len(state.alive) + len(state.hostless), self._is_steady(pool, state)
        if state.capacity == there or (state.capacity > there and not steady):
            return
        if steady:
            await group.set_capacity(pool, state, there)
        message = f"the node pool wants {state.capacity} VMs, and {there} are there: deletions wait until these agree"
        raise Busy(pool.id, "delete", "OtherCount", message)

    async def _poll(self, pool: Pool) -> None:
        """Learn how the last growth ended. What this process never learns, the instance views tell."""
        url = self._operations.get(pool.id)
        if not url:
            return
        try:
            body = (await self._calls(pool.id, Call.GET_OPERATION, {"url": url})).body
        except ProviderError as error:
            _log.info("%s", error)
            self._operations.pop(pool.id, None)
            return
        if body.get("status") in _RUNS:
            return
        self._operations.pop(pool.id, None)
        if body.get("status") != "Succeeded":
            told = launch_error(body.get("error") or {})
            known = meaning_of(told.code, told.message)
            if known is None or known.meaning is not CodeMeaning.SUMMARY:
                self._failed[pool.id] = told

    def _is_steady(self, pool: Pool, state: GroupState) -> bool:
        """Whether lists must show all that the set's last change brought."""
        return state.asked >= after(self._steady[pool.id][1], LAG_SECONDS)


def place_of(pool: Pool, state: GroupState) -> Place:
    """Where the set would launch."""
    return Place(state.size, pool.capacity_type, pool.cloud)
