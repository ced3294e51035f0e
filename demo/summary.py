"""The result: time and money, compared with a cluster autoscaler and with Charterer for the same money."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from demo.cloud import Bill
from demo.columns import Column, Columns
from demo.comparison import Figures, Row, Simulated, less, minutes, when
from demo.money import shown
from demo.replay import Replayed
from demo.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a demo, in workload seconds.

    ``autoscaler``, ``same_money``, ``budget`` and ``rows`` are simulated, and the headline is about them. ``run`` is
    the real run of ``budget``. ``today`` says when and on what ``autoscaler`` was really run, if it was. ``narrowed``
    counts jobs that never had their fastest width. ``bill_made_of`` and ``metered_micros`` are those of `cloud.Bill`.
    """

    cloud: str
    today: str
    headline: str
    rows: Sequence[Row]
    jobs: int
    completed: int
    factor: int
    demo_seconds: float
    replay_seconds: float
    autoscaler: Figures
    same_money: Figures
    budget: Figures
    run: Figures
    pays: float
    allowed_dollars: float
    ledger_micros: int
    bill_micros: int
    bill_made_of: str
    metered_micros: int | None
    machines_left: int
    narrowed: int
    reports: Mapping[int, int]

    @property
    def difference_micros(self) -> int:
        """Ledger minus bill. Any value but 0 is an error."""
        return self.ledger_micros - self.bill_micros

    @property
    def succeeded(self) -> bool:
        """Whether every job completed, no machine is left and the ledger equals the bill."""
        return self.completed == self.jobs and self.difference_micros == 0 and self.machines_left == 0

    @property
    def reality(self) -> str:
        """The result of the real run. If the run was much slower than its simulation, the text says by how much."""
        today, run = self.autoscaler, self.run
        slower = run.mean_completion_seconds / self.budget.mean_completion_seconds - 1.0
        told = (
            f"Really run here: {minutes(run.mean_completion_seconds)} and {shown(run.dollars)}, {less(run, today)} "
            f"than today; jobs ended {when(run, today)}."
        )
        if slower < _SLOW:
            return told
        return (
            f"{told} Jobs took {slower:.0%} longer than simulated: Kubernetes and the operator do not run "
            f"{self.factor} times faster, and this machine was slow or busy."
        )

    def json(self) -> str:
        """Encode the summary as JSON."""
        told = {"succeeded": self.succeeded, "reality": self.reality}
        return json.dumps(asdict(self) | told, indent=2) + "\n"


_SLOW = 0.05
"""Relative difference of completion times from which the text mentions that the machine slowed the run."""


def summarise(
    scenario: Scenario,
    replayed: Mapping[str, Replayed],
    *,
    simulated: Simulated,
    run: Column,
    cloud: str,
    ledger_micros: int,
    bill: Bill,
    demo_seconds: float,
    reports: Mapping[int, int],
) -> Summary:
    """Summarise a finished replay. Jobs that did not complete count as failed."""
    jobs = [*replayed.values()]
    columns = simulated.columns
    replay_seconds = max((job.completed for job in jobs if job.completed is not None), default=0.0)
    return Summary(
        cloud=cloud,
        today=columns.autoscaler.measured,
        headline=simulated.headline,
        rows=simulated.rows,
        jobs=len(jobs),
        completed=sum(job.completed is not None for job in jobs),
        factor=scenario.pace.factor,
        demo_seconds=demo_seconds,
        replay_seconds=replay_seconds,
        autoscaler=Figures.of(columns.autoscaler),
        same_money=Figures.of(columns.same_money),
        budget=Figures.of(columns.budget),
        run=Figures.of(run),
        pays=scenario.pays,
        allowed_dollars=scenario.allowed(replay_seconds),
        ledger_micros=ledger_micros,
        bill_micros=bill.micros,
        bill_made_of=bill.made_of,
        metered_micros=bill.metered_micros,
        machines_left=bill.open_lines,
        narrowed=sum(max(job.widths, default=0) < fastest(scenario, job) for job in jobs),
        reports=dict(Counter(reports)),
    )


def fastest(scenario: Scenario, replayed: Replayed) -> int:
    """Return the measured number of GPUs, up to the widest allowed, with the least time on any GPU type."""
    measured = replayed.job.application.seconds
    options = [(gpus, kind) for kind in scenario.gpu_types for gpus, _ in measured[kind] if gpus <= scenario.widest]
    return min(options, key=lambda option: replayed.job.seconds(*option))[0]


