"""``charterer explain`` and ``charterer quote``, and their answers as documents and JSON."""

from __future__ import annotations
