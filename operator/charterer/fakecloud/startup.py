"""Measured start-up times of GPU machines: seconds from the request until booted, provisioning and staging included.

Condensed from the CM-DARE data (see NOTICE): for each GPU type the twenty quantiles at 2.5 %, 7.5 %, …, 97.5 % of all
measured starts (51 with a K80, 49 with a P100), on-demand and preemptible, in two regions.
"""

from __future__ import annotations

from typing import Final

MEASURED: Final[dict[str, tuple[float, ...]]] = {
    "K80": (
        *(61.8, 64.0, 65.8, 66.2, 67.0, 67.5, 68.2, 70.4, 74.4, 78.6),
        *(78.9, 81.4, 82.5, 83.8, 85.0, 85.5, 87.0, 87.7, 89.0, 90.5),
    ),
    "P100": (
        *(62.7, 67.0, 68.2, 68.5, 68.8, 69.6, 70.0, 72.1, 72.6, 75.9),
        *(77.8, 86.6, 89.0, 90.5, 90.8, 91.7, 92.5, 93.4, 94.7, 95.4),
    ),
}
