"""Puts together the root file system of the operator's image: ``python root.py ROOT FOLDER...``.

ROOT gets this interpreter with its standard library, the folders, the shared libraries that any of these is linked
with, and the few files of /etc that they read. It has no shell, no package manager and no other program. As scanners
expect it of such images, ``/var/lib/dpkg/status.d`` tells which Debian packages the libraries are from. Runs as root in
an image that is made of Debian packages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

UNUSED = (
    *("site-packages", "__pycache__", "config-*", "test", "_test*.so", "xx*.so", "ensurepip", "lib2to3", "pydoc_data"),
    *("idlelib", "tkinter", "_tkinter*.so", "turtledemo", "turtle.py", "curses", "_curses*.so", "readline*.so"),
    *("_dbm*.so", "_gdbm*.so", "nis*.so", "ossaudiodev*.so", "_crypt*.so"),
)
"""What of the standard library only programs need that install, test, or have windows, lines to edit or NIS."""
USER = "charterer:x:65532:65532:charterer:/tmp:/sbin/nologin"
FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
)
"""What the libraries read. Where the authorities of the web are, the variable SSL_CERT_FILE has to tell OpenSSL."""


class RootError(Exception):
    """A shared library was not found; the message says which and who needs it."""


def copy(path: Path, root: Path) -> None:
    """The file, folder or link at the same place below ``root``; of a link also what it leads to."""
    place = path.parent.resolve() / path.name
    target = root / place.relative_to("/")
    if os.path.lexists(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink():
        target.symlink_to(os.readlink(place))
        copy(place.parent / os.readlink(place), root)
    elif place.is_dir():
        shutil.copytree(place, target, symlinks=True)
    else:
        shutil.copy2(place, target)


def copy_python(root: Path) -> None:
    """The interpreter, its standard library without what no server needs, and no compiled files."""
    prefix, version = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name in ("python", "python3", version):
        copy(prefix / "bin" / name, root)
    library = prefix / "lib" / version
    ignored = shutil.ignore_patterns(*UNUSED)
    shutil.copytree(library, root / library.relative_to("/"), symlinks=True, ignore=ignored)


def elf_files(folder: Path) -> Iterator[Path]:
    """Programs and shared libraries below a folder."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix != ".py":
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def libraries(files: Iterable[Path]) -> set[Path]:
    """The shared libraries that the files are linked with, as the loader finds them. RootError for one that lacks."""
    answer = subprocess.run(["ldd", *files], capture_output=True, text=True, check=True).stdout
    if missing := re.search(r"^\s*(\S+) => not found", answer, re.M):
        raise RootError(f"no shared library {missing[1]}, which one of the packages is linked with")
    return {Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", answer, re.M)}


def debian_packages(files: Iterable[Path]) -> set[str]:
    """The packages that the files are from. Those of the interpreter's own build are of none."""
    names = {str(name) for path in files for name in (path, path.resolve())}
    places = names | {name.removeprefix("/usr") for name in names}  # where it is, and where the package has put it
    answer = subprocess.run(["dpkg", "-S", *places], capture_output=True, text=True).stdout
    return {line.partition(": ")[0] for line in answer.splitlines() if not line.startswith("diversion ")}


def record(packages: Iterable[str], root: Path) -> None:
    """Names, versions and licences of Debian packages."""
    (root / "var/lib/dpkg/status.d").mkdir(parents=True)
    for package in sorted(packages):
        name = package.partition(":")[0]
        status = subprocess.run(["dpkg-query", "--status", package], capture_output=True, text=True, check=True)
        (root / "var/lib/dpkg/status.d" / name).write_text(status.stdout)
        copy(Path("/usr/share/doc", name, "copyright"), root)


def main(root: Path, folders: Iterable[Path]) -> None:
    """All of it."""
    root.mkdir()
    for link in (path for path in Path("/").glob("lib*") if path.is_symlink()):
        (root / link.name).symlink_to(os.readlink(link))
    copy_python(root)
    for folder in folders:
        copy(folder, root)
    for name in FILES:
        copy(Path(name), root)
    found = {library for library in libraries(elf_files(root)) if not library.is_relative_to(root)}
    for library in found:
        copy(library, root)
    subprocess.run(["ldconfig", "-r", root], check=True)
    record(debian_packages(found) | {"ca-certificates"}, root)
    (root / "etc/passwd").write_text(f"root:x:0:0:root:/root:/sbin/nologin\n{USER}\n")
    (root / "etc/group").write_text("root:x:0:\ncharterer:x:65532:\n")
    for name, mode in (("tmp", 0o1777), ("proc", 0o555), ("sys", 0o555), ("dev", 0o755), ("run", 0o755)):
        (root / name).mkdir(exist_ok=True)
        (root / name).chmod(mode)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
    except RootError as error:
        sys.exit(str(error))
