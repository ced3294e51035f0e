"""The simulated world: scenario, workload, applications, jobs, nodes, their budget's ledger, and the result.

State and arithmetic only: no events, no decisions.
"""

from __future__ import annotations
