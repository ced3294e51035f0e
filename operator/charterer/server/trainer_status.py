"""Progress in Kubeflow Trainer's protocol, as Hugging Face's Trainer and Kubeflow's SDK report it by themselves.

Source: KEP-2779 of kubeflow/trainer (``UpdateTrainJobStatusRequest``). A body is

    {"trainerStatus": {"progressPercentage": 42, "estimatedRemainingSeconds": 600,
                       "metrics": [{"name": "loss", "value": "0.31"}], "lastUpdatedTime": "2026-11-26T20:00:00Z"}}

with each field optional. The work that is left is Charterer's own estimate, so the seconds and the time are checked at
most and not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from charterer.server.progress import ProgressReport
from charterer.server.report_fields import LARGEST, bad_field, json_object, number_in

_EXAMPLE: Final = '{"trainerStatus": {"progressPercentage": 42}}'
_DONE: Final = 100.0
_MOST_DIGITS: Final = 15


def parse_trainer_status(body: bytes, index: int, *, stopping: bool) -> ProgressReport:
    """The report of the pod of that index; Refused (400) names the field, its value and what to do."""
    status = json_object(body, _EXAMPLE).get("trainerStatus")
    if status is None:
        return ProgressReport(index=index)
    if not isinstance(status, Mapping):
        raise bad_field("trainerStatus", status, f"an object: send {_EXAMPLE}")
    return trainer_report(status, index, stopping=stopping)


def trainer_report(status: Mapping[str, object], index: int, *, stopping: bool) -> ProgressReport:
    """The same of the object ``trainerStatus``, which is also where Kubeflow Trainer keeps it in a TrainJob's status.

    Steps say more than whole percents: the metrics ``current_step`` and ``total_steps``, which Hugging Face's Trainer
    sends, count before the percentage. Two percentages are said whatever was trained, and say nothing: 0, when training
    begins, also where it goes on from a checkpoint; and 100 while the run is ``stopping``, because a loop that was left
    early says it like one that has ended.
    """
    percent = number_in(status, "progressPercentage", _DONE, "a number from 0 to 100: percent of the work that is done")
    number_in(status, "estimatedRemainingSeconds", LARGEST, "a number of seconds from 0; it may be left out")
    metrics = _metrics(status.get("metrics"))
    step, steps = (_whole(metrics.get(name)) for name in ("current_step", "total_steps"))
    if step is not None and steps:
        return ProgressReport(index=index, step=step, total_steps=steps)
    if percent is None or percent == 0.0 or (percent == _DONE and stopping):
        return ProgressReport(index=index)
    return ProgressReport(index=index, fraction=percent / _DONE)


def _metrics(listed: object) -> Mapping[str, str]:
    if listed is None:
        return {}
    if not isinstance(listed, list):
        raise bad_field("trainerStatus.metrics", listed, 'a list of {"name": text, "value": text}')
    metrics: dict[str, str] = {}
    for place, metric in enumerate(listed):
        name, value = (metric.get("name"), metric.get("value")) if isinstance(metric, Mapping) else (None, None)
        if not isinstance(name, str) or not isinstance(value, str):
            raise bad_field(f"trainerStatus.metrics[{place}]", metric, 'of the form {"name": text, "value": text}')
        metrics[name] = value
    return metrics


def _whole(text: str | None) -> int | None:
    """A count among the metrics, which are texts of any meaning; None where it is none."""
    is_count = text is not None and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_count and text is not None else None