def rendered(summary: Summary) -> RenderableType:
    """Render the summary as a table with explanations."""
    accepted = summary.reports.get(200, 0)
    others = sum(summary.reports.values()) - accepted
    return Group(
        Text(
            f"{summary.completed} of {summary.jobs} jobs completed", "bold green" if summary.succeeded else "bold red"
        ),
        Text(f"{summary.headline}.", "bold"),
        Text(summary.reality),
        _table(summary),
        Text(_columns(summary)),
        Text(
            f"Times are workload time. The workload ran {summary.factor} times faster here and took "
            f"{summary.demo_seconds:.0f} s, while Kubernetes and the operator ran at their normal speed. No "
            f"machine was real and nothing was paid: prices were {summary.factor} times as high as the workload's, so "
            "that a job costs the same dollars in less time.",
        ),
        Text(
            f"{summary.narrowed} jobs never had the GPUs on which they would be fastest: the budget pays "
            f"at most {shown(summary.pays)} to complete a job an hour earlier.",
        ),
        Text(
            f"Ledger ${summary.ledger_micros / 1e6:.6f} − {summary.bill_made_of} ${summary.bill_micros / 1e6:.6f} for "
            f"{summary.run.machines} machines = ${summary.difference_micros / 1e6:.6f}"
            + _metered(summary)
            + (f"; {summary.machines_left} machines are still billed" if summary.machines_left else ""),
            "green" if summary.difference_micros == 0 and not summary.machines_left else "bold red",
        ),
        Text(
            f"Progress reports with the pods' own tokens: {accepted} accepted, {others} refused or unanswered, "
            "as of pods whose run was just over.",
            "dim",
        ),
    )


def _columns(summary: Summary) -> str:
    """Explain the columns."""
    if summary.today:
        today = (
            "Today: plain Jobs on a NodePool of Karpenter with its defaults, each with the GPUs that its owner asked "
            f"for; really run ({summary.today}). "
        )
    else:
        today = (
            "Today: a cluster autoscaler that ends a node after ten idle minutes, each job with the T4 on demand that "
            "its owner asked for. "
        )
    return (
        f"{today}Charterer: its budget pays at most {shown(summary.pays)} to complete a job an hour earlier; "
        f"simulated, and really run on the control plane here with nodes of {summary.cloud}. No more money: a budget "
        "that makes it spend no more than today. One simulator (charterer.tools.simulator) made the simulated columns, "
        "with "
        "the same jobs, tables, prices, stock, start-up times and lifetimes of spot nodes."
    )


def _metered(summary: Summary) -> str:
    if summary.metered_micros is None:
        return ""
    return (
        f"; from launch to end the machines cost ${summary.metered_micros / 1e6:.2f} (claims have whole seconds, each "
        f"{summary.factor} s of the workload)"
    )


def _table(summary: Summary) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for name in ("today", "Charterer", "really run", "difference", "no more money"):
        table.add_column(name, justify="right")
    rows: Sequence[tuple[str, Callable[[Figures], float], Callable[[float], str]]] = (
        ("mean completion", lambda figures: figures.mean_completion_seconds, minutes),
        ("before the pods run", lambda figures: figures.mean_wait_seconds, minutes),
        ("spent", lambda figures: figures.dollars, shown),
        ("machines rented", lambda figures: float(figures.machines), _count),
        ("stops and moves", lambda figures: float(figures.interruptions), _count),
    )
    for title, value, words in rows:
        real, expected = value(summary.run), value(summary.budget)
        relative = f"{real / expected - 1.0:+.1%}" if expected else "-"
        difference = f"{real - expected:+.0f}" if words is _count else relative
        simulated = [words(value(figures)) for figures in (summary.autoscaler, summary.budget, summary.same_money)]
        table.add_row(title, *simulated[:2], words(real), difference, simulated[2])
    allowed = shown(summary.allowed_dollars)
    table.add_row("budget for the hour", "no budget", allowed, allowed, "", "")
    return table


def _count(number: float) -> str:
    return f"{number:.0f}"


def jobs_csv(replayed: Mapping[str, Replayed], columns: Columns) -> str:
    """Write a CSV row for each job. Times are workload seconds since the start of the replay."""
    simulated = {name: {job.name: job for job in column.jobs} for name, column in _named(columns)}
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    ends = (f"{name}_{what}" for name in simulated for what in ("began", "completed", "gpus"))
    table.writerow(["job", "submitted", "began", "completed", "gpus", "asked_gpus", *ends])
    for name, job in replayed.items():
        cells = [name, *map(_cell, (job.submitted, job.began, job.completed)), " ".join(map(str, job.widths))]
        for jobs in simulated.values():
            widths = " ".join(f"{gpus:.0f}" for _, gpus in jobs[name].widths if gpus)
            cells += [_cell(jobs[name].began), _cell(jobs[name].ended), widths]
        table.writerow([*cells[:5], job.job.asked, *cells[5:]])
    return text.getvalue()


def _named(columns: Columns) -> Sequence[tuple[str, Column]]:
    return [
        ("autoscaler", columns.autoscaler),
        ("same_money", columns.same_money),
        ("budget", columns.budget),
    ]


def _cell(at: float | None) -> str:
    return "" if at is None else f"{at:.0f}"
