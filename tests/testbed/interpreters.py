"""Finds Python interpreters on this machine, for tools that need another version than ours."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_IDENTITY = "import sys; print(sys.base_prefix); print('%d.%d' % sys.version_info[:2], sys.version.split()[0])"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter. ``prefix`` is its folder. ``version`` is like 3.12, ``release`` like 3.12.1."""

    program: Path
    prefix: Path
    version: str
    release: str

    @property
    def library(self) -> Path:
        """The folder of the interpreter's standard library."""
        return self.prefix / "lib" / f"python{self.version}"

    def shared_libraries(self) -> Iterator[Path]:
        """Yield the shared libraries of the interpreter."""
        yield from (self.prefix / "lib").glob(f"libpython{self.version}*.so*")


def find(versions: Sequence[str]) -> Interpreter | None:
    """Find an interpreter of the first available version (like 3.12): ours, on PATH, or in pyenv's folder.

    pyenv's programs on PATH find its folder through HOME, and fail under another HOME. The search therefore also covers
    the folders beside these programs, beside this interpreter, and in the user's home directory.
    """
    for version in versions:
        named = f"python{version}"
        candidates = [sys.executable, shutil.which(named)]
        for folder in _pyenv():
            candidates += sorted(map(str, folder.glob(f"{version}.*/bin/{named}")), reverse=True)
        for candidate in candidates:
            if candidate is not None and (found := examine(candidate)) is not None and found.version == version:
                return found
    return None


def examine(program: str) -> Interpreter | None:
    """Run an interpreter to find its prefix and version. None if it does not run."""
    asked = subprocess.run([program, "-I", "-c", _IDENTITY], capture_output=True, text=True)
    if asked.returncode != 0:
        return None
    prefix, identity = asked.stdout.splitlines()
    return Interpreter(Path(program), Path(prefix), *identity.split())


def _pyenv() -> list[Path]:
    """Return folders in which pyenv may have interpreters."""
    roots = [Path(os.environ["PYENV_ROOT"])] if "PYENV_ROOT" in os.environ else []
    roots += [Path.home() / ".pyenv", Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pyenv"]
    roots += [
        Path(entry).parent for entry in os.environ.get("PATH", "").split(os.pathsep) if Path(entry).name == "shims"
    ]
    return list(dict.fromkeys([*(root / "versions" for root in roots), Path(sys.base_prefix).parent]))
