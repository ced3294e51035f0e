"""Jobs that really ran, as values and as CSV files, and what a policy would have saved on them.

This package runs no simulation. ``tools.simulator.replay`` runs them.
"""

from __future__ import annotations
