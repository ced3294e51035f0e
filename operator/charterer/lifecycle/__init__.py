"""The life cycles map recorded intents and observations to the next single step of each object, or to what the object
waits for.

The functions are pure: they read no clock, keep no state and carry nothing out. ``policy`` decides what is worth doing.
"""

from charterer.lifecycle.next_steps import next_steps
from charterer.lifecycle.view import LifecycleView

__all__ = ["LifecycleView", "next_steps"]
