"""The fake cloud's protocol as documented, spoken to the real process without the adapter; and its command line."""

from __future__ import annotations

import subprocess
import sys
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from charterer.domain.time import parse_instant
from tests.contract.conftest import GROUP, OpenMarket
from tests.testbed.fakecloud import FakeCloudError, FakeCloudProcess

Answer = tuple[int, dict[str, Any], dict[str, str]]


async def call(cloud: FakeCloudProcess, method: str, path: str, body: str | None = None) -> Answer:
    """Status, body and headers of one call."""
    async with aiohttp.ClientSession() as session, session.request(method, cloud.url + path, data=body) as answer:
        return answer.status, await answer.json(), dict(answer.headers)


async def test_every_answer_has_the_clouds_time(cloud_process: FakeCloudProcess) -> None:
    for path in ("/v1/groups", "/v1/groups/none", "/v1/none", "/admin/v1/bill"):
        _, body, headers = await call(cloud_process, "GET", path)
        date = parsedate_to_datetime(headers["Date"])
        assert abs(parse_instant(body["now"]) / 1e6 - date.timestamp()) < 2


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/groups/none", None, 404, "GroupNotFound"),
        ("GET", "/v1/price", None, 404, "GroupNotFound"),
        ("GET", "/v1/machines", None, 404, "NoSuchCall"),
        ("POST", "/v1/groups", None, 405, "NoSuchCall"),
        ("PUT", "/v1/groups/GROUP/target", "{", 400, "InvalidRequest"),
        ("PUT", "/v1/groups/GROUP/target", "[]", 400, "InvalidRequest"),
        ("PUT", "/v1/groups/GROUP/target", '{"target": -1}', 400, "InvalidRequest"),
        ("PUT", "/v1/groups/GROUP/target", '{"target": 1, "tokn": "x"}', 400, "InvalidRequest"),
        ("PUT", "/v1/groups/GROUP/target", '{"target": 9}', 400, "MaxSizeExceeded"),
        ("DELETE", "/v1/groups/GROUP/instances/i-0", None, 400, "InvalidRequest"),
        ("DELETE", "/v1/groups/GROUP/instances/i-0?decrement=true", None, 404, "InstanceNotFound"),
        ("POST", "/admin/v1/instances/i-0/kill", None, 404, "InstanceNotFound"),
        ("PUT", "/admin/v1/quotas", '{"A100": -1}', 400, "InvalidRequest"),
        ("PUT", "/admin/v1/groups/GROUP", '{"name": "other"}', 400, "InvalidRequest"),
        ("POST", "/admin/v1/faults", '{"kind": "meteor"}', 400, "InvalidRequest"),
    ],
)
async def test_a_wrong_call_is_answered_with_a_code_and_a_message(
    market: OpenMarket, method: str, path: str, body: str | None, status: int, code: str
) -> None:
    m = await market()
    answered, answer, _ = await call(m.cloud, method, path.replace("GROUP", m.group.group), body)
    assert (answered, answer["error"]["code"]) == (status, code)
    assert answer["error"]["message"]


async def test_a_conditional_target_is_set_only_where_it_is_as_expected(market: OpenMarket) -> None:
    m = await market()
    path = f"/v1/groups/{m.group.group}/target"
    status, answer, _ = await call(m.cloud, "PUT", path, '{"target": 2, "expected": 1}')
    assert (status, answer["error"]["code"], answer["error"]["target"]) == (409, "TargetChanged", 0)
    status, answer, _ = await call(m.cloud, "PUT", path, '{"target": 2, "expected": 0}')
    assert (status, answer["target"]) == (200, 2)


async def test_the_bill_has_a_line_for_every_instance_ever_and_grows_until_it_is_final(market: OpenMarket) -> None:
    m = await market(billingMinimumSeconds=60, listedSeconds=0)
    await m.raise_to(2)
    first = (await m.survey()).instances[0]
    await m.terminate(first.id)
    lines, total = await m.cloud.bill()
    mine = {line.instance: line for line in lines if line.group == m.group.group}
    assert len(mine) == 2
    assert mine[first.id].final
    assert [line.micros for line in mine.values()] == [12_800_000 * 60 // 3600] * 2
    assert total == sum(line.micros for line in lines)
    assert first.id not in {instance.id for instance in (await m.survey()).instances}, "no longer listed, still billed"


async def test_admin_calls_meet_no_faults(market: OpenMarket) -> None:
    m = await market()
    await m.cloud.admin("POST", "/faults", {"kind": "throttle", "times": None})
    await m.change(stock=0)
    await m.cloud.admin("DELETE", "/faults")


async def test_two_processes_do_not_share_a_state_file(tmp_path: Path) -> None:
    async with FakeCloudProcess.running({"groups": [GROUP | {"name": "a100"}]}, tmp_path):
        with pytest.raises(FakeCloudError, match="does another fake cloud use it"):
            await FakeCloudProcess.start({}, tmp_path)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``charterer fakecloud`` with these arguments, until it ends."""
    return subprocess.run(
        [sys.executable, "-m", "charterer.tools.fakecloud", *arguments], capture_output=True, text=True
    )


def test_help_teaches_the_first_calls() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "curl -X PUT localhost:8080/v1/groups/a100-on-demand/target" in done.stdout


def test_a_wrong_option_or_file_is_told_in_a_line(tmp_path: Path) -> None:
    config = tmp_path / "cloud.yaml"
    config.write_text(yaml.safe_dump({"groups": [GROUP]}))
    assert "write HOST:PORT" in run("--listen", "8080").stderr
    done = run("--config", str(config))
    assert (done.returncode, "groups.0.name: Field required" in done.stderr) == (1, True)
    assert "Traceback" not in done.stderr
    outside = run("--in-cluster")
    assert "KUBERNETES_SERVICE_HOST is not set" in outside.stderr
