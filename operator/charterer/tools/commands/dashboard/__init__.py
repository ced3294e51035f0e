"""``charterer dashboard`` serves a live page on the loopback address from the JSON documents of the other commands."""

from __future__ import annotations
