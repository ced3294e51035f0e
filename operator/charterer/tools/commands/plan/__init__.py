"""``charterer plan``: the command, its what-ifs, and its answer as a document and JSON."""

from __future__ import annotations
