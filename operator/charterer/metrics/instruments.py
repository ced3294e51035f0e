"""The operator's metrics on their own registry, so that tests and several operators in one process do not share any."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from charterer import __version__
from charterer.domain.ids import PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.plan import Command, Plan
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import Step
from charterer.domain.time import Instant
from charterer.ledger.balance import OTHER
from charterer.metrics import catalogue
from charterer.metrics.catalogue import MetricSpec, MetricType
from charterer.metrics.unused_nodes import KeptBy, UnusedNodes
from charterer.metrics.view import JobTimes, MetricsSource, families

_PLAN_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CALL_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_HOUR = 3600.0
_JOB_BUCKETS = (
    *(10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0),
    *(hours * _HOUR for hours in (1, 2, 4, 8, 24, 48, 168)),
)
"""Ten seconds to a week, for the times of jobs."""
_NAMESPACES = 100
"""Number of namespaces with series of their own: the first that this process met.

Further namespaces share the label OTHER.
"""


class _Registry(CollectorRegistry):
    """A registry without the gauge ``..._created`` that prometheus_client adds to each counter and histogram series."""

    def collect(self) -> Iterable[Metric]:
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class _SnapshotCollector(Collector):
    def __init__(self) -> None:
        self.view: MetricsSource | None = None

    def collect(self) -> Iterable[Metric]:
        return families(self.view) if self.view is not None else ()

    def describe(self) -> Iterable[Metric]:
        return [Metric(spec.name, spec.help, spec.kind) for spec in catalogue.FROM_SNAPSHOT]


class _JobInstruments:
    """The ``JobTimesObserver`` that writes to the registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(spec: MetricSpec) -> Histogram:
            assert spec.kind is MetricType.HISTOGRAM
            return Histogram(spec.name, spec.help, spec.labels, registry=registry, buckets=_JOB_BUCKETS)

        self._waiting = histogram(catalogue.WAITING_SECONDS)
        self._running = histogram(catalogue.RUNNING_SECONDS)
        self._completion = histogram(catalogue.COMPLETION_SECONDS)
        ended, quotes = catalogue.RUNS_ENDED, catalogue.QUOTES
        self._ended = Counter(ended.name, ended.help, ended.labels, registry=registry)
        self._quotes = Counter(quotes.name, quotes.help, quotes.labels, registry=registry)

    def started(self, budget: str, namespace: str, waited: float) -> None:
        self._waiting.labels(budget=budget, namespace=namespace).observe(waited)

    def run_ended(self, budget: str, namespace: str, outcome: str) -> None:
        self._ended.labels(budget=budget, namespace=namespace, outcome=outcome).inc()

    def finished(self, budget: str, namespace: str, result: str, ran: float, took: float) -> None:
        self._running.labels(budget=budget, namespace=namespace).observe(ran)
        self._completion.labels(budget=budget, namespace=namespace, result=result).observe(took)

    def quoted(self, budget: str, namespace: str, figure: str, *, held: bool) -> None:
        labels = {"budget": budget, "namespace": namespace, "figure": figure}
        self._quotes.labels(**labels, outcome="held" if held else "missed").inc()


