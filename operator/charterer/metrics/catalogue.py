"""Every metric with its name, type, labels and meaning. The table in docs/metrics.md is generated from this module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.budget import JobTime
from charterer.metrics.unused_nodes import KeptBy


class MetricType(StrEnum):
    """The Prometheus type."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric as it is exposed. The name of a counter ends in ``_total``."""

    name: str
    kind: MetricType
    labels: tuple[str, ...]
    help: str


def _gauge(name: str, labels: Sequence[str], meaning: str) -> MetricSpec:
    return MetricSpec(name, MetricType.GAUGE, tuple(labels), meaning)


_BUDGET = ("budget",)
_POOL = ("pool",)
_JOB = ("namespace", "training_job")
_PAYER = ("budget", "namespace")

BUDGET_AMOUNT = _gauge("charterer_budget_amount_dollars", _BUDGET, "Amount of the budget's period.")
BUDGET_HARD_LIMIT = _gauge(
    "charterer_budget_hard_limit_dollars", _BUDGET, "Hard limit of the budget's period; absent where none is set."
)
BUDGET_GPU_HOURS = _gauge(
    "charterer_budget_gpu_hours",
    ("budget", "gpu_type"),
    "Amount of GPU-hours of the budget's period (`spec.gpuHours`); absent where none is set.",
)
BUDGET_GPU_HOURS_USED = _gauge(
    "charterer_budget_gpu_hours_used",
    ("budget", "gpu_type"),
    "Used of that amount in the period so far, by the budget and all below it; begins anew with each period.",
)
BUDGET_GPU_HOURS_RELEASED = _gauge(
    "charterer_budget_gpu_hours_released",
    ("budget", "gpu_type"),
    "Part of that amount for the time so far and the next ten days. While more is used, no job begins there.",
)
BUDGET_AIM = _gauge(
    "charterer_budget_aim_dollars",
    _BUDGET,
    "What counts of the amount in the budget's period, what the last period carried over, and loans.",
)
BUDGET_SPENT = _gauge(
    "charterer_budget_spent_dollars",
    _BUDGET,
    "Spent in the budget's period so far, opening spend and running nodes included; begins anew with each period.",
)
BUDGET_COMMITTED = _gauge(
    "charterer_budget_committed_dollars",
    _BUDGET,
    "Spent in the period so far, and the worst case still to be spent on what is rented.",
)
BUDGET_TREE_AMOUNT = _gauge(
    "charterer_budget_with_descendants_amount_dollars",
    _BUDGET,
    "Of a budget that is above others: what it and all below it may aim at together in their present periods.",
)
BUDGET_TREE_SPENT = _gauge(
    "charterer_budget_with_descendants_spent_dollars",
    _BUDGET,
    "Spent in the period so far by a budget that is above others and all below it.",
)
BUDGET_TREE_COMMITTED = _gauge(
    "charterer_budget_with_descendants_committed_dollars",
    _BUDGET,
    "The same with the worst case still to be spent on what is rented: its hard limit bounds it.",
)
BUDGET_TREE_FORECAST = _gauge(
    "charterer_budget_with_descendants_forecast_dollars",
    _BUDGET,
    "The same at the end of the period; absent until it is known of all of them.",
)
BUDGET_IN_SIGHT = _gauge(
    "charterer_budget_in_sight_dollars",
    _BUDGET,
    "What the nodes of running and waiting jobs still cost in the period, until they can be given back.",
)
BUDGET_TO_COME = _gauge(
    "charterer_budget_to_come_dollars", _BUDGET, "What jobs to come are expected to cost until the end of the period."
)
BUDGET_FORECAST = _gauge(
    "charterer_budget_forecast_dollars",
    _BUDGET,
    "Expected spend at the end of the period; absent until it is known how often jobs come.",
)
BUDGET_FORECAST_LOW = _gauge(
    "charterer_budget_forecast_low_dollars", _BUDGET, "Lower end of the 90 % interval of the forecast."
)
BUDGET_FORECAST_HIGH = _gauge(
    "charterer_budget_forecast_high_dollars", _BUDGET, "Upper end of the 90 % interval of the forecast."
)
BUDGET_RENTED_RATE = _gauge(
    "charterer_budget_rented_dollars_per_hour", _BUDGET, "Dollars an hour that the nodes billed now cost."
)
BUDGET_PLANNED_RATE = _gauge(
    "charterer_budget_planned_dollars_per_hour",
    _BUDGET,
    "Dollars an hour that the chosen options cost in the long run.",
)
BUDGET_ALLOWED_RATE = _gauge(
    "charterer_budget_allowed_dollars_per_hour",
    _BUDGET,
    "Dollars an hour that the budget may spend now: even spending, corrected for what was spent so far.",
)
BUDGET_EXCHANGE_RATE = _gauge(
    "charterer_budget_exchange_rate_dollars_per_hour",
    _BUDGET,
    "Dollars that an hour of a job's life is worth to the budget.",
)
BUDGET_FEASIBLE = _gauge(
    "charterer_budget_feasible", _BUDGET, "1 while even the cheapest options of all jobs fit into the budget, else 0."
)

