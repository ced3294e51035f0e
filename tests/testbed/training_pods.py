"""Pods that train in tests: this machine's interpreter and packages in a container, with a folder for checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.testbed.build import ROOT
from tests.testbed.frameworks import digits
from tests.testbed.images import TRAIN

CHECKPOINTS = "/checkpoints"
_LIBRARY = ROOT / "trainer" / "src"
_USR = Path("/usr")


def base_interpreter() -> Path:
    """Return the interpreter on which this virtual environment is based, which has the standard library only."""
    return Path(sys.executable).resolve()


@dataclass(frozen=True, slots=True)
class TrainingPod:
    """A ``script`` of this checkout, run by ``python`` with ``arguments``.

    ``checkpoints`` is a folder that survives pods. ``environment`` has variables besides PYTHONPATH and CHECKPOINTS.
    ``memory`` is the container's limit, such as 64Mi. ``files`` are further read-only mounts by their path in the
    container, ``folders`` further writable ones.
    """

    script: Path
    checkpoints: Path
    python: Path = field(default_factory=base_interpreter)
    launcher: Sequence[str] = ()
    """Arguments between interpreter and script, such as ``-m torch.distributed.run``."""
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    memory: str | None = None
    grace_seconds: int = 30
    image: str = TRAIN
    files: Mapping[str, Path] = field(default_factory=dict)
    folders: Mapping[str, Path] = field(default_factory=dict)

    def template(self) -> Mapping[str, Any]:
        """Return the pod template for a TrainingJob."""
        readable = self._readable()
        volumes = [{"name": f"v{n}", "hostPath": {"path": str(path)}} for n, path in enumerate(readable.values())]
        mounts: list[dict[str, object]] = [
            {"name": f"v{n}", "mountPath": at, "readOnly": True} for n, at in enumerate(readable)
        ]
        for n, (at, path) in enumerate({CHECKPOINTS: self.checkpoints, **self.folders}.items()):
            volumes.append({"name": f"w{n}", "hostPath": {"path": str(path)}})
            mounts.append({"name": f"w{n}", "mountPath": at})
        container: dict[str, Any] = {
            "name": "trainer",
            "image": self.image,
            "imagePullPolicy": "Never",
            "command": [str(self.python), *self.launcher, f"{self._code}/{self.script.name}", *self.arguments],
            "env": [{"name": name, "value": value} for name, value in self._environment().items()],
            "volumeMounts": mounts,
        }
        if self.memory:
            container["resources"] = {"limits": {"memory": self.memory}}
        spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": self.grace_seconds}
        return {"spec": spec}

    @property
    def _code(self) -> str:
        return f"/code/{self.script.parent.relative_to(ROOT)}"

    def _readable(self) -> Mapping[str, Path]:
        base = self.python.resolve().parents[1]
        environment = self.python.parent.parent
        own = [base, *([environment] if (environment / "pyvenv.cfg").exists() else [])]
        kept = {str(path): path for path in [_USR, *own] if path == _USR or not path.is_relative_to(_USR)}
        return {**kept, self._code: self.script.parent, "/library": _LIBRARY, **self.files}

    def _environment(self) -> Mapping[str, str]:
        return {
            "PYTHONPATH": "/code:/library",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "CHECKPOINTS": CHECKPOINTS,
            "HOME": "/tmp",
            "OMP_NUM_THREADS": "1",
            **self.environment,
        }


def jax_pod(script: Path, checkpoints: Path, python: Path, **environment: str) -> TrainingPod:
    """Return a pod for a script that trains in JAX on scikit-learn's digits at DIGITS.

    ``python`` must have both packages.
    """
    data = digits(python)
    needed = {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo", "DIGITS": f"/data/{data.name}"}
    return TrainingPod(script, checkpoints, python, environment={**needed, **environment}, files={"/data": data.parent})


def torch_pod(script: Path, checkpoints: Path, python: Path, *, torchrun: bool) -> TrainingPod:
    """Return a pod for a script in PyTorch, started by an unmodified torchrun or by the interpreter."""
    data = digits(python)
    launcher = ("-m", "torch.distributed.run") if torchrun else ()
    needed = {"DIGITS": f"/data/{data.name}"}
    return TrainingPod(script, checkpoints, python, launcher, environment=needed, files={"/data": data.parent})
