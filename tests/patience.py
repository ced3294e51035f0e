"""How long a test waits for something that must come: until a machine that does ten other things has surely done it."""

from __future__ import annotations

from typing import Final

PATIENCE: Final = 60.0
"""Seconds of real time. A test that passes never waits that long; that nothing comes is seen without a clock."""
OPERATORS_PATIENCE: Final = 2 * PATIENCE
"""Seconds for what comes through an operator and a control plane, one process after the other."""
