"""Finds Prometheus and promtool for the tests of alerts, or builds them from a pinned Go module, once per machine.

Run ``make prometheus``. Programs on PATH are used as they are (Debian's package ``prometheus`` has both); else they are
built into the test bed's cache, without service discovery and web pages. The demo does not need them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.testbed import build
from tests.testbed.build import BuildError, Target

_MODULE = "go-prometheus"


def targets() -> tuple[Target, ...]:
    """What is built. Both share most of their packages: the second takes a minute."""
    path = "github.com/prometheus/prometheus"
    version = (("github.com/prometheus/common/version.Version", build.pinned(_MODULE, path).removeprefix("v")),)
    return (
        Target("prometheus", _MODULE, f"{path}/cmd/prometheus", ("prometheus",), version, 150, "remove_all_sd"),
        Target("promtool", _MODULE, f"{path}/cmd/promtool", ("promtool",), version, 60, "remove_all_sd"),
    )


def find(program: str) -> Path | None:
    """The program on PATH, or the one built; None where there is neither."""
    if found := shutil.which(program):
        return Path(found)
    return build.find(program, build.directory(targets()))


def main() -> int:
    """Builds what is not there, or prints why not."""
    try:
        build.build_into(
            build.directory(targets()), lambda: [target for target in targets() if find(target.name) is None]
        )
    except BuildError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
