"""The operator's process: its settings, what every replica runs (process) and what only the leader runs (leader).

Only wiring, threads and signals live here; nothing is decided and nothing is written but the operator's own objects.
"""

from charterer.app.process import run
from charterer.app.settings import Settings

__all__ = ["Settings", "run"]
