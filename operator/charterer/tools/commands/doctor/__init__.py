"""``charterer doctor``: is the operator alive, and what keeps it from its work."""

from __future__ import annotations
