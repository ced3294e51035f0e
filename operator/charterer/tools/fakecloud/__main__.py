"""``python -m charterer.tools.fakecloud``."""

from __future__ import annotations

from charterer.tools.fakecloud.main import main

main(prog_name="charterer fakecloud")
