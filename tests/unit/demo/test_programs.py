"""The demo's programs: one that ends is told of, and the operator is started again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.programs import DemoError, Programs

ENDS = [sys.executable, "-c", "print('here', flush=True); raise SystemExit(3)"]


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs(tmp_path)
    yield made
    made.stop()


async def test_a_program_that_ends_ends_the_demo(programs: Programs) -> None:
    programs.start("cloud", ENDS)
    with pytest.raises(DemoError, match="cloud ended with code 3"):
        await programs.watch()


async def test_one_that_is_kept_starts_again_until_it_has_ended_too_often(programs: Programs, tmp_path: Path) -> None:
    programs.start("operator", ENDS)
    programs.keep("operator")

    async def never() -> bool:
        return False

    with pytest.raises(DemoError, match="operator ended with code 3"):
        await programs.until(never, "it never is", 60)
    assert (tmp_path / "operator.log").read_text() == "here\n" * 6
