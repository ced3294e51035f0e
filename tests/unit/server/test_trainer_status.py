"""What a report in Kubeflow Trainer's protocol says of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from charterer.server.listener import Refused
from charterer.server.progress import ProgressReport, parse_trainer_status


def parsed(status: object, *, index: int = 0, stopping: bool = False) -> ProgressReport:
    return parse_trainer_status(json.dumps({"trainerStatus": status}).encode(), index, stopping=stopping)


def metrics(**values: object) -> list[dict[str, str]]:
    return [{"name": name, "value": str(value)} for name, value in values.items()]


@pytest.mark.parametrize("percent", [1, 42, 42.5, 99, 100])
def test_a_percentage_is_a_fraction(percent: float) -> None:
    assert parsed({"progressPercentage": percent}).done == percent / 100


def test_the_pod_has_its_index() -> None:
    assert parsed({"progressPercentage": 42}, index=3).index == 3


def test_steps_count_before_whole_percents() -> None:
    listed = metrics(loss=0.31, current_step=1234, total_steps=10_000)
    report = parsed({"progressPercentage": 12, "estimatedRemainingSeconds": 600, "metrics": listed})
    assert (report.step, report.total_steps, report.done) == (1234, 10_000, 0.1234)


@pytest.mark.parametrize(
    "listed",
    [
        metrics(current_step="many", total_steps=10),
        metrics(current_step=-1, total_steps=10),
        metrics(current_step=3, total_steps=0),
        metrics(current_step="9" * 5000, total_steps=10),
        metrics(total_steps=10),
    ],
)
def test_metrics_may_mean_anything_and_then_the_percentage_counts(listed: list[dict[str, str]]) -> None:
    report = parsed({"progressPercentage": 12, "metrics": listed})
    assert (report.step, report.done) == (None, 0.12)


def test_training_that_begins_says_nothing_of_what_was_done_before() -> None:
    assert not parsed({"progressPercentage": 0, "metrics": metrics(total_steps=10)}).says_something


def test_all_done_is_not_believed_of_a_run_that_is_stopping_but_its_steps_are() -> None:
    assert not parsed({"progressPercentage": 100}, stopping=True).says_something
    assert parsed({"metrics": metrics(current_step=10, total_steps=10)}, stopping=True).done == 1.0
    assert parsed({"progressPercentage": 99}, stopping=True).done == 0.99


@pytest.mark.parametrize("body", [b"{}", b'{"trainerStatus": null}', b'{"trainerStatus": {}, "more": 1}'])
def test_a_report_may_say_nothing(body: bytes) -> None:
    assert not parse_trainer_status(body, 0, stopping=False).says_something


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (7, "trainerStatus: 7 is not an object: send"),
        ({"progressPercentage": "42"}, "progressPercentage: '42' is not a number from 0 to 100"),
        ({"progressPercentage": -1}, "progressPercentage: -1 is not a number from 0 to 100"),
        ({"progressPercentage": True}, "progressPercentage: True is not"),
        ({"progressPercentage": float("nan")}, "progressPercentage: nan is not"),
        ({"estimatedRemainingSeconds": -5}, "estimatedRemainingSeconds: -5 is not a number of seconds"),
        ({"metrics": {"loss": 1}}, "metrics: {'loss': 1} is not a list of"),
        (
            {"metrics": [{"name": "loss", "value": 0.3}]},
            "metrics[0]: {'name': 'loss', 'value': 0.3} is not of the form",
        ),
        ({"metrics": [*metrics(loss=1), "more"]}, "metrics[1]: 'more' is not of the form"),
    ],
)
def test_a_value_of_another_form_is_refused_with_its_field(status: Any, wanted: str) -> None:
    with pytest.raises(Refused) as refused:
        parsed(status)
    assert refused.value.status == 400
    assert wanted in refused.value.message


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 60_000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(Refused, match=r"not JSON|not a JSON object"):
        parse_trainer_status(body, 0, stopping=False)
