"""The tarball of what git tracks: what is in it, that it is the same again, and what is said of the rest."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from random import Random

import click
import pytest

from charterer.tools.submission.manifest import MOST_BYTES, UNPACK, archive_of, secret_files
from tests.unit.cli.run.repository import git, repository, write


def contents(packed: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as tarball:
        return {entry.name: file.read() for entry in tarball if (file := tarball.extractfile(entry)) is not None}


def test_it_has_the_tracked_files_and_nothing_else(tmp_path: Path) -> None:
    here = repository(tmp_path, {"train.py": "print(1)", "sft/model.py": "x = 1"})
    write(here / "notes.txt", "mine")
    archive = archive_of(here)
    assert contents(archive.content) == {"sft/model.py": b"x = 1", "train.py": b"print(1)"}
    assert archive.warnings == ("notes.txt stays here: it is not tracked by git; git add what the job needs",)


def test_it_is_the_same_bytes_wherever_and_whenever_it_is_made(tmp_path: Path) -> None:
    first, second = (repository(tmp_path / name, {"train.py": "print(1)", "sft/model.py": "x = 1"}) for name in "ab")
    os.utime(second / "train.py", (1, 1))
    (second / "sft" / "model.py").chmod(0o600)
    assert archive_of(first).content == archive_of(second).content
    (second / "train.py").chmod(0o755)
    assert archive_of(first).content != archive_of(second).content, "whether a file can be run is part of the code"


def test_files_go_along_as_they_are_now_and_that_is_said(tmp_path: Path) -> None:
    here = repository(tmp_path, {"train.py": "print(1)", "old.py": ""})
    write(here / "train.py", "print(2)")
    (here / "old.py").unlink()
    archive = archive_of(here)
    assert contents(archive.content) == {"train.py": b"print(2)"}
    commit = git(here, "rev-parse", "--short", "HEAD")
    assert archive.warnings == (f"old.py, train.py differ from commit {commit} and go along as they are here",)


def test_below_the_top_of_a_repository_only_what_is_there_goes_along(tmp_path: Path) -> None:
    here = repository(tmp_path, {"train.py": "", "sft/train.py": "print(1)"})
    write(here / "train.py", "changed")
    archive = archive_of(here / "sft")
    assert (contents(archive.content), archive.warnings) == ({"train.py": b"print(1)"}, ())


def test_a_repository_without_a_commit_has_code_too(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    write(tmp_path / "train.py", "print(1)")
    git(tmp_path, "add", "train.py")
    archive = archive_of(tmp_path)
    assert contents(archive.content) == {"train.py": b"print(1)"}
    assert archive.warnings == ("nothing is committed yet: nobody can tell later which code the job ran",)


def test_the_pods_unpack_links_and_odd_names_but_no_link_that_leads_out(tmp_path: Path) -> None:
    here = repository(tmp_path / "code", {"train.py": "print(1)"})
    write(here / "Ärger mit\n'Namen'.py", "print(2)")
    (here / "inside").symlink_to("train.py")
    (here / "outside").symlink_to("/etc/passwd")
    (here / "above").symlink_to("../secret")
    git(here, "add", ".")
    archive = archive_of(here)
    assert "links that lead out of the directory are left out: above, outside" in archive.warnings
    (tmp_path / "code.tar.gz").write_bytes(archive.content)
    (tmp_path / "there").mkdir()
    unpack = [sys.executable, *UNPACK, str(tmp_path / "code.tar.gz"), str(tmp_path / "there")]
    subprocess.run(unpack, check=True)
    assert {file.name for file in (tmp_path / "there").iterdir()} == {"train.py", "Ärger mit\n'Namen'.py", "inside"}
    assert (tmp_path / "there" / "inside").read_text() == "print(1)"


def test_no_file_goes_along_that_a_folder_leads_out_to(tmp_path: Path) -> None:
    here = repository(tmp_path / "code", {"train.py": "", "conf/passwd": "", "conf/deep/x": "", "kept/y": "y"})
    write(tmp_path / "etc" / "passwd", "theirs")
    write(tmp_path / "etc" / "deep" / "x", "theirs")
    subprocess.run(["rm", "-r", str(here / "conf"), str(here / "kept")], check=True)
    (here / "conf").symlink_to(tmp_path / "etc")
    write(here / "real" / "y", "y")
    (here / "kept").symlink_to("real")
    archive = archive_of(here)
    assert contents(archive.content) == {"train.py": b"", "kept/y": b"y"}
    assert "links that lead out of the directory are left out: conf/deep/x, conf/passwd" in archive.warnings


SECRET = [".env", "sft/.env.prod", ".netrc", "id_rsa", "deploy/id_ed25519", "kubeconfig", "gpu.kubeconfig", "tls.key"]
SECRET += ["service-account.json", "sft/my-service_account-7.json", "credentials.json", ".kube/config", "secrets.yaml"]
PLAIN = ["train.py", ".env.example", "env.py", "config", "keys.py", "secrets.py", "tokenizer.json", "model.pem.md"]


def test_what_may_hold_secrets_is_said_in_one_line(tmp_path: Path) -> None:
    here = repository(tmp_path / "code", dict.fromkeys((*SECRET, *PLAIN), "x"))
    (told,) = archive_of(here).warnings
    assert set(secret_files((*SECRET, *PLAIN))) == set(SECRET)
    assert "may hold secrets, and go into a ConfigMap, which whoever may view the namespace reads" in told
    assert archive_of(repository(tmp_path / "plain", dict.fromkeys(PLAIN, "x"))).warnings == ()


def test_a_submodule_goes_along_if_it_is_there(tmp_path: Path) -> None:
    module = repository(tmp_path / "module", {"model.py": "x = 1"})
    here = repository(tmp_path / "code", {"train.py": ""})
    git(here, "submodule", "--quiet", "add", str(module), "lib")
    git(here, "commit", "--quiet", "--message", "with module")
    assert contents(archive_of(here).content)["lib/model.py"] == b"x = 1"
    git(here, "submodule", "--quiet", "deinit", "--force", "lib")
    archive = archive_of(here)
    assert "lib/model.py" not in contents(archive.content)
    assert archive.warnings == ("submodules without files are left out (lib): git submodule update --init",)


def test_what_does_not_fit_is_refused_with_the_largest_files(tmp_path: Path) -> None:
    here = repository(tmp_path, {"train.py": "print(1)"})
    (here / "data.bin").write_bytes(Random(1).randbytes(MOST_BYTES))
    (here / "text.txt").write_bytes(b"0" * 3 * MOST_BYTES)
    git(here, "add", ".")
    with pytest.raises(click.ClickException) as refused:
        archive_of(here)
    first, *largest = refused.value.message.splitlines()
    assert "3 files that git tracks there make a tarball of more than 900,000 bytes" in first
    assert "--git COMMIT" in first
    assert [line.split() for line in largest] == [
        ["2,700,000", "bytes", "text.txt"],
        ["900,000", "bytes", "data.bin"],
        ["8", "bytes", "train.py"],
    ]


def test_where_git_tracks_nothing_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="is in no git repository: git init, git add"):
        archive_of(tmp_path)
    git(tmp_path, "init", "--quiet")
    with pytest.raises(
        click.ClickException, match=r"git tracks no file in .*: git add what the job needs, or give --git"
    ):
        archive_of(tmp_path)
