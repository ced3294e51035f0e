"""What HiGHS says would be among the output of `charterer plan -o json`."""

from __future__ import annotations

import subprocess
import sys

_SOLVE = """
import numpy
from charterer.policy.solve.linear_program import Columns, minimise

columns = Columns(numpy.array([3.0, 1.0]), numpy.array([0, 0]), numpy.array([0, 1]))
assert minimise(columns, [[(0, 2.0)], [(0, 1.0)]], [3.0], numpy.arange(2)) is not None
"""


def test_a_program_is_solved_without_a_word_on_standard_output() -> None:
    """In a process of its own: HiGHS 1.16 writes two lines when a process makes its first solver, and none later."""
    done = subprocess.run([sys.executable, "-c", _SOLVE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
