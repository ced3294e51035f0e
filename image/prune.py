"""Deletes from an installation what the operator never loads: ``python prune.py SITE-PACKAGES``.

It runs with an interpreter that can import ``charterer``, because the calls that are made of clouds say which parts of
their SDKs stay. A rule that finds nothing to delete is an error: then the package has changed, and somebody has to
look again. That everything which is used still works is what ``exercise.py`` shows.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path


class PruneError(Exception):
    """A rule found nothing to delete; the message says which."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Deletes what the patterns match below site-packages, but for the names of ``keep``.

    ``why``: nobody needs it in the image because of that.
    """

    why: str
    patterns: tuple[str, ...]
    keep: Collection[str] = ()

    def matches(self, packages: Path) -> Iterator[Path]:
        """What is to be deleted; PruneError for a pattern that matches nothing else than what is kept."""
        for pattern in self.patterns:
            found = [path for path in sorted(packages.glob(pattern)) if path.name not in self.keep]
            if not found:
                raise PruneError(f"image/prune.py: nothing in {packages} is {pattern!r} ({self.why}): look again")
            yield from found


def aws_services() -> Collection[str]:
    """The services whose descriptions botocore needs: those called, and those that credentials come from."""
    from charterer.providers.aws.permissions import Call

    return {call.service for call in Call} | {"sts", "sso", "sso-oidc", "signin"}


def gcp_services() -> Collection[str]:
    """The packages of Compute Engine's SDK that hold the services which are called."""
    from charterer.providers.gcp.permissions import Call, snake_case

    operations = {f"{where}_operations" for where in ("global", "region", "zone")}  # many of the others import them
    return {snake_case(call.service) for call in Call} | operations | {"__init__.py"}


def rules(packages: Path) -> tuple[Rule, ...]:
    """What is deleted."""
    newest = max(path.name for path in (packages / "botocore/data/ec2").iterdir())
    return (
        Rule(
            "only for tests",
            ("**/tests", "**/*_test.py", "*py/conftest.py", "numpy/_core/_*test*.so", "numpy/_core/_simd*.so"),
        ),
        Rule("only for type checkers and compilers", ("**/*.pyi", "**/*.pxd", "**/*.pyx", "**/*.h", "**/*.proto")),
        Rule("an asynchronous twin; calls are made in threads", ("kubernetes/aio", "azure/**/aio")),
        Rule("requests to the API server are raw", ("kubernetes/client/api/*", "kubernetes/client/models/*"), _INITS),
        Rule("the adapter uses boto3's clients, and none of its resources", ("boto3/data", "boto3/examples")),
        Rule("services that are not called", ("botocore/data/*/",), aws_services()),
        Rule("a service's former description", ("botocore/data/ec2/*/",), (newest,)),
        Rule("services that are not called", ("google/cloud/compute_v1/services/*",), gcp_services()),
        Rule("it imports all services", ("google/cloud/compute_v1/__init__.py",)),
        Rule(
            "neither estimates nor solvers use it",
            ("scipy/special/cython_special*.so", *(f"scipy/{name}" for name in _SCIPY)),
        ),
    )


_INITS = ("__init__.py",)
_SCIPY = (
    "cluster",
    "datasets",
    "differentiate",
    "fftpack",
    "integrate",
    "interpolate",
    "io",
    "misc",
    "ndimage",
    "odr",
    "signal",
    "stats",
)


def delete(what: Collection[Rule], packages: Path) -> int:
    """Deletes what the rules name: the number of bytes. PruneError before anything is deleted."""
    doomed = {path for rule in what for path in rule.matches(packages)}
    files = {file for path in doomed for file in (path.rglob("*") if path.is_dir() else (path,)) if file.is_file()}
    freed = sum(file.stat().st_size for file in files)
    for path in doomed:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return freed


def main(packages: Path) -> None:
    """All rules."""
    print(f"deleted {delete(rules(packages), packages) / 1e6:.0f} MB that the operator never loads")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except PruneError as error:
        sys.exit(str(error))
