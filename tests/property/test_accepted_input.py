"""Whatever the schemas accept can be planned for, carried out, learned from and shown.

``CHARTERER_FUZZ_WORLDS`` sets the number of worlds; a world that fails is named by its seed.
"""

from __future__ import annotations

import os

import pytest

from tests import lanes
from tests.property.accepted_input import AcceptedWorld

WORLDS = int(os.environ.get("CHARTERER_FUZZ_WORLDS", lanes.examples(1000)))
PARTS = 16
TURNS = 3


@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_world_of_accepted_objects_makes_the_operator_fail(part: int) -> None:
    for seed in range(part, WORLDS, PARTS):
        try:
            AcceptedWorld(seed).live(TURNS)
        except Exception as error:
            error.add_note(f"AcceptedWorld({seed}).live({TURNS})")
            raise
