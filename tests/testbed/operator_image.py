"""Builds the operator's image by its Dockerfile, line by line, where there is neither Docker nor a registry.

Run ``make test-image`` (as root, on Debian). buildah runs the Dockerfile on a base image that is made of this machine's
release of Debian and of an interpreter found here: of the version that the Dockerfile names, else the one that runs
this file. Images go to ``${CHARTERER_CACHE_DIR:-...}/image/<hash>/image.tar`` as ``charterer:dev``; the hash covers
all that they are made of.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.testbed.build import ROOT, BuildError, alone, cache_directory

NAME = "localhost/charterer:dev"
PACKAGES = ("buildah", "debootstrap", "runc")
"""Packages of Debian whose programs are used."""
_WITHOUT = ("_tkinter", "_curses", "_gdbm", "nis")
"""Modules of the standard library that the base image need not load."""
_IDENTITY = "import sys; print(sys.base_prefix); print('%d.%d' % sys.version_info[:2], sys.version.split()[0])"


class CannotBuildError(BuildError):
    """This machine cannot build images; the message is one line that says what it lacks."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """``prefix``: its folder. ``version``: like 3.12, of ``release``, like 3.12.1."""

    prefix: Path
    version: str
    release: str

    @property
    def library(self) -> Path:
        """The folder of its standard library."""
        return self.prefix / "lib" / f"python{self.version}"

    def shared_libraries(self) -> Iterator[Path]:
        """Its own."""
        yield from (self.prefix / "lib").glob(f"libpython{self.version}*.so*")


def lacks() -> str | None:
    """What this machine lacks to build an image, in one line; None if nothing."""
    if os.geteuid() != 0:
        return "only root can build the image"
    missing = [name for name in PACKAGES if shutil.which(name) is None]
    if missing:
        return f"the image is built with {', '.join(missing)}: apt-get install {' '.join(missing)}"
    return None if shutil.which("dpkg") else "the base image is made of Debian packages, and this is no Debian"


def interpreter() -> Interpreter:
    """One of the version that the Dockerfile names, from PATH or pyenv; where there is none, this one."""
    named = re.search(r"^FROM python:(\d+\.\d+)", (ROOT / "Dockerfile").read_text(), re.M)
    if named is None:
        raise BuildError("the Dockerfile's first FROM names no version of python")
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{named[1]}"), *versions.glob(f"{named[1]}.*/bin/python{named[1]}"), sys.executable]
    for program in found:
        if program is not None:
            answer = subprocess.run([program, "-I", "-c", _IDENTITY], capture_output=True, text=True)
            if answer.returncode == 0:
                prefix, versions_of_it = answer.stdout.splitlines()
                return Interpreter(Path(prefix), *versions_of_it.split())
    raise BuildError("no interpreter runs, not even this one")


def _contents(paths: Iterable[str]) -> Iterator[bytes]:
    for name in paths:
        path = ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                yield f"\0{file.relative_to(ROOT)}\0".encode() + file.read_bytes()


def _key(of: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in of:
        digest.update(part)
    return digest.hexdigest()[:32]


def _made_of() -> tuple[str, ...]:
    """What the Dockerfile copies, as .dockerignore lists it."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return ("Dockerfile", ".dockerignore", *sorted(line[1:] for line in lines if line.startswith("!")))


def _base_key(python: Interpreter) -> str:
    machine = (platform.machine(), _debian(), python.release, str(python.prefix))
    recipe = (inspect.getsource(function) for function in (_base, _linked_packages))
    return _key(part.encode() for part in (*machine, *recipe))


def _debian() -> str:
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def archive() -> Path:
    """Where the image of this checkout is, or will be once built."""
    key = _key([_base_key(interpreter()).encode(), *_contents(_made_of())])
    return cache_directory() / "image" / key / "image.tar"


def missing() -> str | None:
    """Why there is no image of this checkout and what to do, in one line; None where there is one."""
    return None if archive().exists() else lacks() or "the operator's image is not built: run `make test-image` as root"


