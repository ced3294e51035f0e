"""The top of the page of ``charterer plan``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.plan.test_plan import busy
from tests.unit.cli.worlds import charterer_over


def test_the_page_begins_with_a_sentence_on_each_budget_and_its_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plan.html"
    charterer_over(busy(), monkeypatch)("plan", "--html", str(file))
    body = file.read_text().partition("<body>")[2]
    top = body[: body.index("<h2>")]
    assert "<svg" in top
    assert top.index("research has spent $") < top.index("<svg")
    assert "In the long run" in top
    assert body.count("<svg") == 1
    assert 'class="bad">too small' not in body
