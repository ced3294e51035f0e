"""The simulated world: scenario, workload, applications, jobs, nodes, their budget's ledger, and the result.

The package has state and arithmetic only: no events, no decisions.
"""

from __future__ import annotations
