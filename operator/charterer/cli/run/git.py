"""What git on this machine says, and which commit of which repository a job's pods are to fetch."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

_FULL_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SCP_LIKE: Final = re.compile(r"(?:[^/@]+@)?([^/:@]+):(?!//)(.+)")
_SCHEMES: Final = ("https", "http", "git")


@dataclass(frozen=True, slots=True)
class GitSource:
    """A commit by its full id. ``directory``: where in the repository the command runs, empty for its top.

    ``warnings``: a sentence for each thing that may not be what was meant.
    """

    url: str
    commit: str
    directory: str = ""
    warnings: tuple[str, ...] = ()


def git_output(directory: Path, *arguments: str, may_fail: bool = False) -> str:
    """What git prints; empty where it fails and may. ClickException where it fails otherwise."""
    try:
        ran = subprocess.run(["git", "-C", str(directory), *arguments], capture_output=True, check=False)
    except FileNotFoundError as error:
        raise click.ClickException("git is not installed here: install it, or give --no-code") from error
    if ran.returncode == 0:
        return ran.stdout.decode(errors="surrogateescape").removesuffix("\n")
    if may_fail:
        return ""
    said = ran.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
    if "not a git repository" in said:
        raise click.ClickException(
            f"{directory} is in no git repository: git init, git add what the job needs and git commit; "
            "or give --git URL@COMMIT, or --no-code with an --image that contains the code"
        )
    raise click.ClickException(f"git {arguments[0]}: {said}")


def git_paths(directory: Path, *arguments: str) -> Sequence[str]:
    """The paths that a command of git prints with ``-z``."""
    return [path for path in git_output(directory, *arguments).split("\0") if path]


def git_source(directory: Path, given: str) -> GitSource:
    """The commit of ``[URL@]COMMIT``; without URL, of the remote ``origin`` of the repository that ``directory`` is in.

    ClickException where the pods could not fetch it, or another commit at another time.
    """
    url, _, commit = given.rpartition("@")
    if "://" not in url and not _SCP_LIKE.fullmatch(url):
        return _of_origin(directory, given)
    if not _FULL_ID.fullmatch(commit):
        raise click.ClickException(
            f"--git {given}: {commit!r} is no commit by its full id: a branch or a tag may be another one when the job "
            f"is started again; `git ls-remote {url} {commit}` prints the id"
        )
    return GitSource(_fetchable(url, commit), commit)


def _of_origin(directory: Path, revision: str) -> GitSource:
    commit = git_output(directory, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", may_fail=True)
    if not commit:
        git_output(directory, "rev-parse", "--git-dir")  # says so where this is no repository
        raise click.ClickException(
            f"--git {revision}: git knows no such commit here; to name another repository: URL@COMMIT"
        )
    url = git_output(directory, "remote", "get-url", "origin", may_fail=True)
    if not url:
        raise click.ClickException(f"--git {revision}: this repository has no remote origin: give URL@COMMIT")
    pushed = git_output(directory, "branch", "--remotes", "--contains", commit, may_fail=True)
    warnings = (
        () if pushed else (f"no remote branch contains commit {commit[:10]}, as far as git knows here: git push it",)
    )
    return GitSource(_fetchable(url, commit), commit, git_output(directory, "rev-parse", "--show-prefix"), warnings)


def _fetchable(url: str, commit: str) -> str:
    """The URL, if a pod without keys and passwords can fetch from it."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        like = _SCP_LIKE.fullmatch(url)
        host, path = (like[1], like[2]) if like else (parts.hostname or "", parts.path.lstrip("/"))
        instead = f"--git https://{host}/{path}@{commit}" if host else f"--git https://...@{commit}"
        raise click.ClickException(
            f"the pods cannot fetch from {url}: they have no keys and none of your files. If the repository can be "
            f"read without, give {instead}; otherwise leave --git out, or give --no-code with an --image that contains "
            "the code"
        )
    if parts.username or parts.password:
        raise click.ClickException(
            f"the URL of {parts.hostname} contains a user or password, which everybody who may read the job would see: "
            "give --git URL@COMMIT without"
        )
    return url
