"""In a dry run every mutation is logged once, with its content but without secrets, and none is sent."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from charterer.app.process import DryRunLog
from charterer.cluster.errors import Withheld

RENTAL = "/apis/charterer.dev/v1alpha1/gpurentals"


def logged(caplog: pytest.LogCaptureFixture, *mutations: tuple[str, str, Any]) -> list[str]:
    caplog.set_level(logging.INFO)
    log = DryRunLog()
    for method, path, body in mutations:
        with pytest.raises(Withheld, match="dry run"):
            log.withhold(method, path, body)
    return [record.getMessage() for record in caplog.records]


def test_a_mutation_is_logged_with_its_object_and_content(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = logged(caplog, ("POST", RENTAL, {"metadata": {"name": "a100-1"}, "spec": {"pool": "a100"}}))
    content = '{"metadata":{"name":"a100-1"},"spec":{"pool":"a100"}}'
    assert line == f"dry run, not written: POST {RENTAL} {content}"


def test_what_is_tried_again_with_another_time_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    again = [("PATCH", f"{RENTAL}/a/status", {"at": f"2026-01-01T00:00:0{second}Z"}) for second in range(3)]
    assert len(logged(caplog, *again, ("PATCH", f"{RENTAL}/b/status", {"at": "2026-01-01T00:00:00Z"}))) == 2


def test_secrets_and_the_values_of_environment_variables_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    pod = {"spec": {"containers": [{"env": [{"name": "TOKEN", "value": "hunter2"}, {"name": "A", "valueFrom": {}}]}]}}
    lines = logged(
        caplog,
        ("POST", "/apis/batch/v1/namespaces/ml/jobs", {"spec": {"template": pod}}),
        (
            "PATCH",
            "/api/v1/namespaces/x/secrets/tls",
            {"data": {"tls.key": "aHVudGVyMg=="}, "metadata": {"name": "tls"}},
        ),
    )
    assert "hunter2" not in "".join(lines)
    assert "aHVudGVyMg" not in "".join(lines)
    assert '"name":"TOKEN"' in lines[0]
    assert '"metadata":{"name":"tls"}' in lines[1]


def test_what_only_asks_something_passes() -> None:
    DryRunLog().withhold("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {})
