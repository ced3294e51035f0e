"""Programs of the testbed: builds them from pinned Go modules, and finds them.

Run ``make testbed``. Each target is made once per machine (``cache.py``). Its folder's name has a hash of the module's
files, the recipe and the platform. Checkouts with equal pins therefore share a folder, and a changed pin never gets an
old program. A target is downloaded from its authors' releases if their host can be reached (``releases.py``), and
otherwise built.

A program in the folder ``KUBEBUILDER_ASSETS`` or on PATH takes precedence if it has the pinned major and minor version
(``given.py``).
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from tests.testbed import given, releases
from tests.testbed.cache import BuildError, Say, Thing, cache_directory, in_cache

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class MissingProgramsError(Exception):
    """The testbed has not been built. The message is one line that says how to build it."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Paths of the testbed's programs."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubectl: Path
    kwok: Path
    helm: Path


PROGRAMS = tuple(field.name.replace("_", "-") for field in fields(Binaries))


@dataclass(frozen=True, slots=True)
class Copy:
    """Files beside a program: ``folder`` of a Go module, copied to a folder named ``into``."""

    module: str
    folder: str
    into: str


@dataclass(frozen=True, slots=True)
class Target:
    """One ``go build`` of ``package`` in the Go module folder ``module``.

    Several ``programs`` become links to one file. ``seconds`` is the build time on two idle cores without a cache.
    ``tags`` are Go's build tags. ``versions`` are the wanted versions of the programs. Without ``versions``, only our
    own build is used.
    """

    name: str
    module: str
    package: str
    programs: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    seconds: int
    tags: str = ""
    copies: tuple[Copy, ...] = ()
    versions: tuple[str, ...] = ()

    @property
    def place(self) -> Path:
        """The folder of the target's programs, which may not exist yet."""
        recipe = (self.name, self.package, self.programs, self.variables, self.tags, self.copies)
        digest = hashlib.sha256(f"{sys.platform} {platform.machine()} {recipe}".encode())
        for file in sorted((HERE / self.module).iterdir()):
            digest.update(f"\0{self.module}/{file.name}\0".encode() + file.read_bytes())
        return cache_directory() / "testbed" / f"{self.name}-{digest.hexdigest()[:32]}"

    @property
    def thing(self) -> Thing:
        """The target as a Thing of the cache."""
        return in_cache(self.name, self.place, self.seconds, lambda into, say: _fill(self, into, say))


def pinned(module: str, path: str) -> str:
    """Return the version of ``path`` in one of our go.mod files, such as v1.36.3."""
    match = re.search(rf"^\s*(?:require )?{re.escape(path)} (v\S+)", (HERE / module / "go.mod").read_text(), re.M)
    if match is None:
        raise BuildError(f"tests/testbed/{module}/go.mod does not require {path}; add it with a version")
    return match[1]


def _chosen(family: str, variable: str, default: str | None = None) -> str:
    """Return the folder ``go-<family>-<version>`` for the version in the environment, by default the newest."""
    versions = sorted(
        (folder.name.removeprefix(f"go-{family}-") for folder in HERE.glob(f"go-{family}-*")),
        key=lambda version: [int(part) for part in version.split(".")],
    )
    version = os.environ.get(variable) or default or versions[-1]
    if version not in versions:
        raise BuildError(f"{variable}={version}: the test bed has {family} {', '.join(versions)}")
    return f"go-{family}-{version}"


def kubernetes_module() -> str:
    """Return the folder of Kubernetes' module, for the version in CHARTERER_KUBERNETES (such as 1.36) or the newest."""
    return _chosen("kubernetes", "CHARTERER_KUBERNETES")


def helm_module() -> str:
    """Return the folder of helm's module, for the major version in CHARTERER_HELM or 3."""
    return _chosen("helm", "CHARTERER_HELM", "3")


def kubernetes_version() -> tuple[tuple[str, str], ...]:
    """Return the link-time variables of Kubernetes programs' version: gitVersion, gitMajor, gitMinor."""
    kubernetes = pinned(kubernetes_module(), "k8s.io/kubernetes")
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    return tuple(
        (f"k8s.io/component-base/version.{variable}", value)
        for variable, value in (("gitVersion", kubernetes), ("gitMajor", major), ("gitMinor", minor))
    )


def _helm_renders_for(path: str, major: str, minor: str) -> tuple[tuple[str, str], ...]:
    """Return the variables that set the Kubernetes version for which helm 3 renders charts without a cluster.

    Helm 4 has no such variables, and uses the version of k8s.io/client-go in its go.mod.
    """
    if path != "helm.sh/helm/v3":
        return ()
    return tuple(
        (f"{path}/pkg/{package}.k8sVersion{part}", value)
        for package in ("chartutil", "lint/rules")
        for part, value in (("Major", major), ("Minor", minor))
    )


def targets() -> tuple[Target, ...]:
    """Return the testbed's targets. Link-time variables give each program its true version."""
    component = kubernetes_version()
    (_, version), (_, major), (_, minor) = component
    kubernetes = kubernetes_module()
    etcd, kwok = pinned(kubernetes, "go.etcd.io/etcd/server/v3"), pinned("go-kwok", "sigs.k8s.io/kwok")
    path = f"helm.sh/helm/v{helm_module().removeprefix('go-helm-')}"
    helm = pinned(helm_module(), path)
    variables = ((f"{path}/internal/version.version", helm), *_helm_renders_for(path, major, minor))
    control_plane = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    kubectl = "k8s.io/kubernetes/cmd/kubectl"
    return (
        Target("kube", kubernetes, ".", control_plane, component, 320, versions=(etcd, version, version, version)),
        Target("kubectl", kubernetes, kubectl, ("kubectl",), component, 25, versions=(version,)),
        Target("kwok", "go-kwok", "sigs.k8s.io/kwok/cmd/kwok", ("kwok",), (), 80, versions=(kwok,)),
        Target("helm", helm_module(), f"{path}/cmd/helm", ("helm",), variables, 60, versions=(helm,)),
    )


