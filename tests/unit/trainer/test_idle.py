"""Whether a GPU is idle, as a strict stand-in for nvidia-smi says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from charterer_trainer.idle import gpu_idle

NVIDIA_SMI = """#!/bin/sh
# Takes the one query, as `nvidia-smi --help-query-gpu` and `--help` describe it: a line a GPU, percent without a unit.
[ "$#" = 2 ] && [ "$1" = --query-gpu=utilization.gpu ] && [ "$2" = --format=csv,noheader,nounits ] || {{
  echo "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help." >&2; exit 2; }}
printf '{lines}'
exit {code}
"""


@pytest.mark.parametrize(
    ("lines", "code", "idle"),
    [
        ("0\\n", 0, True),
        ("0\\n0\\n", 0, True),
        ("0\\n37\\n", 0, False),
        ("[N/A]\\n", 0, None),
        ("", 0, None),
        ("NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.\\n", 9, None),
        ("0\\n", 6, None),
    ],
)
def test_a_gpu_is_idle_if_no_kernel_ran_on_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, code: int, idle: bool | None
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(NVIDIA_SMI.format(lines=lines, code=code))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert gpu_idle() is idle


def test_without_nvidia_smi_nobody_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_idle() is None
