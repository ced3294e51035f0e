"""``charterer mcp``: its tools answer as the commands do, are typed, and cannot write."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from charterer.cli.mcp import ReadOnly, server
from charterer.cluster.errors import Unreachable, Withheld
from charterer.cluster.paths import TRAINING_JOBS
from tests.unit.cli.mcp_process import asked_world
from tests.unit.cli.worlds import charterer_over
from tests.worlds import NAMESPACE

ROOT = Path(__file__).parents[3]
JOB = """
apiVersion: charterer.dev/v1alpha1
kind: TrainingJob
metadata: {name: more}
spec: {gpus: {min: 1, max: 8}, template: {spec: {containers: [{name: t, image: "t:1"}]}}}
"""


def answer_of(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    answer: dict[str, Any] = result.structured_content or {}
    return answer


def error_of(result: CallToolResult) -> str:
    assert result.is_error
    (told,) = result.content
    assert isinstance(told, TextContent)
    return told.text


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


CASES = [
    ("plan", {}, ["plan"]),
    ("plan", {"prices": {"a100": "9.90"}}, ["plan", "--price", "a100=9.90"]),
    ("plan", {"amounts": {"research": "80000"}}, ["plan", "--amount", "research=80000"]),
    ("plan", {"manifests": JOB}, ["plan", "-f", "-"]),
    ("explain", {"job": "tj/train"}, ["explain", "tj/train"]),
    ("costs", {}, ["costs"]),
    ("costs", {"by": ["purpose"], "month": "2026-01"}, ["costs", "--by", "purpose", "--month", "2026-01"]),
    ("quote", {"manifests": JOB}, ["quote", "-f", "-"]),
    ("quote", {"manifests": JOB, "by": "friday"}, ["quote", "-f", "-", "--by", "friday"]),
]


@pytest.mark.parametrize(("tool", "given", "command"), CASES, ids=[" ".join(command) for _, _, command in CASES])
async def test_a_tool_answers_what_its_command_prints_as_json(
    tool: str, given: dict[str, Any], command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    charterer = charterer_over(asked_world(), monkeypatch)
    stdin = JOB if "-f" in command else None
    done = await asyncio.to_thread(charterer, *command, "-o", "json", stdin=stdin)
    printed = json.loads(done.stdout.replace("stdin", "manifests"))
    async with Client(server(ReadOnly(), "")) as agent:
        answer = answer_of(await agent.call_tool(tool, given))
    assert without_nulls(answer) == without_nulls(printed)
    assert set(answer) >= set(printed)


async def test_inputs_and_outputs_of_every_tool_are_typed_and_it_says_that_it_only_reads() -> None:
    async with Client(server(ReadOnly(), "")) as agent:
        tools = {tool.name: tool for tool in (await agent.list_tools()).tools}
    assert set(tools) == {"plan", "explain", "costs", "quote"}
    for tool in tools.values():
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.output_schema is not None
        assert len(tool.output_schema["properties"]) > 3
        assert all("description" in each or "default" in each for each in tool.input_schema["properties"].values())
    assert tools["explain"].input_schema["required"] == ["job"]


@pytest.mark.parametrize(
    ("tool", "given", "wanted"),
    [
        ("explain", {"job": "tj/tain"}, f"no TrainingJob 'tain' in namespace {NAMESPACE}: did you mean train?"),
        ("costs", {"month": "2026-13"}, "'2026-13' is no month: write year and month, like 2026-11"),
        ("costs", {"by": ["job"]}, "--by job needs a record of costs"),
        ("plan", {"prices": {"h100": "2.10"}}, "no GPUPool 'h100'"),
        ("plan", {"manifests": "[]"}, "manifests: this is no Kubernetes object"),
        ("quote", {"manifests": ""}, "a quote is of one TrainingJob, and the files have 0"),
        ("quote", {"manifests": JOB, "by": "soon"}, "'soon': write date and time with a zone"),
    ],
)
async def test_what_is_wrong_comes_back_with_what_to_write(
    tool: str, given: dict[str, Any], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    charterer_over(asked_world(), monkeypatch)
    async with Client(server(ReadOnly(), "")) as agent:
        assert wanted in error_of(await agent.call_tool(tool, given))


@pytest.mark.slow  # a process that imports the planner
async def test_a_client_of_the_protocol_speaks_to_the_command_over_stdin_and_stdout() -> None:
    python_path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "tests.unit.cli.mcp_process"], cwd=ROOT, env={"PYTHONPATH": python_path}
    )
    async with Client(command) as agent:
        explained = answer_of(await agent.call_tool("explain", {"job": "train"}))
        quoted = answer_of(await agent.call_tool("quote", {"manifests": JOB}))
        wrong = error_of(await agent.call_tool("explain", {"job": "tain"}))
    assert (explained["name"], explained["state"]) == ("train", "Queued")
    assert quoted["canRun"] is True
    assert set(quoted["choices"]) == {"cheapest", "budget", "fastest"}
    assert "did you mean train?" in wrong


async def test_its_client_sends_reads_and_dry_runs_and_nothing_else(tmp_path: Path) -> None:
    """Nothing listens at this address: what is sent finds nobody."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c"}}],
                "current-context": "c",
            }
        )
    )
    cluster = ReadOnly(kubeconfig)
    path = TRAINING_JOBS.all(NAMESPACE)
    async with cluster.client(cluster.access()) as client:
        for sent in (client.get(path), client.post(path, {}, dry_run=True)):
            with pytest.raises(Unreachable):
                await sent
        for withheld in (
            client.post(path, {}),
            client.put(path, {}),
            client.merge_patch(path, {}),
            client.delete(path),
        ):
            with pytest.raises(Withheld, match="charterer mcp changes nothing"):
                await withheld
