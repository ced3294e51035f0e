"""``charterer costs``: who spent what, in tables, CSV, JSON and FOCUS."""

from __future__ import annotations