SPENT = MetricSpec(
    "charterer_spent_dollars_total",
    MetricType.COUNTER,
    ("budget", "pool", "cause"),
    "Dollars spent on rented nodes since the budget exists, by cause: job, starting, idle, ending or incomplete_gang.",
)
NAMESPACE_SPENT = MetricSpec(
    "charterer_namespace_spent_dollars_total",
    MetricType.COUNTER,
    _PAYER,
    "Of the dollars with the cause job, those of the namespace's jobs.",
)
LOST = MetricSpec(
    "charterer_lost_dollars_total",
    MetricType.COUNTER,
    ("budget", "namespace", "cause"),
    "Dollars lost since the budget exists, each in one cause: starting, idle, ending and incomplete_gang, which are of "
    f"no namespace, and of jobs {', '.join(kind for kind in JobTime if kind.lost)}.",
)
UNKNOWN = MetricSpec(
    "charterer_unknown_dollars_total",
    MetricType.COUNTER,
    _BUDGET,
    "Of the dollars with the cause job, those of which nothing is reported: whether the GPUs trained is not known.",
)
LONGEST_WAIT = _gauge(
    "charterer_budget_longest_wait_seconds",
    _BUDGET,
    "Seconds for which the longest-waiting job has waited for GPUs; 0 while none waits.",
)

POOL_GPUS = _gauge(
    "charterer_pool_gpus",
    ("pool", "state"),
    "GPUs of billed nodes: starting, used by our pods, or idle; the sum is rented.",
)
POOL_NODES = _gauge(
    "charterer_pool_nodes", ("pool", "state"), "Rentals by phase: requested, starting, ready or draining."
)
POOL_MAX_NODES = _gauge(
    "charterer_pool_max_nodes",
    _POOL,
    "The most nodes the pool may have: spec.maxNodes, or less if its group takes less.",
)
POOL_NODE_PRICE = _gauge("charterer_pool_node_price_dollars_per_hour", _POOL, "Price of one node now.")
POOL_PRICE_TIMESTAMP = _gauge(
    "charterer_pool_price_timestamp_seconds", _POOL, "When the price was read, in seconds since 1970."
)
POOL_LONGEST_START = _gauge(
    "charterer_pool_longest_start_seconds",
    _POOL,
    "Seconds since the oldest node that is not ready yet was asked for; 0 while there is none.",
)
POOL_LONGEST_END = _gauge(
    "charterer_pool_longest_end_seconds",
    _POOL,
    "Seconds for which this process has seen the longest-draining node drain; 0 while none does.",
)
POOL_SCARCITY = _gauge(
    "charterer_pool_scarcity_dollars_per_gpu_hour",
    _POOL,
    "Dollars that an hour of one more GPU would be worth on top of its price; 0 while the pool is not full.",
)
POOL_COOLING = _gauge(
    "charterer_pool_cooling", _POOL, "1 while no node is asked for because the cloud refused one, else 0."
)

