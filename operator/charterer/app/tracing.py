"""Traces by OpenTelemetry. OpenTelemetry's own environment variables switch them on. Otherwise no module of it is
imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from charterer import __version__
from charterer.spans import Span, no_span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_EXPORTER: Final = "OTEL_TRACES_EXPORTER"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PACKAGES: Final = ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class TracesUnavailable(Exception):
    """Traces are requested and cannot be sent. The message names the variable and says what to do."""


@contextmanager
def traced(environment: Mapping[str, str]) -> Iterator[Span]:
    """Yield the function that makes spans, and send the last spans at the end. Raises TracesUnavailable.

    No span is made unless a variable names an endpoint or an exporter. The SDK itself reads the other variables, such
    as those of sampling and batches, from the process' environment.
    """
    if not _wanted(environment):
        yield no_span
        return
    exporter = _exporter(environment)
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    attributes = {"service.version": __version__}
    given = environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if "OTEL_SERVICE_NAME" not in environment and "service.name=" not in given:
        attributes["service.name"] = "charterer"
    provider = TracerProvider(resource=Resource.create(attributes))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield spans_by(provider)
    finally:
        provider.shutdown()


def spans_by(provider: TracerProvider) -> Span:
    """Return the function that makes spans of this provider."""
    from opentelemetry.trace import SpanKind

    tracer = provider.get_tracer("charterer", __version__)

    def span(name: str, attributes: Mapping[str, str], *, outgoing: bool = False) -> AbstractContextManager[object]:
        kind = SpanKind.CLIENT if outgoing else SpanKind.INTERNAL
        return tracer.start_as_current_span(name, kind=kind, attributes=attributes)

    return span


def _wanted(environment: Mapping[str, str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get(_EXPORTER, "").strip()
    return exporter != "none" if exporter else any(environment.get(name) for name in _ENDPOINTS)


def _exporter(environment: Mapping[str, str]) -> SpanExporter:
    name = environment.get(_EXPORTER, "").strip() or "otlp"
    if name not in ("otlp", "console"):
        raise TracesUnavailable(f"{_EXPORTER} is {name!r}: write otlp or console, or none for no traces")
    if not all(map(find_spec, _PACKAGES)):
        given = _EXPORTER if environment.get(_EXPORTER) else next(key for key in _ENDPOINTS if environment.get(key))
        raise TracesUnavailable(
            f"{given} asks for traces, which need the OpenTelemetry SDK: pip install '.[traces]' in a checkout, or set "
            f"{_EXPORTER}=none"
        )
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    for variable in _PROTOCOLS:
        protocol = environment.get(variable, "").strip()
        if protocol and protocol != "http/protobuf":
            raise TracesUnavailable(
                f"{variable} is {protocol!r}: Charterer sends http/protobuf: leave it away, and name the HTTP endpoint "
                "of the collector, as a rule on port 4318"
            )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
