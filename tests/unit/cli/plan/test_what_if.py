"""What-ifs from files: what is compared, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from math import log
from pathlib import Path

import pytest

from charterer.domain.money import Price
from charterer.domain.pool import LaunchHistory
from charterer.domain.profile import Amdahl
from tests.unit.cli.plan.test_plan import JOB, steady
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World

ROOT = Path(__file__).parents[4]


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
        ('gpus: {min: "1"}', "spec.gpus.min is '1', and has to be of type integer: leave the quotes out"),
        ("gpus: {min: 1.5}", "spec.gpus.min is 1.5, and has to be of type integer\n"),
        ('suspend: "no"', "spec.suspend is 'no', and has to be of type boolean: leave the quotes out"),
        ("profileName: 7", "spec.profileName is 7, and has to be of type string: put it in quotes"),
        ("maxCost: 60", "spec.maxCost: 60 is not a string: put it in quotes"),
        ('maxCost: "1.250"', "spec.maxCost: '1.250' may be meant as thousands: write 1250, or 1.2500 if it is not"),
    ],
)
def test_a_field_that_does_not_exist_or_has_another_type_is_refused_as_kubectl_would(
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


def test_the_files_of_the_project_are_read_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.pool("a100", gpus=8)
    charterer = charterer_over(world, monkeypatch)
    told = charterer("plan", "-f", str(ROOT / "examples/getting-started/objects.yaml"))
    assert told.exit_code == 0, told.stderr
    assert re.search(r"Namespace research as in .*, document 1", told.stdout)
    assert re.search(r"rent +1 node of a100 +for research", told.stdout)


def test_labels_of_a_namespace_in_a_file_count_for_the_selectors_of_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {paid: %s}}\n"
    budget = "apiVersion: charterer.dev/v1alpha1\nkind: GPUBudget\nmetadata: {name: research}\n"
    budget += 'spec: {amount: "60000", namespaceSelector: {matchLabels: {paid: "yes"}}}\n'
    charterer = charterer_over(steady(), monkeypatch)
    paid = charterer("plan", "-f", "-", stdin=budget + namespace % '"yes"')
    unpaid = charterer("plan", "-f", "-", stdin=budget + namespace % '"no"')
    assert "no GPUBudget selects" not in paid.stdout
    assert "no GPUBudget selects namespace team" in unpaid.stdout


def test_objects_from_which_no_plan_follows_are_left_out_with_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    told = charterer_over(steady(), monkeypatch)("plan", "-f", "-", stdin=JOB + service)
    assert told.exit_code == 0
    assert "Service web of stdin, document 2 is left out: no plan follows from it" in told.stdout
    assert "TrainingJob team/more as in stdin, document 1" in told.stdout


def test_the_job_of_the_file_is_the_first_in_the_table_though_others_wait_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = steady()
    world.job("wide", gpus=(512, 512, 512))
    wide = JOB.replace("gpus: {min: 1, preferred: 8, max: 64}", "gpus: {min: 256, preferred: 256, max: 256}")
    told = charterer_over(world, monkeypatch)("plan", "-f", "-", "--jobs", "1", stdin=wide).stdout
    assert "team/more  Queued" in told
    assert "team/wide  Queued" not in told


def test_what_comes_from_stdin_and_is_no_yaml_is_called_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    result = charterer_over(steady(), monkeypatch)("plan", "-f", "-", stdin="a: [b")
    assert "Error: stdin is no YAML" in result.stderr


BUDGET = """
apiVersion: charterer.dev/v1alpha1
kind: GPUBudget
metadata: {name: research}
spec: {amount: "60000", namespaceSelector: {}, poolSelector: %s}
"""
POOL = """
apiVersion: charterer.dev/v1alpha1
kind: GPUPool
metadata: {name: a100, labels: %s}
spec: {maxNodes: 100, fake: {endpoint: "http://cloud", group: a100}}
"""


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (BUDGET % "{matchLabels: {gpu: h100}}", "selects no GPUPool: it asks for gpu=h100; the GPUPools are a100"),
        (BUDGET % "{matchLabels: {gpu: h100}}", "can rent nothing: spec.poolSelector selects no GPUPool"),
        (BUDGET % "{matchLabels: {gpu: a100}}" + "---" + POOL % "{gpu: a100}", "+ rent 4 nodes of a100"),
    ],
)
def test_a_pool_selector_can_be_tried_with_labels_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: str, said: str
) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(f"{files}---\n{JOB}")
    assert said in charterer_over(steady(), monkeypatch)("plan", "-f", str(file)).stdout


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            BUDGET % "{matchLabels: {my gpu: a}}",
            "research: spec.poolSelector.matchLabels: 'my gpu' is no key",
        ),
        (BUDGET % "{matchExpressions: [{key: gpu, operator: In}]}", "operator In of key 'gpu' needs values"),
        (POOL % "[gpu]", "metadata.labels is ['gpu']; it has to be an object with fields"),
    ],
)
def test_an_invalid_selector_or_label_in_a_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: str, said: str
) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(files)
    result = charterer_over(steady(), monkeypatch)("plan", "-f", str(file))
    assert result.exit_code == 1
    assert said in result.stderr


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("metadata: h100\nspec: {maxNodes: 1}", "metadata is 'h100'; it has to be an object with fields"),
        ("metadata: {name: h100}\nspec: 4", "spec is 4; it has to be an object with fields"),
        (
            'metadata: {name: h100}\nspec: {price: "12"}',
            "GPUPool h100: spec.price is '12', and has to be of type object",
        ),
        ("metadata: {name: h100}\nspec: {}\nstatus: {offering: a100}", "status.offering is 'a100'; it has to be"),
    ],
)
def test_a_text_where_fields_belong_is_one_error_with_the_field(
    written: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = f"apiVersion: charterer.dev/v1alpha1\nkind: GPUPool\n{written}\n"
    result = charterer_over(steady(), monkeypatch)("plan", "-f", "-", stdin=manifest)
    assert result.exit_code == 1
    assert f"Error: stdin: {told}" in result.stderr


_A100 = """
apiVersion: charterer.dev/v1alpha1
kind: GPUPool
metadata: {name: a100}
spec: {fake: {endpoint: "http://cloud", group: a100}, maxNodes: 100%s}
"""


@pytest.mark.parametrize(
    ("now", "written", "price"),
    [(None, ', price: {adjustment: "-25%"}', "$12.00/h"), ("8", "", "$16.00/h"), ("8", ', price: {hourly: "8"}', "$8")],
)
def test_another_price_in_the_spec_of_a_pool_counts(
    now: str | None, written: str, price: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.budget()
    pool = world.pool()
    world.job("one", gpus=8)
    if now is not None and pool.quote is not None:
        paid = Price.parse(now)
        quote = replace(pool.quote, price=paid, worst=paid, listed=pool.quote.price)
        world.pools[pool.id] = replace(pool, price_override=paid, quote=quote)
    said = charterer_over(world, monkeypatch)("plan", "-f", "-", stdin=_A100 % written).stdout
    rent = "rent 1 node of a100 for research at "
    if now is not None and now in price:
        assert "It would do the same as without that." in said
    else:
        assert f"{rent}{price} each" in said


def test_what_was_learned_of_an_existing_pool_counts_in_a_what_if(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget()
    pool = world.pool()
    starts = LaunchHistory(starts=40.0, logs=40.0 * log(1800.0), squares=40.0 * log(1800.0) ** 2, at=world.now)
    world.pools[pool.id] = replace(pool, launches=starts)
    world.profile("sft", Amdahl(0.97, 1.0), work_hours=40)
    world.job("one", gpus=8, profile="sft")
    said = charterer_over(world, monkeypatch)("plan", "-f", "-", stdin=_A100 % "").stdout
    assert "It would do the same as without that." in said
    assert "1 budget is as before." in said


def test_all_that_is_wrong_in_files_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = "apiVersion: charterer.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: %s, namespace: %s}\nspec: {%s}\n"
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    spec = "gpus: {min: none}, resizepolicy: Never, template: {spec: {containers: [{name: t, image: i}]}}"
    first.write_text("---\n".join([job % ("a", "team", spec), job % ("b", "teem", ""), job % ("c", "team", "gpus: 7")]))
    second.write_text("kind: Namespace\napiVersion: v1\n")
    result = charterer_over(steady(), monkeypatch)("plan", "-f", str(first), "-f", str(second))
    assert result.exit_code == 1
    for told in (
        "first.yaml, document 1: TrainingJob a: spec.gpus.min is 'none', and has to be of type integer",
        "unknown field spec.resizepolicy: did you mean resizePolicy",
        "first.yaml, document 2: TrainingJob b: no namespace 'teem'",
        "first.yaml, document 3: TrainingJob c: spec.gpus is 7, and has to be of type object",
        "second.yaml: Namespace has no metadata.name",
    ):
        assert told in result.stderr
    first.write_text("- 1\n---\n7\n")
    second.write_text("a: [b")
    told = charterer_over(steady(), monkeypatch)("plan", "-f", str(first), "-f", str(second)).stderr
    assert told.count("this is no Kubernetes object") == 2
    assert "second.yaml is no YAML" in told
    first.write_text("---\n".join(["7\n"] * 15))
    assert "; and 5 more" in charterer_over(steady(), monkeypatch)("plan", "-f", str(first)).stderr
