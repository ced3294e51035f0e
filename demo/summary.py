"""What came out: time and money, against what the owners' widths would have taken and cost."""

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

from demo.baseline import Outcome
from demo.cloud import Bill
from demo.money import shown
from demo.replay import Replayed
from demo.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of one demo. Seconds are the workload's; a wait is from submission until pods first run.

    ``narrowed`` jobs never had their fastest width. ``pod_seconds``: what Kubernetes took for a job.
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
        """Ledger less bill; anything but 0 is a fault."""
        return self.ledger_micros - self.bill_micros

    @property
    def succeeded(self) -> bool:
        """Whether every job completed, no machine is left and the ledger equals the bill."""
        return self.completed == self.jobs and self.difference_micros == 0 and self.machines_left == 0

    def json(self) -> str:
        """For other programs."""
        return json.dumps(asdict(self) | {"succeeded": self.succeeded}, indent=2) + "\n"


def summarise(
    scenario: Scenario,
    replayed: Mapping[str, Replayed],
    *,
    pod_seconds: float,
    asked: Outcome,
    ledger_micros: int,
    bill: Bill,
    demo_seconds: float,
    reports: Mapping[int, int],
) -> Summary:
    """The summary of a replay that has ended; jobs that did not complete count as failed."""
    jobs = [*replayed.values()]
    times = [each.completed - (each.submitted or 0.0) for each in jobs if each.completed is not None]
    waits = [each.began - (each.submitted or 0.0) for each in jobs if each.began is not None]
    replay_seconds = max((each.completed for each in jobs if each.completed is not None), default=0.0)
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
        narrowed=sum(max(each.widths, default=0) < fastest(scenario, each) for each in jobs),
        reports=dict(Counter(reports)),
    )


def fastest(scenario: Scenario, replayed: Replayed) -> int:
    """The number of GPUs, among the measured ones a job may have, on which it would be done first."""
    widths = [gpus for gpus, _ in replayed.job.application.seconds if gpus <= scenario.widest]
    return min(widths, key=replayed.job.seconds)


def rendered(summary: Summary) -> RenderableType:
    """For people."""
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
        "of it before its pods run",
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
            f"Times are the workload's own: it passed {summary.factor} times as fast here, in "
            f"{summary.demo_seconds:.0f} s, but Kubernetes and the operator took their real time. Dollars are as they "
            f"are: the cloud's prices were {summary.factor} times as high.",
        ),
        Text(
            "As asked: a simulation of the same jobs with the same tables, prices and start-up times "
            f"(Kubernetes took {summary.pod_seconds / summary.factor:.1f} s a job here), in which each gets the "
            "GPUs that its owner asked for at once, on shared nodes where they fit.",
        ),
        Text(
            f"{summary.narrowed} jobs ran on fewer GPUs than would have been fastest, because the budget pays for "
            f"speed only where it saves most time per dollar.",
        ),
        Text(
            f"Ledger ${summary.ledger_micros / 1e6:.6f} − the cloud's own bill ${summary.bill_micros / 1e6:.6f} for "
            f"{summary.machines} machines = ${summary.difference_micros / 1e6:.6f}"
            + (f"; {summary.machines_left} machines are still billed" if summary.machines_left else ""),
            "green" if summary.difference_micros == 0 and not summary.machines_left else "bold red",
        ),
        Text(f"Progress reports by pods' own tokens: {accepted} accepted, {others} refused or unanswered.", "dim"),
    )


def jobs_csv(replayed: Mapping[str, Replayed], asked: Outcome) -> str:
    """A line for each job, times in workload seconds since the start of the replay."""
    as_asked = {trained.job.name: trained for trained in asked.jobs}
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["job", "submitted", "began", "completed", "gpus", "asked_gpus", "asked_began", "asked_completed"])
    for name, each in replayed.items():
        times = ("" if at is None else f"{at:.0f}" for at in (each.submitted, each.began, each.completed))
        widths = " ".join(map(str, each.widths))
        simulated = as_asked[name]
        table.writerow([name, *times, widths, each.job.asked, f"{simulated.started:.0f}", f"{simulated.ended:.0f}"])
    return text.getvalue()
