"""``charterer run``: a TrainingJob of a command line."""

from __future__ import annotations
