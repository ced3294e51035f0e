"""``charterer explain``: the command, and its answer as a document and as JSON."""

from __future__ import annotations
