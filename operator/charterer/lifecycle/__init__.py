"""The life cycles: recorded intent and observation in; for each object its next single step, or what it waits for, out.

Pure. Nothing here decides what is worth doing (policy does), carries anything out, reads a clock or remembers.
"""

from charterer.lifecycle.next_steps import next_steps
from charterer.lifecycle.view import LifecycleView

__all__ = ["LifecycleView", "next_steps"]
