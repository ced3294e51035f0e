"""What people do today, really run, beside Charterer on the same Karpenter: plain Jobs of the width asked for.

    python -m tests.bench.versus_karpenter [--pace 12] [--jobs 28|160] [--only plain|budget|same-money] [--out DIR]

Three runs, each on a control plane of its own, with the demo's jobs, measured speeds, checkpoints, prices, stock and
start-up times, and the real Karpenter (`make karpenter`): plain Jobs on a NodePool with Karpenter's defaults; Charterer
at the demo's budget; Charterer for as much money as the plain Jobs cost. For that, simulations choose the
`maxPaysPerHourSaved` of a budget that is ample otherwise. Dollars are those of the machines from launch to end.

Karpenter's waits run at the pace. Not so the polls with which it ends nodes (1 s), and the 10 s for which it leaves a
node alone that it has chosen for a pod. Kubernetes and the operator run at their own speed, too; the back-off of plain
Jobs, which could not be sped up, is left out.

A run takes 90 / pace minutes for the demo's hour, 9 h / pace for the whole workload. DIR keeps what was run, so that
`--only` can run one and print it beside the others. With CLOUD=karpenter the demo's first column is
demo/data/plain-jobs.json, a copy of DIR/28/plain.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from demo import run, simulated
from demo.columns import Column
from demo.scenario import Scenario, workload
from tests.bench import _plain_jobs

_MOST_PAYS = 500
"""The most dollars for a job-hour saved that are tried."""
_AMPLE = 3.0
"""A multiple of the demo's budget with which these dollars decide what is spent."""
_RUNS = ("plain", "same-money", "budget")


async def ours(of: Scenario, folder: Path) -> Column:
    """The demo on Karpenter. Dollars are those of the machines from launch to end, not of the claims."""
    summary = await run.run(of, "testbed", folder, Console(), keep=False)
    assert summary.succeeded, "not all jobs completed, or the ledger differs from the bill"
    assert summary.metered_micros is not None
    column = Column.of(json.loads((folder / "run.json").read_text()))
    return replace(column, dollars=summary.metered_micros / 1e6)


def for_money(of: Scenario, dollars: float, at: Callable[[Scenario], Column]) -> Scenario:
    """The scenario that pays the most for a job-hour and costs at most ``dollars``; ``at`` simulates."""

    def paying(pays: int) -> Scenario:
        return replace(of, most_pays=pays, share=_AMPLE)

    def too_dear(pays: int) -> bool:
        return at(paying(pays)).dollars > dollars * (1 + simulated.CLOSE_ENOUGH)

    return paying(max(bisect_left(range(1, _MOST_PAYS + 1), True, key=too_dear), 1))


async def measure(of: Scenario, name: str, out: Path, done: Mapping[str, Column]) -> Column:
    """Run that column with its files below ``out``."""
    if name == "plain":
        return await _plain_jobs.measure(of, out / name)
    if name == "budget":
        return await ours(of, out / name)
    beyond = done["budget"].dollars / simulated.at_budget(of).dollars
    scenario = for_money(of, done["plain"].dollars / beyond, simulated.at_budget)
    print(f"for the plain Jobs' money the budget pays up to ${scenario.most_pays} to complete a job an hour earlier")
    return await ours(scenario, out / name)


def table(columns: Mapping[str, Column]) -> str:
    """The figures of the columns, in workload time."""
    rows: list[tuple[str, Callable[[Column], str]]] = [
        ("jobs completed", lambda column: str(sum(job.ended is not None for job in column.jobs))),
        ("mean completion time", lambda column: f"{column.mean_completion_seconds / 60:.1f} min"),
        ("of which before the pods run", lambda column: f"{column.mean_wait_seconds / 60:.1f} min"),
        ("dollars", lambda column: f"${column.dollars:.2f}"),
        ("machines", lambda column: str(column.machines)),
        ("jobs stopped or moved", lambda column: str(column.interruptions)),
        ("training repeated", lambda column: f"{sum(job.repeated for job in column.jobs) / 60:.1f} min"),
    ]
    lines = ["".join([f"{'':30}", *(f"{name:>12}" for name in columns)])]
    lines += ["".join([f"{title:30}", *(f"{told(column):>12}" for column in columns.values())]) for title, told in rows]
    return "\n".join(lines)


def main() -> None:
    """Run what is asked for, and print all that there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pace", type=int, default=12)
    parser.add_argument("--jobs", type=int, choices=(28, 160), default=28)
    parser.add_argument("--only", choices=_RUNS)
    parser.add_argument("--out", type=Path, default=Path("out/versus-karpenter"))
    asked = parser.parse_args()
    of = workload(asked.pace, asked.jobs, "karpenter")
    out = asked.out.resolve() / str(asked.jobs)
    columns: dict[str, Column] = {}
    for name in ("plain", "budget", "same-money"):
        kept = out / f"{name}.json"
        if asked.only in (None, name):
            columns[name] = asyncio.run(measure(of, name, out, columns))
            kept.write_text(columns[name].json())
        elif kept.exists():
            columns[name] = Column.of(json.loads(kept.read_text()))
    print(table({name: columns[name] for name in _RUNS if name in columns}))


if __name__ == "__main__":
    main()
