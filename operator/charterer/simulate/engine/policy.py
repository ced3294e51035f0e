"""The interface of a policy: it decides in a simulated world."""

from __future__ import annotations

from charterer.domain.time import Instant
from charterer.simulate.engine.events import WorldEvents
from charterer.simulate.engine.world import World


class Policy(WorldEvents):
    """Receives the world's events, and is asked to act after each instant at which anything happened.

    This one does nothing: a policy overrides the methods that it needs.
    """

    def begin_simulation(self, world: World) -> None:
        """A simulation begins: from now on the policy decides in this world, which is still empty."""

    def decide(self) -> Instant | None:
        """Act in the world; returns when to be asked again if nothing happens before, None for never.

        The policy is asked again at once if its actions changed anything by themselves (``World.changed``).
        """
        return None

    def last_action(self) -> str:
        """A description of the last action, for error messages."""
        return type(self).__name__
