"""Instances that end themselves when nobody renews them: the operator's tags, and the script that reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.domain.ids import PoolId
from charterer.domain.pool import InstanceState
from charterer.domain.time import instant
from charterer.providers.aws.permissions import ABANDON_TAG, CLUSTER_TAG, POOL_TAG, RENEWED_TAG
from charterer.providers.errors import InvalidRequest, Throttled
from tests.clouds.aws.account import Account
from tests.clouds.aws.protocol import Fault
from tests.contract.aws_pools import FLEET, GROUP, AwsMarket, aws_pool
from tests.contract.conftest import OpenAws
from tests.contract.wire import CLUSTER

HOUR = replace(FLEET, abandon_seconds=3600)
SCRIPT = Path(__file__).parents[2] / "docs/clouds/charterer-abandon.sh"
FIT = {
    "InstanceInitiatedShutdownBehavior": "terminate",
    "MetadataOptions": {"HttpTokens": "required", "InstanceMetadataTags": "enabled"},
}


async def lived(m: AwsMarket, seconds: int) -> int:
    """Time passes with an operator that surveys and renews every five minutes; how often it tagged instances."""
    before = m.account.count().get("ec2:CreateTags", 0)
    for _ in range(seconds // 300):
        m.account.clock.advance(300)
        await m.survey()
        await m.provider.renew([m.pool])
    return m.account.count().get("ec2:CreateTags", 0) - before


def tags(m: AwsMarket) -> list[dict[str, str]]:
    return [machine.tags_at(m.account.clock.now) for machine in m.account.alive()]


# --- the operator ----------------------------------------------------------------------------------------------------


async def test_an_instance_carries_its_limit_from_its_launch_on(aws: OpenAws) -> None:
    m = aws(HOUR)
    await m.ask("one")
    await m.ask("two", "three", together=True)
    assert [each[ABANDON_TAG] for each in tags(m)] == ["3600"] * 3


async def test_all_instances_are_renewed_by_one_call_four_times_in_their_limit(aws: OpenAws) -> None:
    m = aws(HOUR)
    for number in range(20):
        await m.ask(f"n{number}")
    assert await lived(m, 3600) == 4
    assert {each[RENEWED_TAG] for each in tags(m)} == {"2026-11-01T01:00:00.000000Z"}


async def test_a_pool_without_a_limit_costs_no_call(aws: OpenAws) -> None:
    m = aws()
    await m.ask("one")
    assert await lived(m, 3600) == 0
    assert ABANDON_TAG not in tags(m)[0]


async def test_a_limit_that_the_pool_does_not_have_is_taken_back_and_another_one_is_corrected(aws: OpenAws) -> None:
    m = aws(HOUR)
    await m.ask("one")
    for cloud, limit in ((FLEET, "never"), (replace(FLEET, abandon_seconds=7200), "7200")):
        m = replace(m, pool=aws_pool(cloud))
        assert await lived(m, 300) == 1
        assert tags(m)[0][ABANDON_TAG] == limit


async def test_instances_of_another_cluster_and_of_pools_that_are_gone_are_not_renewed(aws: OpenAws) -> None:
    m = aws(HOUR)
    for cluster, pool in (("another", "aws"), (CLUSTER, "gone")):
        m.account.start_by_hand("p4d.24xlarge", "subnet-a", {CLUSTER_TAG: cluster, POOL_TAG: pool, ABANDON_TAG: "3600"})
    assert await lived(m, 3600) == 0


async def test_one_instance_that_cannot_be_tagged_keeps_no_other_from_being_renewed(aws: OpenAws) -> None:
    m = aws(HOUR)
    await m.ask("one")
    await m.ask("two")
    m.account.clock.advance(1800)
    await m.survey()
    m.account.faults.fail("ec2:CreateTags", Fault("TagLimitExceeded", "50"), times=2)
    with pytest.raises(InvalidRequest, match="TagLimitExceeded"):
        await m.provider.renew([m.pool])
    assert [RENEWED_TAG in each for each in tags(m)] == [False, True]


async def test_instances_are_renewed_while_ec2_gives_no_lists(aws: OpenAws) -> None:
    m = aws(HOUR)
    await m.ask("one")
    await m.survey()
    m.account.faults.fail("ec2:DescribeInstances", Fault("RequestLimitExceeded", status=503), times=100)
    m.account.clock.advance(1000)
    with pytest.raises(Throttled):
        await m.survey()
    await m.provider.renew([m.pool])
    assert tags(m)[0][RENEWED_TAG] == "2026-11-01T00:16:40.000000Z"


async def test_instances_of_pools_that_nobody_surveys_are_renewed_by_a_list_of_its_own(aws: OpenAws) -> None:
    """As where a GPUPool cannot be read, and all that is known of it is what its rentals remember."""
    m = aws(HOUR)
    await m.ask("one")
    for _ in range(6):
        m.account.clock.advance(600)
        await m.provider.renew([m.pool])
    assert tags(m)[0][RENEWED_TAG] == "2026-11-01T01:00:00.000000Z"
    assert m.account.count()["ec2:DescribeInstances"] == 6


async def test_what_cannot_be_read_of_the_last_renewal_is_written_anew(aws: OpenAws) -> None:
    m = aws(HOUR)
    await m.ask("one")
    [machine] = m.machines
    for value in ("yesterday", "9999-01-01T00:00:00Z"):
        machine.tags.append((m.account.clock.now, {RENEWED_TAG: value}))
        assert await lived(m, 900) >= 1
        assert tags(m)[0][RENEWED_TAG].startswith("2026-11-01T00:")


async def test_a_group_has_to_tag_its_nodes_with_the_limit(aws: OpenAws) -> None:
    m = aws(replace(GROUP, abandon_seconds=3600))
    with pytest.raises(InvalidRequest, match=r"the tag charterer.dev:abandon-after is missing: set it to '3600'"):
        await m.ask("one")
    m.account.groups["gpu-group"].tags[ABANDON_TAG] = "3600"
    m.account.clock.advance(301)  # for so long a group's settings are remembered
    await m.ask("one")
    assert tags(m)[0][ABANDON_TAG] == "3600"
    before = m.account.count()["ec2:CreateTags"]
    assert (before, await lived(m, 3600)) == (1, 4)


# --- what is found before the first dollar ---------------------------------------------------------------------------


async def found(m: AwsMarket) -> dict[str, str]:
    return {each.subject: each.message for each in await m.provider.preflight(m.pool) if not each.well}


@pytest.mark.parametrize("cloud", [HOUR, replace(GROUP, abandon_seconds=3600)])
async def test_a_template_whose_instances_cannot_end_themselves_is_told(
    aws: OpenAws, cloud: AwsFleet | AwsGroup
) -> None:
    m = aws(cloud)
    m.account.groups["gpu-group"].tags[ABANDON_TAG] = "3600"
    message = (await found(m))["spec.aws.abandonAfterSeconds"]
    assert message == (
        "launch template gpu has InstanceInitiatedShutdownBehavior stop: set it to terminate, or disks keep billing; "
        "launch template gpu has MetadataOptions.InstanceMetadataTags not enabled: enable it, the renewal is a tag"
    )
    m.account.templates.clear()
    m.account.add_template("gpu", InstanceType="p4d.24xlarge", **FIT)
    assert "spec.aws.abandonAfterSeconds" not in await found(m)


async def test_tags_that_ec2_refuses_where_instances_read_them_are_told(aws: OpenAws) -> None:
    m = aws()
    m.account.templates.clear()
    own = [{"Key": "team/gpu", "Value": "x"}, {"Key": "cost:center", "Value": "y"}]
    m.account.add_template("gpu", TagSpecifications=[{"ResourceType": "instance", "Tags": own}], **FIT)
    assert "EC2 refuses the tags 'team/gpu': remove them" in (await found(m))["launch template"]


# --- the instance ----------------------------------------------------------------------------------------------------


@dataclass
class Instance:
    """The one machine of an account, seen from inside: its metadata, its uptime, and the script."""

    account: Account
    room: Path
    metadata: str = ""

    def look(self, uptime: float) -> bool:
        """What the timer runs; whether the machine shuts itself down."""
        (self.room / "uptime").write_text(f"{uptime:.2f} 99.00\n")
        self.run("look")
        off = (self.room / "systemctl.log").read_text().splitlines()[-1:] == ["poweroff"]
        if off:
            [machine] = self.account.alive()
            self.account.end(machine.id, "Client.InstanceInitiatedShutdown", "User initiated")
        return off

    def run(self, *arguments: str) -> None:
        """The script in a sandbox: only its own files, and commands that write down how they were called."""
        for name in ("systemctl", "logger"):
            command = self.room / "bin" / name
            command.parent.mkdir(exist_ok=True)
            command.write_text(f'#!/bin/bash\necho "$@" >>{self.room}/{name}.log\n')
            command.chmod(0o755)
        (self.room / "systemctl.log").touch()
        environment = {
            "PATH": f"{self.room}/bin:{os.environ['PATH']}",
            "CHARTERER_IMDS": self.metadata,
            "CHARTERER_STATE": f"{self.room}/state",
            "CHARTERER_UPTIME": f"{self.room}/uptime",
            "CHARTERER_ROOT": f"{self.room}/root",
        }
        if shutil.which("curl") is None:
            pytest.skip("the script of instances calls curl: apt-get install curl")
        subprocess.run(["bash", str(SCRIPT), *arguments], env=environment, check=True, timeout=30)


@contextmanager
def metadata_of(account: Account) -> Iterator[str]:
    """An instance metadata service, version 2: the tags of the account's only machine, for whoever has a token."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.answer("secret" if self.path == "/latest/api/token" else None)

        def do_GET(self) -> None:
            [machine] = account.alive()
            known = machine.tags_at(account.clock.now)
            allowed = self.headers["X-aws-ec2-metadata-token"] == "secret"
            self.answer(known.get(self.path.removeprefix("/latest/meta-data/tags/instance/")) if allowed else None)

        def answer(self, text: str | None) -> None:
            body = (text or "").encode()
            self.send_response(404 if text is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_an_instance_ends_itself_when_the_operator_is_dead_and_not_while_it_lives(
    aws: OpenAws, tmp_path: Path
) -> None:
    m = aws(HOUR)
    await m.ask("one")
    with metadata_of(m.account) as metadata:
        inside = Instance(m.account, tmp_path, metadata)
        for uptime in range(900, 9001, 900):  # the operator lives for two and a half hours
            await lived(m, 900)
            assert not inside.look(uptime)
        for uptime in range(9900, 12600, 900):  # and is dead from then on
            m.account.clock.advance(900)
            assert not inside.look(uptime)
        m.account.clock.advance(900)
        assert inside.look(12600)
    [instance] = (await m.survey()).instances
    assert (instance.state, instance.ended) == (InstanceState.ENDED, instant(m.account.clock.now))
    assert m.truth() == []


async def test_an_instance_that_nobody_ever_renewed_ends_itself_after_its_limit(aws: OpenAws, tmp_path: Path) -> None:
    m = aws(HOUR)
    await m.ask("one")
    with metadata_of(m.account) as metadata:
        inside = Instance(m.account, tmp_path, metadata)
        assert [inside.look(uptime) for uptime in (60, 3599, 3600)] == [False, False, True]


async def test_an_instance_that_can_no_longer_read_its_tags_goes_by_what_it_read(aws: OpenAws, tmp_path: Path) -> None:
    m = aws(HOUR)
    await m.ask("one")
    with metadata_of(m.account) as metadata:
        inside = Instance(m.account, tmp_path, metadata)
        await lived(m, 900)
        assert not inside.look(900)
    assert [inside.look(uptime) for uptime in (960, 4499, 4500)] == [False, False, True]


async def test_an_instance_without_a_limit_never_ends_itself(aws: OpenAws, tmp_path: Path) -> None:
    m = aws(HOUR)
    await m.ask("one")
    with metadata_of(m.account) as metadata:
        inside = Instance(m.account, tmp_path, metadata)
        assert not inside.look(60)
        m = replace(m, pool=aws_pool(FLEET, id=PoolId("aws")))
        await lived(m, 300)
        assert not inside.look(10**6)


def test_as_user_data_the_script_installs_itself_as_a_timer(tmp_path: Path) -> None:
    inside = Instance(Account(), tmp_path)
    inside.run()
    assert (tmp_path / "root/usr/local/sbin/charterer-abandon").read_bytes() == SCRIPT.read_bytes()
    unit = (tmp_path / "root/etc/systemd/system/charterer-abandon.service").read_text()
    assert "ExecStart=/usr/local/sbin/charterer-abandon look" in unit
    timer = "enable --now charterer-abandon.timer"
    assert (tmp_path / "systemctl.log").read_text().splitlines() == ["daemon-reload", timer]
