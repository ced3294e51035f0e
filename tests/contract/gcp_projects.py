"""A project of Google Cloud as most tests want it."""

from __future__ import annotations

from tests.clouds.gcp.clients import ZONE
from tests.clouds.gcp.project import Project

TYPE = "a2-highgpu-1g"
RUNNING = ("NONE", "RUNNING", "")
"""Action, status and error of a managed instance that runs."""


def gpu_project() -> Project:
    """On-demand, spot (deleted or stopped when preempted) and flex-start: a template and a group of each."""
    project = Project()
    for name, model, action in (("gpu", "STANDARD", ""), ("spot", "SPOT", "DELETE"), ("stopping", "SPOT", "STOP")):
        project.add_template(name, TYPE, model=model, action=action, labels={"team": "x"})
        project.add_group(name, ZONE, name)
    project.add_template("flex", TYPE, model="FLEX_START")
    project.add_group("flex", ZONE, "flex")
    return project
