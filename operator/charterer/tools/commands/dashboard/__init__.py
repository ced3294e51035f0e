"""``charterer dashboard``: a live page on the loopback address, of the documents that other commands print as JSON."""

from __future__ import annotations
