"""Virtual environments with a training framework, for containers that train in tests. Made once per machine.

``make training`` makes the one of JAX and, based on it, the one of Jupyter. ``make training-torch`` makes that of
torch. The environments lie in the testbed's cache, under a hash of the pinned requirements and the interpreter, so
checkouts with equal pins share them. An environment is moved into place when it is complete. Containers mount the
environment read-only at the same path, so its bytecode is compiled beforehand.

torch is PyPI's CUDA build without the gigabytes of CUDA libraries, which ``cuda_stubs`` replaces. scikit-learn is
included for its data sets.
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
    """A framework with ``requirements/<name>.txt``. ``seconds`` and ``megabytes`` are the cost of its installation.

    ``base`` is a framework whose packages the interpreter sees too, so that they are not installed again.
    """

    name: str
    target: str
    seconds: int
    megabytes: int
    cuda_stubs: bool = False
    base: Framework | None = None

    @property
    def requirements(self) -> str:
        """Pinned packages with hashes, without those of the base, and without CUDA packages that stubs replace."""
        without_cuda = [entry for entry in self._pinned if not (self.cuda_stubs and _CUDA.match(entry))]
        there = set() if self.base is None else {entry.partition("==")[0] for entry in self.base._pinned}
        return "\n".join(entry for entry in without_cuda if entry.partition("==")[0] not in there) + "\n"

    @property
    def _pinned(self) -> list[str]:
        text = (ROOT / "requirements" / f"{self.name}.txt").read_text()
        return re.split(r"\n(?=\S)", text.strip())

    @property
    def directory(self) -> Path:
        """The folder of the environment, which may not exist yet."""
        recipe = [self.requirements, sys.version, sys.base_prefix]
        if self.cuda_stubs:
            recipe.append(Path(cuda_stubs.__file__).read_text())
        if self.base is not None:
            recipe.append(str(self.base.directory))
        return cache_directory() / "training" / hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:32]

    def find(self) -> Path | None:
        """Return the interpreter, None if the environment has not been made."""
        python = self.directory / "bin" / "python"
        return python if python.exists() else None

    def ensure(self) -> Path:
        """Install the base and this framework if necessary, and return the interpreter. Raises BuildError."""
        for framework in (self.base, self):
            if framework is not None and framework.find() is None:
                cache.ensure(framework.thing, lambda line: print(line, flush=True))
        return self.directory / "bin" / "python"

    @property
    def thing(self) -> Thing:
        """The environment as a Thing. The base must be made first."""
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
    """Return the things to make for these frameworks."""
    return [framework.thing for framework in wanted if framework.find() is None]


def digits(python: Path) -> Path:
    """Return the file of scikit-learn's 1,797 digits: gzipped CSV lines of 64 pixels (0 to 16) and a label."""
    (found,) = python.parent.parent.glob("lib/python*/site-packages/sklearn/datasets/data/digits.csv.gz")
    return found


def _uv(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "uv", "--quiet", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"uv {' '.join(arguments)}: {done.stderr.strip()}")
