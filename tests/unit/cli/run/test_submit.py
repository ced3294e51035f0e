"""What ``charterer run`` says before and after it creates a job."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from charterer import client
from charterer.cli import run as command
from charterer.cli.main import main
from charterer.cli.run import next_line
from charterer.tools.submission.creation import SubmittedJob, too_wide
from tests.worlds import World


def test_a_job_that_no_pool_can_ever_hold_is_refused_with_the_largest_pool() -> None:
    world = World()
    world.pool("a100", gpus=4, max_nodes=2)
    h100 = world.pool("h100", gpus=8, max_nodes=4)
    pools = list(world.pools.values())
    assert too_wide(pools, 32) == ""
    assert too_wide(pools, 100_000) == (
        "no GPUPool has 100,000 GPUs for one job: the largest, h100, has 32 (4 nodes of 8 GPUs): ask for fewer, or "
        "raise its maxNodes"
    )
    assert too_wide([*pools, replace(h100, offering=None)], 100_000) == ""
    assert too_wide([], 1) == ""


def test_a_job_that_nothing_fits_is_told_so_and_where_to_read_why() -> None:
    told = next_line(SubmittedJob("team", "sft", "1"), {"state": "Queued", "why": "NoOption"})
    what = "but nothing that can be rented fits it: charterer explain sft -n team says why"
    assert told == f"TrainingJob team/sft is created, {what}"


def test_programs_get_the_created_job_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "submit", lambda job, cluster: SubmittedJob("team", "sft", "1"))
    monkeypatch.setattr(command, "call", lambda cluster, use: {"state": "Queued", "why": "PoolFull"})
    arguments = ["run", "--gpus", "4", "--image", "t:1", "--no-code", "-o", "json", "--", "true"]
    told = json.loads(CliRunner().invoke(main, arguments).stdout)
    assert told.pop("message").startswith("TrainingJob team/sft is created, and is Queued (PoolFull)")
    assert told == {"namespace": "team", "name": "sft", "uid": "1", "state": "Queued", "reason": "PoolFull"}


@pytest.mark.parametrize("other", ["--follow", "--dry-run"])
def test_the_created_job_is_not_printed_into_what_pods_print_or_a_manifest(other: str) -> None:
    done = CliRunner().invoke(main, ["run", "--gpus", "4", "--image", "t:1", other, "-o", "json", "--", "true"])
    assert (done.exit_code, "leave out --follow and --dry-run" in done.output) == (1, True)
