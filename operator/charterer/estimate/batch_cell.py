"""Statistics of the step times that were reported from one configuration."""

from __future__ import annotations

from dataclasses import dataclass

MEMORY_REPORTS = 100.0
"""Reports that a configuration remembers: at the usual 5 % scatter its mean is then known to 0.5 %, less than the
model's own error, and code that became faster or slower shows soon."""
REPORT_SCATTER = 0.05
"""Standard deviation of log seconds between reports of one configuration, until the class's own has been seen."""
SCATTER_REPORTS = 4.0
"""Number of reports that ``REPORT_SCATTER`` counts as."""
OUTLIER_SCATTERS = 4.0
"""A report farther off than this many standard deviations counts as being at that distance: a stall teaches little."""


@dataclass(slots=True)
class BatchCell:
    """Mean and variance of the log seconds per step of one configuration.

    ``weight``: number of reports remembered, at most ``MEMORY_REPORTS``; ``count``: number of all reports.
    """

    weight: float = 0.0
    mean: float = 0.0
    variance: float = 0.0
    count: int = 0

    def add(self, value: float, scatter: float) -> None:
        """Add a report of log seconds; an outlier is moved to ``OUTLIER_SCATTERS`` times ``scatter`` from the mean."""
        self.count += 1
        distance = value - self.mean
        if self.weight >= SCATTER_REPORTS:
            limit = OUTLIER_SCATTERS * scatter
            distance = min(max(distance, -limit), limit)
        self.weight = min(self.weight + 1.0, MEMORY_REPORTS)
        fraction = 1.0 / self.weight
        self.mean += fraction * distance
        self.variance = (1.0 - fraction) * (self.variance + fraction * distance * distance)