NODE_WITHOUT_POD = MetricSpec(
    "charterer_node_without_pod_seconds_total",
    MetricType.COUNTER,
    ("pool", "cause"),
    "Seconds for which ready nodes were billed without a live pod of a run, before the first, between two or beyond "
    f"the last one, by what kept them: {', '.join(KeptBy)}.",
)

POOL_GONE_RENTALS = _gauge(
    "charterer_pool_gone_rentals", _POOL, "Rentals that have not ended of a GPUPool whose object is gone."
)

STOPPED = _gauge(
    "charterer_stopped", ("mode",), "1 while a person has stopped the operator, by mode: rent or drain; else absent."
)
NODES = _gauge("charterer_nodes", (), "Rentals of all pools that have not ended, as the operator's limits count them.")
NODES_LIMIT = _gauge("charterer_nodes_limit", (), "The operator's limit of nodes; absent where none is set.")
HOURLY_LIMIT = _gauge(
    "charterer_dollars_per_hour_limit", (), "The operator's limit of dollars an hour; absent where none is set."
)

JOBS = _gauge("charterer_jobs", ("namespace", "state"), "TrainingJobs by the word in their State column.")
NAMESPACE_GPUS = _gauge("charterer_namespace_gpus", ("namespace",), "GPUs allocated to the namespace's jobs.")
JOB_WIDTH = _gauge(
    "charterer_job_width_gpus", _JOB, "GPUs allocated to the job; only with `jobMetrics`, absent while it has none."
)
JOB_PROGRESS = _gauge(
    "charterer_job_progress_ratio", _JOB, "Fraction of the job done, 0 to 1; only with `jobMetrics`, where known."
)

BOTTLENECK_JOBS = _gauge(
    "charterer_bottleneck_jobs",
    ("namespace", "bottleneck"),
    "Running jobs by what holds them up, the type of their condition; absent where it holds up none.",
)
BOTTLENECK_RATE = _gauge(
    "charterer_bottleneck_dollars_per_hour",
    ("namespace", "bottleneck"),
    "Dollars an hour of these jobs' GPUs that the bottleneck takes.",
)

INTERACTIVE_RATE = _gauge(
    "charterer_interactive_dollars_per_hour",
    ("namespace", "state"),
    "Dollars an hour of GPUs that interactive jobs hold: busy while a cell runs, idle while none does, else unknown.",
)

RENTAL_INFO = _gauge(
    "charterer_rental_info",
    ("node", "provider_id", "instance_type", "pool", "budget"),
    "1 for every rented node; joins pool and budget to the metrics of OpenCost and kube-state-metrics.",
)

WAITING_SECONDS = MetricSpec(
    "charterer_job_waiting_seconds",
    MetricType.HISTOGRAM,
    _PAYER,
    "From a job's creation until it first got GPUs; observed then.",
)
RUNNING_SECONDS = MetricSpec(
    "charterer_job_running_seconds",
    MetricType.HISTOGRAM,
    _PAYER,
    "How long a finished job held GPUs, all its runs together; observed at its end.",
)
COMPLETION_SECONDS = MetricSpec(
    "charterer_job_completion_seconds",
    MetricType.HISTOGRAM,
    (*_PAYER, "result"),
    "From a job's creation to its end, by result: complete or failed; observed at its end.",
)
QUOTES = MetricSpec(
    "charterer_quotes_total",
    MetricType.COUNTER,
    (*_PAYER, "figure", "outcome"),
    "Quotes of jobs that completed, by figure (cost or end) and outcome: held, or missed. Nine of ten should be held.",
)
RUNS_ENDED = MetricSpec(
    "charterer_runs_ended_total",
    MetricType.COUNTER,
    (*_PAYER, "outcome"),
    "Runs that ended, by outcome: complete, failed, interrupted (its machines were lost), stopped (by the plan), "
    "notstarted (not all its pods ever ran) or stalled (it did not advance any more).",
)

