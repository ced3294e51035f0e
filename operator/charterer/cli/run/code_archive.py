"""The code that a job takes along: the files that git tracks in a directory, as a tarball that is the same again."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from charterer.cli.run.git import git_output, git_paths
from charterer.cli.run.secret_names import secret_files
from charterer.sentences import count, names

MOST_BYTES: Final = 900_000
"""Size of the tarball. A ConfigMap takes 1 MiB, and etcd a request of 1.5 MiB, where it is a third larger (base64)."""
_TIME: Final = 946_684_800
"""Modification time of each file, in seconds: 2000-01-01. Some programs warn of one in 1970."""
_SHOWN_FILES: Final = 5
_OTHERWISE: Final = "give --git COMMIT, by which the pods fetch the code, or --no-code with an --image that contains it"


@dataclass(frozen=True, slots=True)
class CodeArchive:
    """The bytes of a ``.tar.gz``, and a sentence for each thing that may not be what was meant."""

    content: bytes
    warnings: tuple[str, ...]


def archive_of(directory: Path) -> CodeArchive:
    """Pack the tracked files of the directory and below, as they are there now. ClickException where that is not
    possible."""
    tracked = git_paths(directory, "ls-files", "-z", "--recurse-submodules")
    files = [path for path in tracked if (directory / path).is_symlink() or (directory / path).is_file()]
    outside = [path for path in files if _leads_out(directory, path)]
    files = [path for path in files if path not in set(outside)]
    if not files:
        raise click.ClickException(f"git tracks no file in {directory}: git add what the job needs, or {_OTHERWISE}")
    modules = [path for path in tracked if (directory / path).is_dir() and not (directory / path).is_symlink()]
    warnings = [*_differences(directory)]
    if outside:
        warnings.append(f"links that lead out of the directory are left out: {names(outside)}")
    if secret := secret_files(files):
        warnings.append(
            f"{names(secret)} may hold secrets, and {_verb(secret, 'goes', 'go')} into a ConfigMap, which whoever may "
            "view the namespace reads: git rm --cached, or use a Secret"
        )
    if modules:
        warnings.append(f"submodules without files are left out ({names(modules)}): git submodule update --init")
    return CodeArchive(_packed(directory, files), tuple(warnings))


def _leads_out(directory: Path, path: str) -> bool:
    """Whether it is a link that no program would unpack from a tarball, or is reached by a folder that is one."""
    file = directory / path
    if not file.parent.resolve().is_relative_to(directory.resolve()):
        return True
    if not file.is_symlink():
        return False
    target = os.readlink(file)
    return os.path.isabs(target) or os.path.normpath(os.path.join(os.path.dirname(path), target)).startswith("..")


def _differences(directory: Path) -> Sequence[str]:
    untracked = git_paths(directory, "ls-files", "-z", "--others", "--exclude-standard")
    commit = git_output(directory, "rev-parse", "--verify", "--quiet", "--short", "HEAD", may_fail=True)
    said = []
    if untracked:
        stays = _verb(untracked, "stays here: it is", "stay here: they are")
        said.append(f"{names(untracked)} {stays} not tracked by git; git add what the job needs")
    if not commit:
        said.append("nothing is committed yet: nobody can tell later which code the job ran")
    elif changed := git_paths(directory, "diff", "--name-only", "--relative", "-z", "HEAD", "--", "."):
        differs, goes = (
            _verb(changed, "differs", "differ"),
            _verb(changed, "goes along as it is", "go along as they are"),
        )
        said.append(f"{names(changed)} {differs} from commit {commit} and {goes} here")
    return said


def _verb(things: Sequence[str], one: str, many: str) -> str:
    return one if len(things) == 1 else many


class _Full(Exception):
    pass


class _Bounded(io.BytesIO):
    def write(self, data: bytes) -> int:  # type: ignore[override]
        if self.tell() + len(data) > MOST_BYTES:
            raise _Full
        return super().write(data)


def _packed(directory: Path, files: Sequence[str]) -> bytes:
    packed = _Bounded()
    try:
        with (
            gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as compressed,
            tarfile.open(fileobj=compressed, mode="w") as tarball,
        ):
            for path in sorted(files):
                _add(tarball, directory / path, path)
    except _Full:
        raise click.ClickException(_too_large(directory, files)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename} cannot be read: {error.strerror}") from error
    return packed.getvalue()


def _add(tarball: tarfile.TarFile, file: Path, path: str) -> None:
    """What depends on the machine and the moment is left out: owner, time, and which permissions others have."""
    entry = tarfile.TarInfo(path)
    entry.mtime = _TIME
    if file.is_symlink():
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, os.readlink(file), 0o777
        tarball.addfile(entry)
        return
    with file.open("rb") as content:
        seen = os.fstat(content.fileno())
        entry.size, entry.mode = seen.st_size, 0o755 if seen.st_mode & 0o100 else 0o644
        tarball.addfile(entry, content)


def _too_large(directory: Path, files: Sequence[str]) -> str:
    sizes = {path: (directory / path).lstat().st_size for path in files}
    largest = sorted(sizes, key=lambda path: (-sizes[path], path))[:_SHOWN_FILES]
    listed = "".join(f"\n  {sizes[path]:>13,} bytes  {path}" for path in largest)
    return (
        f"the code in {directory} is too large: {count(len(files), 'file')} that git tracks there make a tarball of "
        f"more than {MOST_BYTES:,} bytes. Keep data in a volume or a bucket; or {_OTHERWISE}. The largest:{listed}"
    )
