"""What-ifs from files: what is compared, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.plan.test_plan import JOB, steady
from tests.unit.cli.worlds import charterer_over


def test_of_several_budgets_only_those_that_differ_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = steady()
    world.budget("spare")
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    stdout = charterer_over(world, monkeypatch)("plan", "-f", str(file)).stdout
    difference = stdout[stdout.index("The difference") :]
    assert "1 budget is as before." in difference
    assert "research" in difference
    assert "spare" not in difference[: difference.index("1 budget is as before.")]


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("gpus: {min: 1, maximum: 4}", "unknown field spec.gpus.maximum: did you mean max?"),
        ("resizepolicy: Never", "unknown field spec.resizepolicy: did you mean resizePolicy"),
    ],
)
def test_a_field_that_does_not_exist_is_refused_as_kubectl_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, sentence: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: charterer.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: more, namespace: team}\n"
        f"spec:\n  {written}\n  template: {{spec: {{containers: [{{name: t, image: i}}]}}}}\n"
    )
    result = charterer_over(steady(), monkeypatch)("plan", "-f", str(file))
    assert result.exit_code == 1
    assert sentence in result.stderr
