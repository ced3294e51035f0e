"""The commands, run as a person runs them: in a process of their own, with a kubeconfig."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHARTERER = "from charterer.cli import main; main()"


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
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _CHARTERER, *arguments, "--kubeconfig", str(kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), err.decode())
