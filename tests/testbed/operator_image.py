"""Builds the operator's image from its Dockerfile without Docker or a registry.

Run ``make test-image`` as root on Debian. buildah runs the Dockerfile on a base image made of this machine's Debian
release and a local interpreter. The interpreter has the version that the Dockerfile names, or is the one that runs this
file. The image goes to ``${CHARTERER_CACHE_DIR:-...}/image/<hash>/image.tar`` as ``charterer:dev``. The hash covers all
inputs.
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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.testbed import debian, interpreters
from tests.testbed.build import ROOT
from tests.testbed.cache import BuildError, Say, Thing, cache_directory, in_cache
from tests.testbed.interpreters import Interpreter

NAME = "localhost/charterer:dev"
PACKAGES = ("buildah", "debootstrap", "runc")
"""Debian packages with the programs that the build uses."""
_WITHOUT = ("_tkinter", "_curses", "_gdbm", "nis")
"""Modules of the standard library that the base image need not load."""


def unsuitable() -> str | None:
    """Return one line that says why this machine can build no image, None if it can."""
    if os.geteuid() != 0:
        return "only root can build the image"
    return None if shutil.which("dpkg") else "the base image is made of Debian packages, and this is no Debian"


def _packages_installed() -> bool:
    return all(map(shutil.which, PACKAGES))


def interpreter() -> Interpreter:
    """Return an interpreter of the version that the Dockerfile names, or this one if there is none."""
    named = re.search(r"^FROM python:(\d+\.\d+)", (ROOT / "Dockerfile").read_text(), re.M)
    if named is None:
        raise BuildError("the Dockerfile's first FROM names no version of python")
    found = interpreters.find([named[1]]) or interpreters.examine(sys.executable)
    if found is None:
        raise BuildError("no interpreter runs, not even this one")
    return found


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
    """Return the files that the Dockerfile copies, as .dockerignore lists them."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return ("Dockerfile", ".dockerignore", *sorted(line[1:] for line in lines if line.startswith("!")))


def _base_key(python: Interpreter) -> str:
    machine = (platform.machine(), _debian(), python.release, str(python.prefix))
    recipe = (inspect.getsource(function) for function in (_base, _linked_packages))
    return _key(part.encode() for part in (*machine, *recipe))


def _debian() -> str:
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def archive() -> Path:
    """Return the path of this checkout's image, which may not be built yet."""
    key = _key([_base_key(interpreter()).encode(), *_contents(_made_of())])
    return cache_directory() / "image" / key / "image.tar"


def missing() -> str | None:
    """Return one line that says why this checkout has no image and what to do, None if it has one."""
    if unsuitable() is None and archive().exists():
        return None
    return unsuitable() or "the operator's image is not built: run `make test-image` as root"


def run(command: Iterable[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a program with its output in a file. Raises BuildError with the end of the output."""
    arguments = [str(part) for part in command]
    with log.open("ab") as output:
        done = subprocess.run(
            arguments, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise BuildError(f"{' '.join(arguments[:3])} failed; the end of {log}:\n{tail}")


class Buildah:
    """buildah with a separate image folder. Its only isolation is chroot."""

    def __init__(self, storage: Path, log: Path) -> None:
        self._storage = storage
        self._log = log
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
            "BUILDAH_ISOLATION": "chroot",
            "STORAGE_DRIVER": os.environ.get("STORAGE_DRIVER", "overlay"),
        }

    def __call__(self, command: str, *arguments: str | Path) -> None:
        """Run one command. Raises BuildError."""
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


def lacking(say: Say) -> list[Thing]:
    """Return the things to make and install. Builds run one at a time, because they share buildah's image folder."""
    place = archive().parent
    if place.exists():
        return []
    packages = debian.packages("image's packages", PACKAGES, _packages_installed, 15)
    image = in_cache("image", place, 145, _fill, cache_directory() / "image" / ".lock")
    return [image] if _packages_installed() else [packages, image]


def _fill(into: Path, say: Say) -> None:
    python = interpreter()
    say(f"image: building with Python {python.release} of {python.prefix} on Debian {_debian()}")
    log = cache_directory() / "image" / f"{archive().parent.name}.log"
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
    into.mkdir()
    buildah("push", "--quiet", NAME, f"docker-archive:{into / 'image.tar'}:{NAME}")
    log.unlink()


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An image's files below ``root``, and values of its configuration."""

    root: Path
    entrypoint: list[str]
    user: str
    environment: Mapping[str, str]


def unpack(image: Path, folder: Path) -> Unpacked:
    """Unpack the image of an archive into an empty folder. The image must not have whiteout files."""
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
