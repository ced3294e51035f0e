"""The result: time and money, compared with giving each job the GPUs that its owner asked for."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from demo.baseline import Baseline
from demo.cloud import Bill
from demo.money import shown
from demo.replay import Replayed
from demo.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a demo, in workload seconds. A wait lasts from submission until the pods run for the first time.

    ``narrowed``: jobs that never had their fastest width. ``pod_seconds``: the time that Kubernetes took for a job.
    """

    jobs: int
    completed: int
    factor: int
    demo_seconds: float
    replay_seconds: float
    mean_completion_seconds: float
    mean_wait_seconds: float
    pod_seconds: float
    asked_mean_completion_seconds: float
    asked_mean_wait_seconds: float
    asked_dollars: float
    allowed_dollars: float
    ledger_micros: int
    bill_micros: int
    machines: int
    machines_left: int
    narrowed: int
    reports: Mapping[int, int]

    @property
    def difference_micros(self) -> int:
        """Ledger minus bill; anything but 0 is an error."""
        return self.ledger_micros - self.bill_micros

    @property
    def succeeded(self) -> bool:
        """Whether every job completed, no machine is left and the ledger equals the bill."""
        return self.completed == self.jobs and self.difference_micros == 0 and self.machines_left == 0

    def json(self) -> str:
        """The summary as JSON."""
        return json.dumps(asdict(self) | {"succeeded": self.succeeded}, indent=2) + "\n"


def summarise(
    scenario: Scenario,
    replayed: Mapping[str, Replayed],
    *,
    pod_seconds: float,
    asked: Baseline,
    ledger_micros: int,
    bill: Bill,
    demo_seconds: float,
    reports: Mapping[int, int],
) -> Summary:
    """The summary of a finished replay; jobs that did not complete count as failed."""
    jobs = [*replayed.values()]
    times = [job.completed - (job.submitted or 0.0) for job in jobs if job.completed is not None]
    waits = [job.began - (job.submitted or 0.0) for job in jobs if job.began is not None]
    replay_seconds = max((job.completed for job in jobs if job.completed is not None), default=0.0)
    return Summary(
        jobs=len(jobs),
        completed=len(times),
        factor=scenario.pace.factor,
        demo_seconds=demo_seconds,
        replay_seconds=replay_seconds,
        mean_completion_seconds=sum(times) / len(times) if times else 0.0,
        mean_wait_seconds=sum(waits) / len(waits) if waits else 0.0,
        pod_seconds=pod_seconds,
        asked_mean_completion_seconds=asked.mean_completion_seconds,
        asked_mean_wait_seconds=sum(job.started - job.job.submitted for job in asked.jobs) / len(asked.jobs),
        asked_dollars=asked.dollars,
        allowed_dollars=scenario.allowed(replay_seconds),
        ledger_micros=ledger_micros,
        bill_micros=bill.micros,
        machines=bill.machines,
        machines_left=bill.open_lines,
        narrowed=sum(max(job.widths, default=0) < fastest(scenario, job) for job in jobs),
        reports=dict(Counter(reports)),
    )


def fastest(scenario: Scenario, replayed: Replayed) -> int:
    """The measured number of GPUs, up to the widest allowed, on which the job takes the least time."""
    widths = [gpus for gpus, _ in replayed.job.application.seconds if gpus <= scenario.widest]
    return min(widths, key=replayed.job.seconds)


def rendered(summary: Summary) -> RenderableType:
    """The summary as a table with explanations."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for name in ("Charterer", "as asked"):
        table.add_column(name, justify="right")
    spent = summary.bill_micros / 1e6
    table.add_row(
        "mean completion time",
        f"{summary.mean_completion_seconds / 60:.1f} min",
        f"{summary.asked_mean_completion_seconds / 60:.1f} min",
    )
    table.add_row(
        "of which before the pods run",
        f"{summary.mean_wait_seconds / 60:.1f} min",
        f"{summary.asked_mean_wait_seconds / 60:.1f} min",
    )
    table.add_row("spent", shown(spent), shown(summary.asked_dollars))
    table.add_row("the budget's share for this hour", shown(summary.allowed_dollars), "no budget")
    accepted = summary.reports.get(200, 0)
    others = sum(summary.reports.values()) - accepted
    return Group(
        Text(
            f"{summary.completed} of {summary.jobs} jobs completed", "bold green" if summary.succeeded else "bold red"
        ),
        table,
        Text(
            f"Times are workload time. The workload ran {summary.factor} times faster here and took "
            f"{summary.demo_seconds:.0f} s, while Kubernetes and the operator ran at their normal speed. Dollars are "
            f"real: the cloud's prices were {summary.factor}-fold.",
        ),
        Text(
            "As asked: a simulation of the same jobs with the same tables, prices and start-up times, in which each "
            "job gets the GPUs that its owner asked for at once, on shared nodes where they fit. Kubernetes takes "
            f"{summary.pod_seconds / summary.factor:.1f} s for a job in it, as it did here.",
        ),
        Text(
            f"{summary.narrowed} jobs ran on fewer GPUs than would have been fastest, because the budget pays for "
            f"speed only where a dollar saves the most time.",
        ),
        Text(
            f"Ledger ${summary.ledger_micros / 1e6:.6f} − the cloud's own bill ${summary.bill_micros / 1e6:.6f} for "
            f"{summary.machines} machines = ${summary.difference_micros / 1e6:.6f}"
            + (f"; {summary.machines_left} machines are still billed" if summary.machines_left else ""),
            "green" if summary.difference_micros == 0 and not summary.machines_left else "bold red",
        ),
        Text(
            f"Progress reports with the pods' own tokens: {accepted} accepted, {others} refused or unanswered.", "dim"
        ),
    )


def jobs_csv(replayed: Mapping[str, Replayed], asked: Baseline) -> str:
    """A CSV row for job job; times are workload seconds since the start of the replay."""
    simulated_jobs = {simulated.job.name: simulated for simulated in asked.jobs}
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["job", "submitted", "began", "completed", "gpus", "asked_gpus", "asked_began", "asked_completed"])
    for name, job in replayed.items():
        times = ("" if at is None else f"{at:.0f}" for at in (job.submitted, job.began, job.completed))
        widths = " ".join(map(str, job.widths))
        simulated = simulated_jobs[name]
        table.writerow([name, *times, widths, job.job.asked, f"{simulated.started:.0f}", f"{simulated.ended:.0f}"])
    return text.getvalue()
