"""What does not plan starts without numpy, scipy and HiGHS, and what reads no cluster without Kubernetes' client."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_COMMANDS = (
    "run",
    "bill",
    "costs",
    "plan",
    "report",
    "explain",
    "quote",
    "dashboard",
    "doctor",
    "drain",
    "stop",
    "resume",
    "logs",
    "mcp",
    "completion",
    "simulate",
    "operator",
    "fakecloud",
)
_ARGUMENTS = [["--help"], ["crds"], *([command, "--help"] for command in _COMMANDS)]


_MODULES = ("charterer.tools.fakecloud.main", "charterer.api.schema", "charterer.policy.planner")


def test_help_the_schemas_and_the_planner_need_no_numerical_library() -> None:
    code = f"""
import sys
from importlib import import_module
from charterer.cli import main

def tell(what):
    print("loaded by", what, *{{name.partition(".")[0] for name in sys.modules}} & {{"numpy", "scipy", "highspy"}})

for arguments in {_ARGUMENTS!r}:
    try:
        main(arguments)
    except SystemExit:
        pass
    tell(" ".join(arguments))
for module in {_MODULES!r}:
    import_module(module)
    tell(module)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("loaded by ")]
    assert told == [f"loaded by {what}" for what in (*map(" ".join, _ARGUMENTS), *_MODULES)]


def test_costs_that_are_on_record_are_shown_without_what_reads_a_cluster(tmp_path: Path) -> None:
    code = f"""
import sys
from charterer.cli import main

try:
    main(["costs", "--recorded-only", "--record", {str(tmp_path)!r}])
except SystemExit as end:
    print("ended with", end.code)
print("loaded", *{{name.partition(".")[0] for name in sys.modules}} & {{"kubernetes", "aiohttp", "pydantic", "kopf"}})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["ended with 0", "loaded"]


def test_names_are_completed_without_the_command_and_what_it_plans_and_decodes_with(tmp_path: Path) -> None:
    code = """
import sys
from charterer.cli import main
from charterer.tools.commands.shared import completion
import charterer.cluster.client

completion._LATEST_SECONDS = 60.0  # a busy machine imports the credentials' library as slowly as it likes
try:
    main(prog_name="charterer", complete_var="_CHARTERER_COMPLETE")
except SystemExit as end:
    print("ended with", end.code)
slow = ("numpy", "charterer.policy", "charterer.controller", "charterer.api.decode", "charterer.api.models.trainingjob")
print("loaded", *[name for name in slow if name in sys.modules])
"""
    for words, count in (("charterer explain ", 2), ("charterer costs --budget ", 3)):
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(count), "_CHARTERER_COMPLETE": "bash_complete"}
        environment = {**os.environ, **asked, "KUBECONFIG": str(tmp_path / "none")}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.splitlines()[-2:] == ["ended with 0", "loaded"]
