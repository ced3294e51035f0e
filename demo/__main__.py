"""The command: python -m demo."""

from __future__ import annotations

import asyncio
import fcntl
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from demo import clouds, run
from demo.programs import DemoError
from demo.scenario import an_hour


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--cluster",
    type=click.Choice(["testbed", "kind"]),
    default="testbed",
    show_default=True,
    help="testbed: a real control plane as plain processes. kind: one in Docker.",
)
@click.option(
    "--cloud",
    type=click.Choice([*clouds.NAMES]),
    default="fake",
    show_default=True,
    help="fake: charterer fakecloud. karpenter: a real Karpenter with its kwok provider (`make karpenter` builds it).",
)
@click.option(
    "--pace",
    type=click.IntRange(5, 120),
    default=30,
    show_default=True,
    help="Seconds of the workload that pass in one second of the demo.",
)
@click.option("--simulate", is_flag=True, help="End after the simulated part; it needs no cluster.")
@click.option("--keep", is_flag=True, help="Keep everything running at the end, until Ctrl-C, to look around.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    help="Folder for logs, applied manifests, summary and picture. It is emptied first.",
)
def main(cluster: str, cloud: str, pace: int, simulate: bool, keep: bool, out: Path) -> None:
    """Show Charterer at work on an hour of a measured workload, in about four minutes.

    The hour is first simulated in several ways, which takes half a minute. What is lacking for a cluster is built
    meanwhile. Then the hour is really run: 28 training jobs of six applications are submitted to a real Kubernetes API
    server, at the times of the workload. Charterer rents nodes for them, from a fake cloud or through a real Karpenter:
    it decides on which GPUs, and on how many, each job is worth its money, copes with pools that run out of machines
    and with spot machines that are taken back, and gives the nodes back. The GPU nodes, the containers and the bill are
    not real. Control plane, operator and speeds (measured on T4 and A100 GPUs) are.

    \b
    What to look at:
      - the simulated tables: what spot and other GPUs bring, and what is left without them
      - the live table: which GPUs each job gets, and why (often not what was asked for)
      - "pays up to $X per job-hour saved": the exchange rate between money and time
      - the summary and out/demo/demo.png: a cluster autoscaler, Charterer, and Charterer for no more money
      - the numbers beside the picture, and the manifests in out/demo/applied
      - python -m demo --keep, then kubectl

    Exit code 0: all jobs completed, no machine is left, and the ledger equals the bill to the micro-dollar.
    See docs/demo.md.
    """
    console = Console()
    out = out.resolve()
    try:
        with _alone(out):
            succeeded = asyncio.run(_cancelled_by_sigterm(cluster, cloud, pace, simulate, keep, out, console))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("Stopped; nothing is left running.")
        sys.exit(130)
    except Exception as error:
        for leaf in _leaves(error):
            console.print(
                f"The demo failed: {_message(leaf)}", style="bold red", highlight=False, markup=False, soft_wrap=True
            )
        sys.exit(1)
    sys.exit(0 if succeeded else 1)


async def _cancelled_by_sigterm(
    cluster: str, cloud: str, pace: int, simulate: bool, keep: bool, out: Path, console: Console
) -> bool:
    """Run the demo and cancel it on SIGTERM. Return whether it succeeded."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    hour = an_hour(pace, cloud)
    if simulate:
        await run.simulate(hour, out, console)
        return True
    return (await run.run(hour, cluster, out, console, keep)).succeeded


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Lock the output directory, so that a second demo does not empty the directory of a running one."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DemoError(f"another demo is running in {out}; end it, or choose another folder with --out") from None
        yield


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _message(error: BaseException) -> str:
    return str(error) if isinstance(error, DemoError) else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
