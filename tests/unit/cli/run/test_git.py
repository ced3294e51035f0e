"""Which commit pods fetch from where: one that they can fetch, and the same one each time."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from charterer.tools.submission.manifest import GitSource, git_source
from tests.unit.cli.run.repository import git, repository

COMMIT = "1a2b" * 10


def test_a_commit_of_another_repository_is_named_by_its_full_id(tmp_path: Path) -> None:
    assert git_source(tmp_path, f"https://github.com/acme/sft@{COMMIT}") == GitSource(
        "https://github.com/acme/sft", COMMIT
    )


def test_a_commit_of_this_repository_is_fetched_from_its_origin(tmp_path: Path) -> None:
    here = repository(tmp_path, {"sft/train.py": ""})
    git(here, "remote", "add", "origin", "https://github.com/acme/sft.git")
    commit = git(here, "rev-parse", "HEAD")
    source = git_source(here / "sft", "HEAD@{0}")
    assert (source.url, source.commit, source.directory) == ("https://github.com/acme/sft.git", commit, "sft/")
    (warning,) = source.warnings
    assert "no remote branch contains commit" in warning
    git(here, "update-ref", "refs/remotes/origin/main", commit)
    assert git_source(here, "main").warnings == ()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("https://github.com/acme/sft@main", "'main' is no commit by its full id"),
        (f"git@github.com:acme/sft.git@{COMMIT}", f"give --git https://github.com/acme/sft.git@{COMMIT}"),
        (f"ssh://git@github.com/acme/sft.git@{COMMIT}", f"give --git https://github.com/acme/sft.git@{COMMIT}"),
        (f"file:///home/ada/sft@{COMMIT}", "they have no keys and none of your files"),
        (f"https://ada:secret@github.com/acme/sft@{COMMIT}", "contains a user or password"),
        ("nowhere", "git knows no such commit here"),
        ("HEAD", "this repository has no remote origin"),
    ],
)
def test_what_no_pod_can_fetch_is_refused_with_what_to_do(tmp_path: Path, given: str, wanted: str) -> None:
    with pytest.raises(click.ClickException) as refused:
        git_source(repository(tmp_path, {"train.py": ""}), given)
    assert wanted in refused.value.message
    assert "secret" not in refused.value.message


def test_outside_of_a_repository_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="is in no git repository"):
        git_source(tmp_path, "HEAD")
