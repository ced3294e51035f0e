"""A report is read strictly where it carries a number, and leniently where it carries something new."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.server.listener import Refused
from charterer.server.progress import ProgressReport


def test_a_full_report_is_read() -> None:
    body = {"run": 2, "index": 1, "fraction": 0.42, "step": 1200, "totalSteps": 3000, "throughput": 812.5, "new": []}
    report = ProgressReport.parse(json.dumps(body).encode())
    assert report == ProgressReport(run=2, index=1, fraction=0.42, step=1200, total_steps=3000, throughput=812.5)


def test_an_empty_report_only_listens() -> None:
    assert not ProgressReport.parse(b"{}").says_something


def test_the_fraction_follows_from_the_steps_where_it_is_not_said() -> None:
    assert ProgressReport(step=30, total_steps=120).done == 0.25
    assert ProgressReport(step=130, total_steps=120).done == 1.0
    assert ProgressReport(step=30).done is None
    assert ProgressReport(step=30, total_steps=0).done is None
    assert ProgressReport(fraction=0.5, step=30, total_steps=120).done == 0.5


def test_what_a_class_is_learned_from_is_read() -> None:
    report = ProgressReport.parse(b'{"batch": 512, "stepSeconds": 0.25, "gradSqr": -0.5, "gradVar": 3.5}')
    assert report == ProgressReport(batch=512, step_seconds=0.25, grad_sqr=-0.5, grad_var=3.5)


def test_the_parts_of_a_step_are_read() -> None:
    report = ProgressReport.parse(b'{"index": 3, "computeSeconds": 0.5, "syncSeconds": 0, "loadSeconds": 0.25}')
    assert report == ProgressReport(index=3, compute_seconds=0.5, sync_seconds=0.0, load_seconds=0.25)


def test_seconds_per_step_follow_from_samples_a_second_where_they_are_not_said() -> None:
    assert ProgressReport(batch=512, step_seconds=0.25, throughput=1.0).seconds_per_step == 0.25
    assert ProgressReport(batch=512, throughput=1024.0).seconds_per_step == 0.5
    assert ProgressReport(batch=512).seconds_per_step is None
    assert ProgressReport(throughput=1024.0).seconds_per_step is None
    assert ProgressReport(batch=512, throughput=0.0).seconds_per_step is None
    assert ProgressReport(batch=10**9, throughput=1e-9).seconds_per_step is None


@pytest.mark.parametrize("field", ["fraction", "stepSeconds", "throughput", "gradSqr", "step", "batch"])
def test_a_whole_number_too_large_for_arithmetic_is_refused_like_any_other(field: str) -> None:
    with pytest.raises(Refused, match=f"{field}: 1000000"):
        ProgressReport.parse(json.dumps({field: 10**400}).encode())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch", 0),
        ("batch", 10**10),
        ("batch", 1.5),
        ("checkpointSeconds", -1),
        ("checkpointSeconds", 1e6),
        ("computeSeconds", -1),
        ("syncSeconds", 1e6),
        ("loadSeconds", "1"),
        ("stepSeconds", 0),
        ("stepSeconds", -1),
        ("stepSeconds", 1e6),
        ("stepSeconds", "1"),
        ("gradSqr", -1e31),
        ("gradVar", -1),
        ("gradVar", 1e31),
        ("gradVar", True),
        ("fraction", 1.01),
        ("fraction", -0.1),
        ("fraction", "0.5"),
        ("fraction", True),
        ("step", -1),
        ("step", 1.5),
        ("step", 10**16),
        ("throughput", 1e300),
        ("throughput", [1]),
        ("run", "2"),
        ("index", False),
    ],
)
def test_a_wrong_number_is_refused_by_field_and_value(field: str, value: object) -> None:
    with pytest.raises(Refused) as refused:
        ProgressReport.parse(json.dumps({field: value}).encode())
    assert refused.value.status == 400
    assert refused.value.message.startswith(f"{field}: {value!r}")


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_no_number_is_not_a_number(text: str) -> None:
    with pytest.raises(Refused, match="fraction"):
        ProgressReport.parse(b'{"fraction": ' + text.encode() + b"}")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"3", b"\xff", b"[" * 4000])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(Refused) as refused:
        ProgressReport.parse(body)
    assert refused.value.status == 400


@given(
    st.binary(max_size=60)
    | st.dictionaries(st.text(max_size=5), st.floats() | st.integers()).map(
        lambda content: json.dumps(content).encode()
    )
)
def test_any_body_is_either_a_report_or_refused(body: bytes) -> None:
    with suppress(Refused):
        report = ProgressReport.parse(body)
        assert report.done is None or 0 <= report.done <= 1
