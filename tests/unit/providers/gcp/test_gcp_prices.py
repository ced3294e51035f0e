"""The table of prices of Google Cloud, and how it is made."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from charterer.clouds.gcp import quota_family
from charterer.gpu_types.accelerators import QUOTAS
from charterer.providers.gcp.prices import TABLE, read_table, table_of
from tests.facts import google_prices

NOTICE = Path(__file__).parents[4] / "NOTICE"


def test_the_table_has_its_day_currency_source_and_licence() -> None:
    content = json.loads(TABLE.read_text())
    assert (content["currency"], content["licence"]) == ("USD", "Apache-2.0")
    assert "karpenter-provider-gcp" in content["source"]
    assert "karpenter-provider-gcp" in NOTICE.read_text()
    assert read_table().day == content["asOf"]


def test_no_spot_price_is_above_the_one_on_demand_and_all_are_of_known_gpus() -> None:
    table = read_table()
    for region, spot in table.spot.items():
        for name, price in spot.items():
            assert 0 < float(price) <= float(table.on_demand[region][name]), (region, name)
    names = {name for those in table.on_demand.values() for name in those}
    assert [name for name in names if not quota_family(name).startswith("nvidia-")] == []
    assert len(names) > 20


def test_only_machine_types_with_whole_gpus_are_kept() -> None:
    prices = {"a3-highgpu-8g": 88.4899999025753, "g4-standard-6": 0.5, "n2-standard-4": 0.2, "g2-standard-4": 0.0}
    made = table_of({"prices": {"r": {"on_demand": prices}, "empty": {"on_demand": {"e2-micro": 1.0}}}}, "2026-01-31")
    assert made["onDemand"] == {"r": {"a3-highgpu-8g": "88.49"}}
    assert made["spot"] == {}


@pytest.mark.parametrize(("prices", "day"), [({"a3-highgpu-8g": 1.0}, "yesterday"), ({}, "2026-01-31")])
def test_a_table_without_a_day_or_prices_is_not_made(prices: dict[str, float], day: str) -> None:
    with pytest.raises(ValueError, match=r"isoformat|no price"):
        table_of({"prices": {"r": {"on_demand": prices}}}, day)


def test_one_command_writes_it_where_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(google_prices, "TABLE", tmp_path / "made.json")
    repository = tmp_path / "repository"
    source = repository / "pkg/providers/pricing/initial-prices.json"
    source.parent.mkdir(parents=True)
    source.write_text(json.dumps({"prices": {"r": {"on_demand": {"a2-highgpu-1g": 3.5}}}}))
    who = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x", "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x"}
    days = {"GIT_AUTHOR_DATE": "2026-01-31T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-31T00:00:00Z"}
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "prices"]):
        subprocess.run(["git", *command], cwd=repository, check=True, env={**os.environ, **who, **days})
    google_prices.main([f"file://{repository}"])
    made = json.loads((tmp_path / "made.json").read_text())
    assert (made["asOf"], made["onDemand"]) == ("2026-01-31", {"r": {"a2-highgpu-1g": "3.5"}})
    assert "onDemand of 2026-01-31: 1 prices in 1 regions" in capsys.readouterr().out


def test_a_gpu_that_a_template_attaches_names_the_family() -> None:
    assert quota_family("n1-standard-8+nvidia-tesla-t4") == "nvidia-tesla-t4"
    assert quota_family("c4-highcpu-4") == "c4"
    assert quota_family("g2-standard-4") in QUOTAS
