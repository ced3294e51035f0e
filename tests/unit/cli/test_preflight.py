"""What ``charterer preflight`` prints."""

from __future__ import annotations

from charterer.providers.accounts import Accounts
from charterer.providers.provider import PreflightFinding
from charterer.tools.commands.doctor.checks import check_preflights
from charterer.tools.commands.preflight import look_at, preflight_document, preflight_json
from charterer.tools.documents.html import TextRenderer
from tests import factory as make
from tests.unit.controller.test_preflights import FAILS, WELL, Checked


async def test_each_finding_is_a_line_and_the_last_one_counts() -> None:
    cloud = Checked()
    cloud.finds = (WELL, FAILS)
    found = await look_at([make.pool()], Accounts({}, adapter=lambda *_: cloud), make.snapshot())
    text = TextRenderer(None, colour=False).render(preflight_document(found))
    assert "GPUPool a100: group: sells g.4" in text
    assert "GPUPool a100: size: lower maxNodes" in text
    assert "1 of 2 checks found something wrong." in text
    assert preflight_json(found) == {
        "pools": [
            {
                "pool": "a100",
                "ok": False,
                "findings": [
                    {"subject": "group", "ok": True, "message": "sells g.4"},
                    {"subject": "size", "ok": False, "message": "lower maxNodes"},
                ],
            }
        ]
    }


async def test_the_pools_nodes_are_looked_at_too() -> None:
    seen = make.snapshot(make.rental("a100-1", make.instance()), make.node(gpus=0))
    found = await look_at([make.pool()], Accounts({}, adapter=lambda *_: Checked()), seen)
    text = TextRenderer(None, colour=False).render(preflight_document(found))
    assert "GPUPool a100: device plugin: no nvidia.com/gpu on Node n-i1: install the NVIDIA device plugin" in text


def test_a_pool_in_which_nothing_would_fail_is_well() -> None:
    text = TextRenderer(None, colour=False).render(
        preflight_document({"a100": [PreflightFinding("group", True, "sells g.4")]})
    )
    assert "All is well." in text


def test_doctor_says_which_pool_would_fail() -> None:
    condition = {"type": "Preflight", "status": "False", "message": "size: lower maxNodes"}
    raw = {"metadata": {"name": "a100"}, "status": {"conditions": [condition]}}
    (finding,) = check_preflights([raw])
    assert finding.text == "would fail: size: lower maxNodes"
    assert finding.remedy == "correct that; charterer preflight a100 looks again"
    assert list(check_preflights([{"metadata": {"name": "b"}}])) == []
