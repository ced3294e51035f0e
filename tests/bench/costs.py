"""Seconds and memory of ``charterer costs`` for a month of many jobs, from a record in a folder.

    python -m tests.bench.costs [--jobs 10000]

Each job trains on two nodes on two days, and every second of its rows has one of waste beside it. What ended in one
minute is written in one file. The command runs in a process of its own; its CPU seconds say what a quiet machine takes.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from charterer.cost_record import CostRecord
from charterer.domain.budget import Cause
from charterer.domain.cost_row import CostRow
from charterer.domain.money import Money, total
from charterer.domain.time import after, parse_instant
from tests.factory.cost_rows import cost_row, payer

_MAIN = "from charterer.cli import main; main()"
MONTH_SECONDS = 28 * 86_400
_BEGIN = parse_instant("2026-11-01T00:00:00Z")


def rentals(jobs: int) -> Iterator[tuple[int, list[CostRow]]]:
    """The rows of each rental's parts, with the minute in which they are written."""
    random = Random(1)
    for number in range(jobs):
        user, team, space = f"user{number % 80}", f"team{number % 12}", f"space{number % 40}"
        who = payer(f"{space}/job-{number}", {"team": team, "project": f"p{number % 200}"}, user=user)
        begin = random.randrange(MONTH_SECONDS - 86_400)
        for node in range(2):
            for day in range(2):
                start = after(_BEGIN, begin + day * 43_200)
                row = cost_row(
                    "0",
                    who,
                    rental=f"a100-{number}-{node}",
                    rental_uid=f"00000000-0000-4000-8000-{number:08d}{node:04d}",
                    pool=f"pool{number % 6}",
                    part=day,
                    version=1_000_000 + number,
                )
                row = replace(row, start=start, end=after(start, 3_600), cost=Money(random.randrange(40_000_000)))
                waste = replace(row, payer=None, cause=random.choice([Cause.IDLE, Cause.STARTING]), cost=Money(123_457))
                yield (begin + day * 43_200) // 60, [row, waste] if (number + node + day) % 2 else [row]


def main() -> None:
    """Write the record, ask three questions, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    jobs = parser.parse_args().jobs
    with TemporaryDirectory() as folder:
        batches: dict[int, list[CostRow]] = defaultdict(list)
        for minute, rows in rentals(jobs):
            batches[minute].extend(rows)
        record = CostRecord(folder)

        async def write() -> None:
            for batch in batches.values():
                await record.write(batch)

        begun = time.perf_counter()
        asyncio.run(write())
        rows = [row for batch in batches.values() for row in batch]
        files = list(Path(folder).rglob("*.jsonl"))
        size = sum(file.stat().st_size for file in files) / 1e6
        print(f"{jobs:,} jobs, {len(rows):,} rows, {len(files):,} files, {size:.0f} MB, written in", end=" ")
        print(f"{time.perf_counter() - begun:.1f} s; {total(row.cost for row in rows)}")
        for question in (["-o", "json"], ["--by", "label:team,user,job", "-o", "csv"], ["--focus"]):
            asked = ["costs", "--record", folder, "--recorded-only", "--month", "2026-11", *question]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", _MAIN, *asked], stdout=subprocess.DEVNULL, check=True)
            after_it = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after_it.ru_utime + after_it.ru_stime - before.ru_utime - before.ru_stime
            most = after_it.ru_maxrss / 1024
            print(f"{' '.join(question):35} {seconds:5.2f} CPU s  {most:4.0f} MB at most so far")


if __name__ == "__main__":
    main()
