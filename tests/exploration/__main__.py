"""Explore for as long as one likes: ``python -m tests.exploration --orders named --states 5000000 --seed 7``."""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.exploration.explorer import ORDERS, Explorer, Progress

_TELL_SECONDS = 10.0


def main() -> int:
    """Returns 1 where something went wrong, which is printed with a course that leads there."""
    parser = argparse.ArgumentParser(prog="python -m tests.exploration", description=__doc__)
    parser.add_argument("--orders", choices=[*ORDERS, "all"], default="all", help="the kind of orders of the cloud")
    parser.add_argument("--states", type=int, default=1_000_000, help="to look at, of each kind of orders")
    parser.add_argument("--breadth", type=int, default=100_000, help="of these breadth-first, 10 kB of memory each")
    parser.add_argument("--seed", type=int, default=0, help="of the random walks")
    asked = parser.parse_args()
    return max(_explore(orders, asked) for orders in (ORDERS if asked.orders == "all" else [asked.orders]))


def _explore(orders: str, asked: argparse.Namespace) -> int:
    began = last = time.monotonic()

    def told(progress: Progress, *, always: bool = False) -> None:
        nonlocal last
        now = time.monotonic()
        if always or now - last >= _TELL_SECONDS:
            last = now
            rate = progress.steps / (now - began)
            print(f"{orders}: {progress} in {now - began:.0f} s, {rate:.0f} steps a second", flush=True)

    explorer = Explorer(orders, asked.seed, told)
    found = explorer.breadth_first(min(asked.breadth, asked.states))
    while found is None and explorer.progress.states < asked.states:
        found = explorer.walk(100)
        explorer.seed += 1_000_003
    told(explorer.progress, always=True)
    if found is None:
        return 0
    traceback.print_exception(found.error)
    print(f"\n{found.as_test(orders)}\n")
    return 1


sys.exit(main())
