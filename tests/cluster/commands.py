"""The commands, run as a person runs them: in a process of their own, with a kubeconfig."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.testbed.forks import fork_charterer


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


async def charterer(kubeconfig: Path, *arguments: str) -> Ran:
    """Run ``charterer`` with these arguments."""
    return await asyncio.to_thread(_run, *arguments, "--kubeconfig", str(kubeconfig))


async def charterer_run(kubeconfig: Path, folder: Path, *arguments: str) -> Ran:
    """Run ``charterer run`` in a folder: what comes after its options is the job's command."""
    return await asyncio.to_thread(_run, "run", "--kubeconfig", str(kubeconfig), *arguments, folder=folder)


def _run(*arguments: str, folder: Path | None = None) -> Ran:
    with TemporaryDirectory() as written:
        out, err = Path(written, "out"), Path(written, "err")
        process = fork_charterer(*arguments, out=out, err=err, folder=folder)
        process.join()
        return Ran(process.exitcode or 0, out.read_text(), err.read_text())
