"""Names of objects are completed from the cluster, or not at all: silently, and in about a second."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from click.testing import CliRunner

from charterer.cli.main import main
from charterer.cluster.client import Client, Page
from charterer.cluster.credentials import Access
from charterer.cluster.errors import ApiError, Forbidden
from charterer.tools.commands.shared.cluster import ClusterOptions

Raw = Mapping[str, Any]


def named(*names: str) -> list[Raw]:
    return [{"metadata": {"name": name}, "spec": {}} for name in names]


FOR_JOB: Raw = {"metadata": {"name": "job-whisper"}, "spec": {"targetRef": {"kind": "Job", "name": "whisper"}}}
LISTS = {
    "/apis/charterer.dev/v1alpha1/namespaces/research/trainingjobs": [*named("sft", "sweep", "eval"), FOR_JOB],
    "/apis/charterer.dev/v1alpha1/namespaces/other/trainingjobs": named("solo"),
    "/apis/charterer.dev/v1alpha1/gpupools": named("h100", "a100"),
    "/apis/charterer.dev/v1alpha1/gpubudgets": named("research", "rest"),
    "/api/v1/namespaces": named("research", "other"),
}


class Asked(NamedTuple):
    namespace: str


class Lists:
    """An API server that has lists, each in pages of two objects; ``hangs``: none comes after the first."""

    def __init__(self, error: ApiError | None = None, *, hangs: bool = False) -> None:
        self._error, self._hangs = error, hangs

    async def __aenter__(self) -> Lists:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def pages(self, path: str) -> AsyncIterator[Page]:
        if self._error is not None:
            raise self._error
        items = cast(list[dict[str, Any]], LISTS[path])
        for start in range(0, len(items), 2):
            yield Page(tuple(items[start : start + 2]), 1)
            if self._hangs:
                await asyncio.Event().wait()


def serve(monkeypatch: pytest.MonkeyPatch, lists: Lists) -> None:
    monkeypatch.setattr(ClusterOptions, "access", lambda self: cast(Access, Asked("research")))
    monkeypatch.setattr(ClusterOptions, "client", lambda self, access: cast(Client, lists))


def offered(*words: str) -> list[str]:
    """What bash is offered for the last of the words; stderr is part of it."""
    environment = {
        "_CHARTERER_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["charterer", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = CliRunner().invoke(main, [], env=environment, prog_name="charterer")
    return [line.removeprefix("plain,") for line in done.output.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["explain", "s"], ["sft", "sweep"]),
        (["logs", "tj/s"], ["tj/sft", "tj/sweep"]),
        (["explain", "job/"], ["job/whisper"]),
        (["explain", "-n", "other", "s"], ["solo"]),
        (["plan", "-n", "o"], ["other"]),
        (["run", "--namespace", "r"], ["research"]),
        (["preflight", "h"], ["h100"]),
        (["costs", "--budget", "re"], ["research", "rest"]),
        (["report", "rest"], ["rest"]),
    ],
    ids=" ".join,
)
def test_names_come_from_the_cluster(words: list[str], names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, Lists())
    assert offered(*words) == names


def test_where_nobody_may_read_nothing_is_offered_and_nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, Lists(Forbidden("GET", "/", 403, "Forbidden", "no")))
    assert offered("explain", "s") == []


def test_without_a_kubeconfig_nothing_is_offered_and_nothing_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert offered("explain", "s") == []


def test_of_a_list_that_does_not_end_in_time_the_part_that_came_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charterer.tools.commands.shared.completion._SECONDS", 0.01)
    serve(monkeypatch, Lists(hangs=True))
    assert offered("explain", "") == ["sft", "sweep"]


class Ended(BaseException):
    """In place of the process' end."""


def test_what_cannot_be_cancelled_ends_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a credential plug-in that waits for a person."""
    let_go = threading.Event()

    def end(code: int) -> None:
        raise Ended(code)

    serve(monkeypatch, Lists())
    monkeypatch.setattr(ClusterOptions, "access", lambda self: let_go.wait())
    monkeypatch.setattr("charterer.tools.commands.shared.completion._LATEST_SECONDS", 0.01)
    monkeypatch.setattr("charterer.tools.commands.shared.completion.os._exit", end)
    try:
        with pytest.raises(Ended):
            offered("explain", "s")
    finally:
        let_go.set()
    assert not logging.root.manager.disable
