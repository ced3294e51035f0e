"""Who decides in a simulated world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from charterer.domain.job import Allocation
from charterer.domain.time import Instant
from charterer.simulate.engine.node_market import SimMachine
from charterer.simulate.engine.sim_job import SimJob

if TYPE_CHECKING:
    from charterer.simulate.engine.world import World


class Policy:
    """Is told what happens, and is asked to act whenever anything did. What it does itself it is not told.

    This one does nothing: a policy overrides what matters to it.
    """

    def begins(self, world: World) -> None:
        """A simulation begins: from now on it decides in this world, which is empty."""

    def arrived(self, task: SimJob) -> None:
        """A job was submitted."""

    def completed(self, task: SimJob) -> None:
        """A job is complete; its allocation is what it held, and is free now."""

    def interrupted(self, task: SimJob, held: Allocation) -> None:
        """A machine of the job was taken back: what it held is free, and it waits."""

    def ready(self, machine: SimMachine) -> None:
        """A machine takes pods."""

    def taken(self, machine: SimMachine) -> None:
        """A machine was taken back; nobody is on it any more."""

    def decide(self) -> Instant | None:
        """Act in the world; when to be asked again if nothing happens before, None if never.

        It is asked again at once if its acts changed anything by themselves (``World.changed``).
        """
        return None

    def lately(self) -> str:
        """What it did last, for messages."""
        return type(self).__name__
