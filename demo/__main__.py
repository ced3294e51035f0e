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

from demo.programs import DemoError
from demo.run import run
from demo.scenario import an_hour
from demo.summary import Summary


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--cluster",
    type=click.Choice(["testbed", "kind"]),
    default="testbed",
    show_default=True,
    help="testbed: a real control plane as plain processes. kind: one in Docker.",
)
@click.option(
    "--pace",
    type=click.IntRange(5, 120),
    default=30,
    show_default=True,
    help="Seconds of the workload that pass in a second.",
)
@click.option("--keep", is_flag=True, help="Leave everything up at the end, until Ctrl-C, to look around.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    help="Folder for logs, applied manifests, summary and picture. It is emptied first.",
)
def main(cluster: str, pace: int, keep: bool, out: Path) -> None:
    """Charterer at work on an hour of a measured workload, in about three minutes.

    28 training jobs of six applications are submitted to a real Kubernetes API server as they were in the workload.
    Charterer rents 4-GPU nodes from a fake cloud for them, within a budget of $48 an hour: it decides how many GPUs
    each job is worth, meets a zone that runs out of machines, and gives the nodes back. The GPU nodes and containers
    are not real; everything else is: control plane, operator, speeds (measured on T4 GPUs), prices, bills.

    \b
    What to look at:
      - the live table: who gets how many GPUs, and why (not everyone the number they asked for)
      - "pays up to $X per job-hour saved": the exchange rate between money and time that the budget comes to
      - the summary: time and money against giving every job what its owner asked for
      - out/demo/demo.png, and the manifests in out/demo/applied
      - python -m demo --keep, then kubectl

    Exit code 0 means: all jobs completed, no machine is left, and the ledger equals the cloud's bill to the
    micro-dollar. docs/demo.md has more.
    """
    console = Console()
    out = out.resolve()
    try:
        with _alone(out):
            result = asyncio.run(_cancelled_by_sigterm(cluster, pace, keep, out, console))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("ended; nothing is left running")
        sys.exit(130)
    except Exception as error:
        for each in _leaves(error):
            console.print(
                f"The demo failed: {_said(each)}", style="bold red", highlight=False, markup=False, soft_wrap=True
            )
        sys.exit(1)
    sys.exit(0 if result.succeeded else 1)


async def _cancelled_by_sigterm(cluster: str, pace: int, keep: bool, out: Path, console: Console) -> Summary:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await run(an_hour(pace), cluster, out, console, keep)


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Keeps a second demo from emptying the folder of a running one."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DemoError(f"another demo is running in {out}; end it, or name another folder by --out") from None
        yield


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _said(error: BaseException) -> str:
    return str(error) if isinstance(error, DemoError) else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
