"""Valid and invalid configurations, and faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from charterer.tools.fakecloud.config import FaultKind, Faults, FaultSpec, load_config
from tests.unit.fakecloud.world import A100, config

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "fakecloud.yaml"


def test_the_example_is_valid() -> None:
    assert [group.name for group in load_config(EXAMPLE).groups] == ["a100-on-demand", "a100-spot", "t4-on-demand"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: [{name: a100}]", r"groups\.0\.instanceType: Field required"),
        ("grops: []", r"grops: Extra inputs are not permitted"),
        ("groups: {", "is not valid YAML"),
    ],
)
def test_a_mistake_in_a_file_is_reported_with_file_and_field(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "cloud.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        load_config(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hourlyPrice": "12.3456789"}, "decimal number"),
        ({"hourlyPrice": 12.8}, "valid string"),
        ({"startupSeconds": []}, "at least 1 item"),
        ({"startupSeconds": "H100"}, "'K80' or 'P100'"),
        ({"spotFactor": "1.5"}, "above 1"),
        ({"initialTarget": 9}, "above maxSize 8"),
        ({"changes": [{"afterSeconds": 1, "name": "b"}]}, "cannot be changed on a schedule"),
        ({"changes": [{"afterSeconds": 1, "stok": 0}]}, "stok"),
        ({"name": "A_100"}, "match pattern"),
    ],
)
def test_a_group_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(fields)


def test_a_groups_name_is_used_once() -> None:
    with pytest.raises(ValueError, match="'a100' is used twice"):
        config({}, {})


def test_a_group_written_and_read_again_is_the_same() -> None:
    group = config({"changes": [{"afterSeconds": 60, "stock": 0}], "startupSeconds": "K80"}).groups[0]
    assert group.patched({}) == group


def fault(**fields: Any) -> FaultSpec:
    return FaultSpec.model_validate({"kind": "error", **fields})


def test_a_fault_hits_the_calls_it_matches_as_often_as_it_says() -> None:
    faults = Faults(0, (fault(match={"method": "PUT", "path": "/v1/groups/a*/target"}, times=2),))
    calls = [("GET", "/v1/groups/a100/target"), ("PUT", "/v1/groups/b/target")]
    assert [faults.draw(*call) for call in calls] == [None, None]
    hits = [faults.draw("PUT", "/v1/groups/a100/target") for _ in range(3)]
    assert [hit is not None for hit in hits] == [True, True, False]
    assert faults.waiting() == []


def test_faults_of_a_probability_hit_that_share_of_calls_and_never_wear_off() -> None:
    faults = Faults(1, (fault(kind=FaultKind.THROTTLE, times=None, probability=0.25),))
    hits = sum(faults.draw("GET", "/v1/groups") is not None for _ in range(2000))
    assert 400 < hits < 600
    assert len(faults.waiting()) == 1


def test_plain_group_needs_only_its_required_fields() -> None:
    assert config().groups[0].startup_draws == tuple(float(second) for second in A100["startupSeconds"])
