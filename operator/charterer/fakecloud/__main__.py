"""``python -m charterer.fakecloud``."""

from charterer.fakecloud.main import main

main(prog_name="charterer fakecloud")