def run(command: Iterable[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
    """Runs a program with its output in a file; BuildError with the end of it if it fails."""
    arguments = [str(part) for part in command]
    with log.open("ab") as output:
        done = subprocess.run(
            arguments, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise BuildError(f"{' '.join(arguments[:3])} failed; the end of {log}:\n{tail}")


class Buildah:
    """buildah with its images in a folder of its own, and no other isolation than a changed root."""

    def __init__(self, storage: Path, log: Path) -> None:
        self._storage = storage
        self._log = log
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
            "BUILDAH_ISOLATION": "chroot",
            "STORAGE_DRIVER": os.environ.get("STORAGE_DRIVER", "overlay"),
        }

    def __call__(self, command: str, *arguments: str | Path) -> None:
        """One command; BuildError if it fails."""
        storage = ("--root", self._storage / "images", "--runroot", self._storage / "run")
        run(["buildah", *storage, command, *arguments], self._log, self._environment)


def _linked_packages(python: Interpreter) -> set[str]:
    """The packages with the shared libraries that the interpreter and its standard library are linked with."""
    modules = [path for path in python.library.glob("lib-dynload/*.so") if not path.name.startswith(_WITHOUT)]
    files = [python.prefix / "bin" / f"python{python.version}", *python.shared_libraries(), *modules]
    answer = subprocess.run(["ldd", *files], capture_output=True, text=True).stdout
    found = set(re.findall(r"=> (/\S+) \(0x", answer))
    places = found | {str(Path(library).resolve()) for library in found}
    owners = subprocess.run(["dpkg", "-S", *places], capture_output=True, text=True).stdout
    return {line.partition(":")[0] for line in owners.splitlines()}


def _base(python: Interpreter, root: Path, log: Path) -> None:
    """A root file system like that of the image ``python:X.Y-slim``: Debian, the interpreter in /usr/local, pip."""
    include = ",".join(sorted({"ca-certificates", "netbase", "tzdata"} | _linked_packages(python)))
    run(["debootstrap", "--variant=minbase", f"--include={include}", _debian(), root], log)
    for folder in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc-base"):
        shutil.rmtree(root / folder, ignore_errors=True)
    local = root / "usr/local"
    program = f"python{python.version}"
    shutil.copy2(python.prefix / "bin" / program, local / "bin")
    for link in ("python", "python3"):
        (local / "bin" / link).symlink_to(program)
    for library in python.shared_libraries():
        shutil.copy2(library, local / "lib", follow_symlinks=False)
    if shutil.which("strip"):  # as the libraries of the image whose place it takes are
        libraries = [path for path in (local / "lib").glob("libpython*") if not path.is_symlink()]
        run(["strip", "--strip-unneeded", local / "bin" / program, *libraries], log)
    ignored = shutil.ignore_patterns("__pycache__", "site-packages", "test", "config-*")
    shutil.copytree(python.library, local / "lib" / program, symlinks=True, ignore=ignored)
    run(["ldconfig", "-r", root], log)
    run(["chroot", root, f"/usr/local/bin/{program}", "-m", "ensurepip", "--default-pip"], log)


def _build(python: Interpreter, into: Path) -> None:
    log = into.parent / "log"
    log.write_bytes(b"")
    storage = cache_directory() / "image" / "storage"
    storage.mkdir(exist_ok=True)
    buildah = Buildah(storage, log)
    base = f"localhost/charterer-base:{_base_key(python)}"
    try:
        buildah("inspect", "--type", "image", base)
    except BuildError:
        root = storage / f"base-{os.getpid()}"
        try:
            _base(python, root, log)
            container = f"charterer-base-{os.getpid()}"
            buildah("from", "--name", container, "scratch")
            buildah("copy", "--quiet", container, root, "/")
            buildah("config", "--env", "PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin", container)
            buildah("commit", "--quiet", "--rm", container, base)
        finally:
            shutil.rmtree(root, ignore_errors=True)
    given = [Path("/etc/ssl/certs"), *(path for path in (Path("/etc/pip.conf"),) if path.exists())]
    mounts = [f"--volume={path}:{path}:ro" for path in given]
    buildah("bud", "--layers", "--pull-never", "--network=host", *mounts, f"--from={base}", f"--tag={NAME}", ".")
    partial = into.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    buildah("push", "--quiet", NAME, f"docker-archive:{partial}:{NAME}")
    partial.replace(into)


def build() -> Path:
    """The image of this checkout, built if it is not there: a tar of docker's kind. BuildError if that fails."""
    into = archive()
    if into.exists():
        return into
    if (missing := lacks()) is not None:
        raise CannotBuildError(missing)
    into.parent.mkdir(parents=True, exist_ok=True)
    with alone(cache_directory() / "image"):
        if not into.exists():
            started, python = time.monotonic(), interpreter()
            print(f"image: building with Python {python.release} of {python.prefix} on Debian {_debian()}", flush=True)
            _build(python, into)
            megabytes = into.stat().st_size / 1e6
            print(f"image: {megabytes:.0f} MB in {into} after {time.monotonic() - started:.0f} s", flush=True)
    return into


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An image's files below ``root``, and what its configuration says."""

    root: Path
    entrypoint: list[str]
    user: str
    environment: Mapping[str, str]


def unpack(image: Path, folder: Path) -> Unpacked:
    """The image of an archive, in an empty folder. For images without whiteouts, as those that begin with nothing."""
    with tarfile.open(image) as outer:

        def member(name: str) -> IO[bytes]:
            found = outer.extractfile(name)
            assert found is not None
            return found

        manifest = json.load(member("manifest.json"))[0]
        config = json.load(member(manifest["Config"]))["config"]
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=member(layer)) as inner:
                inner.extractall(folder, filter="fully_trusted")
    folder.chmod(0o755)
    environment = dict(variable.split("=", 1) for variable in config["Env"])
    return Unpacked(folder, config["Entrypoint"], config["User"], environment)


def _install() -> None:
    """Debian's packages, where that is possible; otherwise ``build`` says what is missing."""
    if os.geteuid() == 0 and shutil.which("apt-get") and not all(map(shutil.which, PACKAGES)):
        print(f"image: installing {', '.join(PACKAGES)}", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "--quiet=2", "--yes", "--no-install-recommends", *PACKAGES]
        for command in (["apt-get", "update", "--quiet=2"], install):
            subprocess.run(command, stdout=subprocess.DEVNULL, env=environment)


def main() -> int:
    """Installs what it is built with and builds, or prints why not, which with ``--if-possible`` is no failure."""
    try:
        if not archive().exists():
            _install()
        build()
    except CannotBuildError as error:
        print(f"image: {error}", file=sys.stderr)
        return 0 if "--if-possible" in sys.argv else 1
    except BuildError as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
