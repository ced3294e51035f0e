"""The operator's process: its settings, the parts of every replica (process) and those of the leader (leader).

The package has only wiring, threads and signals. The package decides nothing, and writes only the operator's own
objects.
"""

from charterer.app.process import run
from charterer.app.settings import Settings

__all__ = ["Settings", "run"]
