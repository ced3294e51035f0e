"""Traces: what has a span, what is inside what, and which variables switch them on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from charterer.app.tracing import TracesUnavailable, spans_by, traced
from charterer.cluster import credentials
from charterer.cluster.client import Client
from charterer.cluster.errors import Unreachable
from charterer.cluster.paths import TRAINING_JOBS
from charterer.controller.loop import Loop, LoopTiming
from charterer.controller.outcome import ActionOutcome
from charterer.domain.plan import Command
from charterer.domain.steps import Step
from charterer.domain.time import Instant, after
from charterer.providers.errors import Throttled
from charterer.spans import no_span
from tests.unit.controller.test_loop import Recorder, a_job_waits
from tests.unit.providers.slow_cloud import POOL, SlowCloud, ask, guarded
from tests.virtual_time import clock, run_in_virtual_time

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Collected:
    """A collector in memory. ``span``: makes what it gets."""

    def __init__(self) -> None:
        self._memory = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.span = spans_by(provider)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._memory.get_finished_spans()

    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def of(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def parent(self, name: str) -> str:
        """The name of the span that it is in; empty for a root."""
        inside = self.of(name).parent
        named = {span.context.span_id: span.name for span in self.spans if span.context is not None}
        return "" if inside is None else named[inside.span_id]


def test_a_turn_holds_its_plan_and_what_it_carries_out_with_the_calls_of_that() -> None:
    collected = Collected()

    async def main() -> None:
        world, cloud = a_job_waits(), SlowCloud()
        account = guarded(cloud, span=collected.span)

        class AsksCloud(Recorder):
            async def execute(self, action: Command | Step) -> ActionOutcome:
                await account.ask(POOL, ask("c1"))
                return await super().execute(action)

        def now() -> Instant:
            return after(Instant(0), clock())

        recorder = AsksCloud(lambda action: ActionOutcome.DONE)
        loop = Loop(
            world.snapshot,
            now,
            recorder,
            recorder,
            asyncio.Event(),
            set(),
            LoopTiming(batch_idle_seconds=0.0),
            collected.span,
        )
        await loop.turn()

    run_in_virtual_time(main())
    assert {"observe", "plan", "Rent"} <= set(collected.names())
    assert [collected.parent(name) for name in ("turn", "observe", "plan", "Rent", "fake ask")] == [
        "",
        "turn",
        "turn",
        "turn",
        "Rent",
    ]
    assert collected.of("fake ask").kind is SpanKind.CLIENT
    assert dict(collected.of("fake ask").attributes or {}) == {"charterer.pools": POOL.id}
    assert str((collected.of("Rent").attributes or {})["charterer.object"]).startswith("rental/")


def test_an_error_of_a_cloud_is_in_its_span() -> None:
    collected = Collected()

    async def main() -> None:
        cloud = SlowCloud()
        cloud.error = Throttled(POOL.id, "quote", "RequestLimitExceeded", "slow down", 1.0)
        with pytest.raises(Throttled):
            await guarded(cloud, span=collected.span).quote(POOL)

    run_in_virtual_time(main())
    assert not collected.of("fake quote").status.is_ok
    assert "slow down" in str(collected.of("fake quote").status.description)


async def test_a_call_of_the_api_server_is_named_by_its_verb_and_resource(tmp_path: Path) -> None:
    """Nothing listens at this address, which the span tells."""
    collected, file = Collected(), tmp_path / "kubeconfig"
    file.write_text(
        '{"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], '
        '"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}'
    )
    async with Client(credentials.load(file), span=collected.span) as client:
        with pytest.raises(Unreachable):
            await client.get(TRAINING_JOBS.one("sft", "research"))
        with pytest.raises(Unreachable):
            await client.get("/version")
    assert collected.names() == ["GET trainingjobs", "GET"]
    span = collected.of("GET trainingjobs")
    assert span.kind is SpanKind.CLIENT
    assert (span.attributes or {})["url.path"] == TRAINING_JOBS.one("sft", "research")
    assert not span.status.is_ok


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_SERVICE_NAME": "charterer"},
        {ENDPOINT: "http://collector:4318", "OTEL_SDK_DISABLED": "true"},
        {ENDPOINT: "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"},
    ],
    ids=["nothing", "a name", "disabled", "none"],
)
def test_without_an_endpoint_or_where_it_is_switched_off_there_are_no_spans(environment: Mapping[str, str]) -> None:
    with traced(environment) as span:
        assert span is no_span


@pytest.mark.parametrize("name", [ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER"])
def test_an_endpoint_or_an_exporter_switches_them_on(name: str) -> None:
    value = "console" if name == "OTEL_TRACES_EXPORTER" else "http://127.0.0.1:1"
    with traced({name: value}) as span:
        assert span is not no_span


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin': write otlp or console"),
        (
            {ENDPOINT: "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc': Charterer sends http/protobuf",
        ),
    ],
)
def test_what_it_cannot_send_is_refused_with_what_to_write(environment: Mapping[str, str], wanted: str) -> None:
    with pytest.raises(TracesUnavailable, match=wanted), traced(environment):
        pass


def test_without_the_sdk_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charterer.app.tracing.find_spec", lambda name: None)
    wanted = rf"{ENDPOINT} asks for traces, .*pip install '\.\[traces\]'"
    with pytest.raises(TracesUnavailable, match=wanted), traced({ENDPOINT: "http://collector:4318"}):
        pass


def test_where_they_are_off_nothing_of_the_sdk_is_imported() -> None:
    code = """
import sys
from charterer.app.tracing import traced
from charterer.spans import no_span

with traced({}) as span:
    assert span("turn", {}) is no_span("plan", {})
print(*{name for name in sys.modules if name.startswith("opentelemetry")})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
