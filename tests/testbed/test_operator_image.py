"""The operator's image as the Dockerfile makes it: it starts as any user, and contains no other programs."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from charterer import __version__
from tests import awaited
from tests.testbed import operator_image

pytestmark = pytest.mark.needs("image")

UNKNOWN = 1_000_650_000
"""A uid without an entry in the image's /etc/passwd. Some clusters assign such uids per namespace."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> operator_image.Unpacked:
    """The unpacked image."""
    awaited.present("image", operator_image.missing)
    return operator_image.unpack(operator_image.archive(), tmp_path_factory.mktemp("image"))


def run(image: operator_image.Unpacked, user: int, *command: str, input: str = "") -> str:
    """Run a program in the image, without writable files and with the image's environment, and return its output."""
    chroot = [shutil.which("chroot") or "chroot", f"--userspec={user}:0", str(image.root), *command]
    done = subprocess.run(chroot, input=input, capture_output=True, text=True, env=image.environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("user", [65532, UNKNOWN])
def test_the_command_starts_as_any_user(image: operator_image.Unpacked, user: int) -> None:
    assert image.entrypoint == ["charterer"]
    assert image.user == "65532:65532"
    assert __version__ in run(image, user, "charterer", "--version")
    assert "kubeconfig" in run(image, user, "charterer", "operator", "--help")


def test_there_is_no_other_program(image: operator_image.Unpacked) -> None:
    folders = [image.root / name for name in ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/sbin")]
    assert [path for folder in folders if folder.exists() for path in folder.iterdir()] == []
    programs = {path.name for path in (image.root / "usr/local/bin").iterdir()}
    assert {name.rstrip("0123456789.") for name in programs} == {"python"}
    assert not list(image.root.rglob("pip")), "nothing that installs"


def test_nothing_is_writable_but_by_root_and_tmp(image: operator_image.Unpacked) -> None:
    writable = [
        path
        for path in image.root.rglob("*")
        if not path.is_symlink() and (path.stat().st_uid != 0 or path.stat().st_mode & 0o022)
    ]
    assert writable == [image.root / "tmp"]
