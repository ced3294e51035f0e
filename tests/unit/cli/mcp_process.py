"""``charterer mcp`` over the world of its tests, as a process that a client of the protocol starts."""

from __future__ import annotations

import sys

import pytest

from charterer.cli.main import main
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World


def asked_world() -> World:
    """A budget, a pool and a job that waits."""
    world = World()
    world.budget("research", amount="60000")
    world.pool("a100", gpus=8, price="19.80")
    world.job("train", gpus=(1, 8, 32))
    return world


if __name__ == "__main__":
    charterer_over(asked_world(), pytest.MonkeyPatch())
    main(["mcp", *sys.argv[1:]])
