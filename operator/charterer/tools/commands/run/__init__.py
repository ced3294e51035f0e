"""``charterer run`` submits a TrainingJob from a command line."""

from __future__ import annotations
