"""The files of the page: vendored code is what its authors published, and nothing needs what the policy forbids."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from charterer.tools.commands.dashboard import command

ROOT = Path(__file__).parents[4]
STATIC = ROOT / "operator/charterer/tools/commands/dashboard/static"
VENDORED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""SHA-256 of the files of uPlot 1.6.32's package."""
OWN = sorted(path.name for path in STATIC.iterdir() if path.name not in VENDORED)


@pytest.mark.parametrize("name", VENDORED)
def test_vendored_files_are_those_that_were_published(name: str) -> None:
    assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == VENDORED[name]


def test_the_notice_names_what_is_vendored() -> None:
    notice = (ROOT / "NOTICE").read_text()
    assert "uPlot 1.6.32" in notice
    assert "Leon Sorokin" in notice


def test_every_file_is_served_and_every_served_file_is_there() -> None:
    assert {path.name for path in STATIC.iterdir()} == set(command._TYPES)


@pytest.mark.parametrize("name", OWN)
def test_no_file_makes_markup_of_text_or_has_inline_code(name: str) -> None:
    text = (STATIC / name).read_text()
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|javascript:|https?://(?!www\.w3\.org/2000/svg)"
    assert re.findall(forbidden, text) == []
    if name.endswith(".html"):
        assert re.findall(r"<style|<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=", text) == []


def test_scripts_stay_short() -> None:
    lines = {name: len((STATIC / name).read_text().splitlines()) for name in OWN if name.endswith(".js")}
    assert {name: count for name, count in lines.items() if count > 400} == {}
