"""Where no operator leads, or one that is stopped, the first sentence says that nothing comes of what is shown."""

from __future__ import annotations

import json

import pytest

from charterer.domain.snapshot import Stop
from charterer.tools.commands.shared.cluster import ClusterOptions, ClusterReading
from tests.unit.cli.worlds import charterer_over, seen_of
from tests.worlds import NAMESPACE, World

OLD = "the operator's Lease in namespace operators is 40 s old: nobody acts on this"


@pytest.mark.parametrize("arguments", [("plan",), ("explain", "tj/train")], ids=["plan", "explain"])
@pytest.mark.parametrize("trouble", [OLD, ""], ids=["nobody", "a leader"])
def test_the_first_line_warns_if_and_only_if_nobody_leads(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], trouble: str
) -> None:
    world = World()
    world.budget("research", amount="60000")
    world.pool("a100", gpus=8, price="19.80")
    world.job("train", gpus=(1, 8, 32))
    charterer = charterer_over(world, monkeypatch)

    def read(cluster: ClusterOptions) -> ClusterReading:
        return ClusterReading(seen_of(world), world.now, NAMESPACE, trouble)

    monkeypatch.setattr(f"charterer.tools.commands.{arguments[0]}.command.read", read)
    assert charterer(*arguments).stdout.startswith(f"Warning: {trouble}\n") is bool(trouble)
    assert json.loads(charterer(*arguments, "-o", "json").stdout)["nobodyActs"] == (trouble or None)


@pytest.mark.parametrize(
    ("stop", "told"),
    [(Stop.RENT, "nothing is rented until"), (Stop.DRAIN, "nothing is rented and all nodes are ended")],
)
def test_that_a_person_has_stopped_the_operator_is_said_first(
    stop: Stop, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.budget("research", amount="60000")
    charterer = charterer_over(world, monkeypatch, stop=stop)
    assert charterer("plan").stdout.startswith(f"Warning: a person has stopped the operator: {told}")
    (warning,) = json.loads(charterer("plan", "-o", "json").stdout)["warnings"]
    assert warning.endswith("until `charterer resume`")
