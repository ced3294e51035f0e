"""A git repository in a folder."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

_WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")


def git(folder: Path, *arguments: str) -> str:
    """What git prints."""
    ran = subprocess.run(["git", "-C", str(folder), *_WHO, *arguments], check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def repository(folder: Path, files: Mapping[str, str]) -> Path:
    """One commit with these files, by their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for path, text in files.items():
        write(folder / path, text)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


def write(file: Path, text: str) -> None:
    """Write a file and its folders."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
