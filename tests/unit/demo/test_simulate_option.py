"""``make demo SIMULATE=1``: a look without a cluster, and the pages that tell its figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from demo.comparison import Figures, Row, markdown
from demo.scenario import an_hour

ROOT = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.xdist_group("simulated hour"), pytest.mark.long]  # it takes half a minute of a processor


@dataclass(frozen=True)
class Done:
    """What the command left: its words, its folder, and its summary."""

    code: int
    words: str
    out: Path
    summary: dict[str, Any]

    @property
    def rows(self) -> list[Row]:
        return [Row(**row | {"figures": Figures(**row["figures"])}) for row in self.summary["rows"]]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The command on a machine that has no program of the test bed, in a terminal of 80 columns."""
    folder = tmp_path_factory.mktemp("demo")
    out, bare = (
        folder / "demo",
        {"PATH": "/usr/bin:/bin", "CHARTERER_CACHE_DIR": str(folder / "cache"), "COLUMNS": "80"},
    )
    kept = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    command = [sys.executable, "-m", "demo", "--simulate", f"--out={out}"]
    program = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=kept | bare)
    assert (out / "summary.json").exists(), program.stdout + program.stderr
    return Done(program.returncode, program.stdout, out, json.loads((out / "summary.json").read_text()))


def test_it_tells_all_rows_says_that_they_are_simulated_and_builds_nothing(done: Done) -> None:
    assert done.code == 0
    assert "all columns are simulated" in done.words
    assert all(row.simulated and row.words in done.words for row in done.rows)
    assert all(len(line) <= 80 for line in done.words.splitlines() if not line.startswith("["))
    assert not list(done.out.glob("build*"))
    assert not (done.out.parent / "cache").exists()


def test_the_demo_saves_more_than_half_of_todays_money_and_for_no_more_money_jobs_end_a_fifth_earlier(
    done: Done,
) -> None:
    """With spot nodes that are taken back. No machine is rented again and again: each job needs a few at most."""
    today, ours, same, *_ = (row.figures for row in done.rows)
    assert ours.mean_completion_seconds < 0.9 * today.mean_completion_seconds
    assert ours.dollars < 0.45 * today.dollars
    assert ours.dollars < an_hour(30).hourly_budget
    assert same.mean_completion_seconds < 0.8 * today.mean_completion_seconds
    assert same.dollars <= 1.01 * today.dollars
    assert max(ours.machines, same.machines) < 3 * 28


def test_the_table_of_readme_is_that_of_the_simulation(done: Done) -> None:
    """`python -m demo.simulated --markdown` prints it."""
    assert markdown(done.rows) in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/demo.md"])
def test_the_sentence_of_the_page_is_the_headline_of_the_simulation(done: Done, page: str) -> None:
    words = " ".join((ROOT / page).read_text().split())
    assert f"**{done.summary['headline']}.**" in words


@pytest.mark.parametrize("of", ["out", "docs"])
def test_the_picture_has_that_headline(done: Done, of: str) -> None:
    """Where it has not, `make demo` draws it again, in out/demo."""
    file = done.out / "demo.png" if of == "out" else ROOT / "docs" / "images" / "demo.png"
    with Image.open(file) as picture:
        assert picture.info["Title"] == done.summary["headline"]
