"""Alerts in simulated time: each fires on its fault, after the time it is to wait, and none while all is well."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from charterer.domain.time import Instant
from tests.monitoring.support import RULES, alert_names
from tests.monitoring.worlds import FAULTS, WELL, Scene, World

_LOOKS = 110
_LAST = f"{_LOOKS - 1}m"


def _series(scene: Scene) -> list[Mapping[str, str]]:
    """What Prometheus would have scraped in ``_LOOKS`` minutes, of which the first ten are well."""
    clock = Instant(0)
    world = World(lambda: clock)
    values: dict[str, list[str]] = {}
    for look in range(_LOOKS):
        clock = Instant(look * 60_000_000)
        world.look(WELL if look < 10 else scene)
        for family in world.metrics.registry.collect():
            for sample in family.samples:
                labels = ",".join(f'{name}="{text}"' for name, text in sorted(sample.labels.items()))
                history = values.setdefault(f"{sample.name}{{{labels}}}", ["_"] * look)
                history.append(repr(float(sample.value)))
        for history in values.values():
            history.extend(["_"] * (look + 1 - len(history)))
    return [{"series": series, "values": " ".join(history)} for series, history in values.items()]


def _test_of(name: str, scene: Scene, firing: Mapping[str, int]) -> Mapping[str, Any]:
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": count} for alert, count in firing.items()]
    count = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "name": name,
        "interval": "1m",
        "input_series": _series(scene),
        "promql_expr_test": [
            {"expr": count, "eval_time": "9m"},
            {"expr": count, "eval_time": _LAST, "exp_samples": samples},
        ],
    }


def _check(promtool: Path, directory: Path, *tests: Mapping[str, Any]) -> str:
    """What promtool says against the tests; empty when they pass."""
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": list(tests)}
    file = directory / "tests.yaml"
    file.write_text(yaml.safe_dump(document))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_promtool_finds_nothing_to_complain_about(promtool: Path) -> None:
    done = subprocess.run([promtool, "check", "rules", "--lint-fatal", RULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_a_fault_for_every_alert() -> None:
    assert set(FAULTS) == set(alert_names())


def test_nothing_fires_while_all_is_well(promtool: Path, tmp_path: Path) -> None:
    assert _check(promtool, tmp_path, _test_of("well", WELL, {})) == ""


@pytest.mark.parametrize("alert", FAULTS)
def test_a_fault_fires_its_alert_and_no_other(alert: str, promtool: Path, tmp_path: Path) -> None:
    assert _check(promtool, tmp_path, _test_of(alert, FAULTS[alert], {alert: 1})) == ""


def test_a_hard_limit_above_counts_what_all_below_it_have_spent(promtool: Path, tmp_path: Path) -> None:
    firing = {"ChartererHardLimitExceeded": 1}
    exceeded = _test_of("exceeded", replace(WELL, spent="400", below="1600.01"), firing)
    reached = _test_of("reached", replace(WELL, spent="400", below="1600"), {})
    assert _check(promtool, tmp_path, exceeded, reached) == ""


def test_a_loop_that_makes_no_plan_is_told_although_its_process_is_restarted_again_and_again(
    promtool: Path, tmp_path: Path
) -> None:
    """As the liveness probe does: each time it leads anew, and turns once or not at all."""
    crashing = {
        "name": "crash loop",
        "interval": "30s",
        "input_series": [
            {"series": 'charterer_leader{pod="a"}', "values": " ".join(["0", "1", "1", "1", "_"] * 20)},
            {"series": 'charterer_turns_total{pod="a",outcome="done"}', "values": " ".join(["0 0 0 1 _"] * 20)},
        ],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "45m",
                "exp_samples": [{"labels": '{alertname="ChartererNotPlanning"}', "value": 1}],
            }
        ],
    }
    assert _check(promtool, tmp_path, crashing) == ""


def test_dollars_of_a_day_are_right_across_a_restart_on_another_pod(promtool: Path, tmp_path: Path) -> None:
    def series(pod: str, values: str) -> Mapping[str, str]:
        labels = f'budget="team",pool="a100",cause="job",pod="{pod}"'
        return {"series": f"charterer_spent_dollars_total{{{labels}}}", "values": values}

    query = "increase(max by (budget, pool, cause) (charterer_spent_dollars_total)[60m:1m])"
    restart = {
        "name": "restart",
        "interval": "1m",
        "input_series": [series("a", "1000+1x29 _x31"), series("b", "_x40 1040+1x20")],
        "promql_expr_test": [
            {
                "expr": f"round({query})",
                "eval_time": "60m",
                "exp_samples": [{"labels": '{budget="team", pool="a100", cause="job"}', "value": 60}],
            }
        ],
    }
    assert _check(promtool, tmp_path, restart) == ""