class Metrics:
    """Receives measurements and exposes them. Methods are cheap and may be called from any thread.

    ``per_job``: whether each job has series of its own, whose number is unbounded.
    """

    def __init__(self, version: str = __version__, *, per_job: bool = False) -> None:
        self.registry = _Registry()
        self._per_job = per_job
        self._namespaces: set[str] = set()
        self._draining_since: dict[RentalId, Instant] = {}
        self._job_times = JobTimes(_JobInstruments(self.registry), self._label)
        without_pod = self._counter(catalogue.NODE_WITHOUT_POD)

        def kept(pool: PoolId, cause: KeptBy, seconds: float) -> None:
            without_pod.labels(pool=pool, cause=cause.value).inc(seconds)

        self._unused = UnusedNodes(kept)
        self._snapshot = _SnapshotCollector()
        self.registry.register(self._snapshot)
        self._plans = Histogram(
            catalogue.PLAN_SECONDS.name, catalogue.PLAN_SECONDS.help, registry=self.registry, buckets=_PLAN_BUCKETS
        )
        self._turns = self._counter(catalogue.TURNS)
        for outcome in ("done", "failed"):
            self._turns.labels(outcome=outcome)  # Both series are 0 from the start, so that increases are visible.
        self._steps = self._counter(catalogue.STEPS)
        self._cloud_calls = self._counter(catalogue.CLOUD_CALLS)
        self._cloud_seconds = Histogram(
            catalogue.CLOUD_CALL_SECONDS.name,
            catalogue.CLOUD_CALL_SECONDS.help,
            catalogue.CLOUD_CALL_SECONDS.labels,
            registry=self.registry,
            buckets=_CALL_BUCKETS,
        )
        self._writes = self._counter(catalogue.API_WRITES)
        self._event_age = self._gauge(catalogue.LAST_EVENT_AGE)
        self._leader = self._gauge(catalogue.LEADER)
        self._gauge(catalogue.BUILD_INFO).labels(version=version).set(1)

    def _counter(self, spec: MetricSpec) -> Counter:
        assert spec.kind is MetricType.COUNTER
        return Counter(spec.name, spec.help, spec.labels, registry=self.registry)

    def _gauge(self, spec: MetricSpec) -> Gauge:
        assert spec.kind is MetricType.GAUGE
        return Gauge(spec.name, spec.help, spec.labels, registry=self.registry)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format, version 0.0.4."""
        return generate_latest(self.registry)

    def observe(self, snapshot: Snapshot, plan: Plan, state: Callable[[Job], str]) -> None:
        """Expose this snapshot, its plan and the jobs' states from now on. The gauges are computed at each scrape."""
        self._job_times.look(snapshot)
        self._unused.look(snapshot)
        self._draining_since = {
            name: self._draining_since.get(name, snapshot.now)
            for name, rental in snapshot.rentals.items()
            if rental.phase is RentalPhase.DRAINING
        }
        self._snapshot.view = MetricsSource(snapshot, plan, state, self._draining_since, self._per_job, self._label)

    def _label(self, namespace: str) -> str:
        if namespace not in self._namespaces and len(self._namespaces) >= _NAMESPACES:
            return OTHER
        self._namespaces.add(namespace)
        return namespace

    def plan_took(self, seconds: float) -> None:
        """Record the duration of one plan."""
        self._plans.observe(seconds)

    def turned(self, outcome: str) -> None:
        """Record the end of a turn of the loop: ``done`` or ``failed``."""
        self._turns.labels(outcome=outcome).inc()

    def step_done(self, step: Command | Step, outcome: str) -> None:
        """Record that a command or step was tried. ``outcome`` is one of a small fixed set of words."""
        self._steps.labels(step=type(step).__name__, outcome=outcome).inc()

    def cloud_called(self, provider: str, call: str, outcome: str, seconds: float) -> None:
        """Record a call of a cloud's API. ``outcome`` is ``ok`` or the kind of error."""
        self._cloud_calls.labels(provider=provider, call=call, outcome=outcome).inc()
        self._cloud_seconds.labels(provider=provider, call=call).observe(seconds)

    def api_written(self, verb: str, resource: str) -> None:
        """Record a write to the Kubernetes API, such as ``patch`` of ``trainingjobs/status``."""
        self._writes.labels(verb=verb, resource=resource).inc()

    def leading(self, is_leader: bool) -> None:
        """Record whether this replica leads."""
        self._leader.set(float(is_leader))

    def last_event_age(self, age: Callable[[], float]) -> None:
        """Set the function that returns, at each scrape, the seconds since the last watch event."""
        self._event_age.set_function(age)
