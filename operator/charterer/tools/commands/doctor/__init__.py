"""``charterer doctor`` checks whether the operator runs and what prevents its work."""

from __future__ import annotations
