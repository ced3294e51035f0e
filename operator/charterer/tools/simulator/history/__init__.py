"""Jobs that really ran, as values and as CSV files, and what a policy would have saved on them.

No simulation is run in here; ``tools.simulator.replay`` does that.
"""

from __future__ import annotations