PLAN_SECONDS = MetricSpec("charterer_plan_duration_seconds", MetricType.HISTOGRAM, (), "Time one plan took.")
TURNS = MetricSpec(
    "charterer_turns_total",
    MetricType.COUNTER,
    ("outcome",),
    "Turns of the planning loop by outcome: done, or failed (no plan could be made or shown; the log says why).",
)
STEPS = MetricSpec(
    "charterer_steps_total",
    MetricType.COUNTER,
    ("step", "outcome"),
    "Commands and steps carried out, by type and outcome.",
)
CLOUD_CALLS = MetricSpec(
    "charterer_cloud_calls_total",
    MetricType.COUNTER,
    ("provider", "call", "outcome"),
    "Calls of a cloud's API by outcome.",
)
CLOUD_CALL_SECONDS = MetricSpec(
    "charterer_cloud_call_duration_seconds",
    MetricType.HISTOGRAM,
    ("provider", "call"),
    "Time a call of a cloud's API took.",
)
API_WRITES = MetricSpec(
    "charterer_api_writes_total",
    MetricType.COUNTER,
    ("verb", "resource"),
    "Writes to the Kubernetes API by verb and resource.",
)
LAST_EVENT_AGE = _gauge("charterer_last_event_age_seconds", (), "Time since the last watch event arrived.")
LEADER = _gauge("charterer_leader", (), "1 on the replica that leads, else 0.")
BUILD_INFO = _gauge("charterer_build_info", ("version",), "1, labelled with the version that runs.")

FROM_SNAPSHOT = (
    BUDGET_AMOUNT,
    BUDGET_HARD_LIMIT,
    BUDGET_GPU_HOURS,
    BUDGET_GPU_HOURS_USED,
    BUDGET_GPU_HOURS_RELEASED,
    BUDGET_AIM,
    BUDGET_SPENT,
    BUDGET_COMMITTED,
    BUDGET_TREE_AMOUNT,
    BUDGET_TREE_SPENT,
    BUDGET_TREE_COMMITTED,
    BUDGET_TREE_FORECAST,
    BUDGET_IN_SIGHT,
    BUDGET_TO_COME,
    BUDGET_FORECAST,
    BUDGET_FORECAST_LOW,
    BUDGET_FORECAST_HIGH,
    BUDGET_RENTED_RATE,
    BUDGET_PLANNED_RATE,
    BUDGET_ALLOWED_RATE,
    BUDGET_EXCHANGE_RATE,
    BUDGET_FEASIBLE,
    LONGEST_WAIT,
    SPENT,
    NAMESPACE_SPENT,
    LOST,
    UNKNOWN,
    POOL_GPUS,
    POOL_NODES,
    POOL_MAX_NODES,
    POOL_NODE_PRICE,
    POOL_PRICE_TIMESTAMP,
    POOL_SCARCITY,
    POOL_COOLING,
    POOL_LONGEST_START,
    POOL_LONGEST_END,
    POOL_GONE_RENTALS,
    STOPPED,
    NODES,
    NODES_LIMIT,
    HOURLY_LIMIT,
    JOBS,
    NAMESPACE_GPUS,
    JOB_WIDTH,
    JOB_PROGRESS,
    BOTTLENECK_JOBS,
    BOTTLENECK_RATE,
    INTERACTIVE_RATE,
    RENTAL_INFO,
)
OF_THE_PROCESS = (
    WAITING_SECONDS,
    RUNNING_SECONDS,
    COMPLETION_SECONDS,
    QUOTES,
    RUNS_ENDED,
    NODE_WITHOUT_POD,
    PLAN_SECONDS,
    TURNS,
    STEPS,
    CLOUD_CALLS,
    CLOUD_CALL_SECONDS,
    API_WRITES,
    LAST_EVENT_AGE,
    LEADER,
    BUILD_INFO,
)


def table() -> str:
    """The catalogue as a Markdown table."""
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for spec in (*FROM_SNAPSHOT, *OF_THE_PROCESS):
        labels = ", ".join(f"`{label}`" for label in spec.labels)
        rows.append(f"| `{spec.name}` | {spec.kind} | {labels} | {spec.help} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(), end="")
