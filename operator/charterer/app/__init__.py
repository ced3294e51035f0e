"""The operator's process: its settings, the parts that every replica runs (process) and the parts that the leader runs
(leader).

The package has only wiring, threads and signals. It decides nothing, and writes only the operator's own objects.
"""

from charterer.app.process import run
from charterer.app.settings import Settings

__all__ = ["Settings", "run"]
