"""Virtual environments with a training framework, for containers that train in tests: made once per machine.

``make training`` makes JAX's and, over it, Jupyter's; ``make training-torch`` torch's. They lie in the test bed's
cache, under a hash of the pinned requirements and the interpreter, so that every checkout with the same pins shares
them. An environment is moved into place whole. Containers see it at the same path, mounted read-only; its bytecode is
compiled for that reason.

torch comes as PyPI's CUDA build without the gigabytes of CUDA libraries: ``cuda_stubs`` stands in for those.
scikit-learn is there for its data sets.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import cache, cuda_stubs
from tests.testbed.build import ROOT
from tests.testbed.cache import BuildError, Say, Thing, cache_directory, in_cache

_CUDA = re.compile(r"(?:nvidia|cuda)-|triton==")


@dataclass(frozen=True, slots=True)
class Framework:
    """``requirements/<name>.txt``; ``seconds`` and ``megabytes`` tell people what an installation costs.

    ``base``: a framework whose packages its interpreter sees as well, and which are not installed again.
    """

    name: str
    target: str
    seconds: int
    megabytes: int
    cuda_stubs: bool = False
    base: Framework | None = None

    @property
    def requirements(self) -> str:
        """The pinned packages with their hashes; none of CUDA's where stubs replace them, and none of the base's."""
        without_cuda = [entry for entry in self._pinned if not (self.cuda_stubs and _CUDA.match(entry))]
        there = set() if self.base is None else {entry.partition("==")[0] for entry in self.base._pinned}
        return "\n".join(entry for entry in without_cuda if entry.partition("==")[0] not in there) + "\n"

    @property
    def _pinned(self) -> list[str]:
        text = (ROOT / "requirements" / f"{self.name}.txt").read_text()
        return re.split(r"\n(?=\S)", text.strip())

    @property
    def directory(self) -> Path:
        """Where its environment is, or will be."""
        recipe = [self.requirements, sys.version, sys.base_prefix]
        if self.cuda_stubs:
            recipe.append(Path(cuda_stubs.__file__).read_text())
        if self.base is not None:
            recipe.append(str(self.base.directory))
        return cache_directory() / "training" / hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:32]

    def find(self) -> Path | None:
        """Its interpreter; None where the environment has not been made."""
        python = self.directory / "bin" / "python"
        return python if python.exists() else None

    def ensure(self) -> Path:
        """Its interpreter, installed first where necessary, after that of its base; BuildError when that fails."""
        for framework in (self.base, self):
            if framework is not None and framework.find() is None:
                cache.ensure(framework.thing, lambda line: print(line, flush=True))
        return self.directory / "bin" / "python"

    @property
    def thing(self) -> Thing:
        """Its environment, to be made; after that of its base."""
        return in_cache(self.name, self.directory, self.seconds, self._fill)

    def _fill(self, into: Path, say: Say) -> None:
        say(f"{self.name}: installing {self.megabytes} MB")
        requirements = self.directory.with_suffix(".txt")
        requirements.write_text(self.requirements)
        _uv("venv", "--relocatable", "--python", sys.executable, str(into))
        install = ("pip", "install", "--python", str(into / "bin/python"), "--require-hashes", "--no-deps")
        _uv(*install, "--compile-bytecode", "--requirements", str(requirements))
        if self.cuda_stubs:
            (package,) = into.glob("lib/python*/site-packages/torch")
            cuda_stubs.write(package)
        if self.base is not None:
            (own,) = into.glob("lib/python*/site-packages")
            (theirs,) = self.base.directory.glob("lib/python*/site-packages")
            (own / "base.pth").write_text(f"{theirs}\n")


JAX = Framework("jax", "training", 40, 600)
TORCH = Framework("torch", "training-torch", 120, 1600, cuda_stubs=True)
TORCH_TRAINERS = Framework("torch-trainers", "training-torch", 60, 300, base=TORCH)
JUPYTER = Framework("jupyter", "training", 20, 80, base=JAX)
FRAMEWORKS = {framework.name: framework for framework in (JAX, JUPYTER, TORCH, TORCH_TRAINERS)}


def lacking(*wanted: Framework) -> list[Thing]:
    """What must be made for these."""
    return [framework.thing for framework in wanted if framework.find() is None]


def digits(python: Path) -> Path:
    """The 1,797 digits of scikit-learn in an environment: gzip'ed lines of 64 pixels (0 to 16) and a label."""
    (found,) = python.parent.parent.glob("lib/python*/site-packages/sklearn/datasets/data/digits.csv.gz")
    return found


def _uv(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "uv", "--quiet", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"uv {' '.join(arguments)}: {done.stderr.strip()}")
