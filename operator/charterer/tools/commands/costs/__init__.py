"""``charterer costs`` reports who spent what, as tables, CSV, JSON and FOCUS."""

from __future__ import annotations