def find(program: str, target: Target, say: Say = lambda line: None) -> Path | None:
    """Return the program on this machine, or the built one, or None.

    ``say`` gets a line if a found program is rejected.
    """
    versions = dict(zip(target.programs, target.versions, strict=False))
    if program in versions and (found := given.find(program, given.same_minor(versions[program]), say)):
        return found
    made = target.place / program
    return made if os.access(made, os.X_OK) else None


def lacking(of: Iterable[Target], say: Say = lambda line: None) -> list[Thing]:
    """Return the things that must be made for these targets."""
    return [target.thing for target in of if any(find(name, target, say) is None for name in target.programs)]


def locate() -> Binaries:
    """Return all programs. Raises MissingProgramsError if one is missing."""
    paths = {program: find(program, target) for target in targets() for program in target.programs}
    missing = [program for program, path in paths.items() if path is None]
    if missing:
        places = cache_directory() / "testbed"
        raise MissingProgramsError(f"the test bed lacks {', '.join(missing)} (looked in {places}): run `make testbed`")
    return Binaries(**{program.replace("-", "_"): path for program, path in paths.items() if path is not None})


def _go_version(go: str) -> tuple[int, ...] | None:
    try:
        answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=go_environment())
    except OSError:
        return None
    match = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return tuple(int(part or 0) for part in match.groups()) if match else None


def go_environment() -> dict[str, str]:
    """Return an environment without C compiler and the caller's Go workspace, and in which Go downloads no toolchain.

    GOGC=400 makes the Go compiler collect garbage less often. This saves an eighth of processor time for more memory.
    """
    return {"GOGC": "400", **os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def find_go(target: Target, say: Say) -> str:
    """Return a Go that is new enough for the target, from PATH or installed into the project's virtual environment."""
    (wanted,) = re.findall(r"^go (\S+)$", (HERE / target.module / "go.mod").read_text(), re.M)
    needed = tuple(int(part) for part in wanted.split("."))
    for go in ("go", str(ROOT / ".venv/bin/go")):
        version = _go_version(go)
        if version is not None and version >= needed:
            return go
    python = ROOT / ".venv/bin/python"
    if not python.exists():
        raise BuildError(f"no Go {wanted} or newer on PATH, and no .venv to install one into: run `make .venv` first")
    say(f"no Go {wanted} or newer on PATH; installing one into .venv (requirements/go.txt)")
    requirements = str(ROOT / "requirements/go.txt")
    pip = [str(python), "-m", "uv", "pip", "install", "--quiet", "--require-hashes", "-r", requirements]
    done = subprocess.run(pip, capture_output=True, text=True, env={**os.environ, "VIRTUAL_ENV": str(ROOT / ".venv")})
    if done.returncode != 0:
        raise BuildError(f"Go could not be installed: {done.stderr.strip()}; install Go {wanted} or newer yourself")
    go = str(ROOT / ".venv/bin/go")
    if (_go_version(go) or ()) < needed:
        raise BuildError(f"requirements/go.txt installs a Go older than {wanted}; run `make requirements`")
    return go


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


def _fill(target: Target, into: Path, say: Say) -> None:
    """Make the folder of a target."""
    into.mkdir(parents=True)
    if not releases.fetch(target.module, target.name, into, target.seconds, say):
        compile_into(target, into, say)


def compile_into(target: Target, into: Path, say: Say) -> None:
    """Build a target into an existing folder. Raises BuildError."""
    go = find_go(target, say)
    say(f"{target.name}: building from source")
    log = into.parent / f"{target.place.name}.log"
    flags = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in target.variables)])
    tags = ["-tags", target.tags] if target.tags else []
    # The linker removes debug data (-s -w), so the compiler need not write it. This saves a seventh of its time.
    compiler = ["-gcflags", "all=-dwarf=false"]
    options = [*tags, *compiler, "-trimpath", "-ldflags", flags]
    command = [go, "build", *options, "-o", str(into / target.name), target.package]
    with log.open("wb") as output:
        done = subprocess.run(
            command, cwd=HERE / target.module, env=go_environment(), stdout=output, stderr=subprocess.STDOUT
        )
    if done.returncode != 0:
        raise BuildError(_explain(target, log, go))
    log.unlink()
    for program in target.programs:
        if program != target.name:
            (into / program).symlink_to(target.name)
    for copy in target.copies:
        # The module cache is read-only, but copies must be deletable like other files.
        source = _fetched(target, copy.module, go) / copy.folder
        shutil.copytree(source, into / copy.into, copy_function=shutil.copyfile, dirs_exist_ok=True)
    for folder in into.rglob("*/"):
        folder.chmod(0o755)


def _fetched(target: Target, path: str, go: str) -> Path:
    """Return the folder of module ``path`` in Go's module cache, which the build has filled. Raises BuildError."""
    command = [go, "list", "-m", "-f", "{{.Dir}}", path]
    done = subprocess.run(command, cwd=HERE / target.module, capture_output=True, text=True, env=go_environment())
    if done.returncode != 0 or not done.stdout.strip():
        raise BuildError(f"{' '.join(command)} in tests/testbed/{target.module}: {done.stderr.strip() or 'no folder'}")
    return Path(done.stdout.strip())
