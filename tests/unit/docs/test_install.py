"""Nobody is told to install a name that is not registered.

Whoever registers it would run code beside cloud credentials.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_TEXTS = (".md", ".py", ".yaml", ".yml", ".txt", ".toml", ".sh", ".ipynb", ".tpl", "Dockerfile", "Makefile")
_UNREGISTERED = re.compile(
    r"""charterer(-trainer)?\[|\b(pip|pipx|uv) (install|add)\b[^\n#`]*?[\s'"]charterer(-trainer)?(?![\w/.@-])"""
)


def test_no_page_and_no_message_names_a_package_that_is_not_registered() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    shown = [name for name in listed if name.endswith(_TEXTS) and not name.startswith("tests/")]
    assert len(shown) > 500
    named = {name: found[0] for name in shown if (found := _UNREGISTERED.search((ROOT / name).read_text())) is not None}
    assert named == {}


def test_such_a_name_is_found() -> None:
    for text in ("pip install 'charterer[bill]'", "pip install -q charterer", "needs charterer-trainer[jupyter]"):
        assert _UNREGISTERED.search(text)
    for text in (
        "pip install .",
        "pip install './trainer[jupyter]'",
        "charterer install",
        'containers = ["charterer"]',
    ):
        assert not _UNREGISTERED.search(text)
