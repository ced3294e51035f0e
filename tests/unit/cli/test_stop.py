"""`charterer stop` and `charterer resume`: one annotation of the operator's Namespace, found by its Lease."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from charterer.cli.main import main
from charterer.cluster.client import Listing
from charterer.cluster.errors import Forbidden, NotFound
from charterer.domain.snapshot import Stop
from charterer.tools.commands import drain
from charterer.tools.commands.doctor.checks import check_held_prices, check_stopped


class Cluster:
    """An API server with the Leases of operators that lead, or led, in some namespaces."""

    def __init__(
        self, *led: str, leads: tuple[str, ...] = ("operators",), fails: type[Forbidden | NotFound] | None = None
    ) -> None:
        self.leases = [(name, "charterer-0") for name in leads] + [(name, "") for name in led]
        self.fails = fails
        self.patched: list[tuple[str, Any]] = []

    async def list(self, path: str, *, fields: str) -> Listing:
        found = [
            {"metadata": {"namespace": name}, "spec": {"holderIdentity": holder, "renewTime": f"20{26 + at}-01-01"}}
            for at, (name, holder) in enumerate(self.leases)
        ]
        return Listing(tuple(found), 1)

    async def merge_patch(self, path: str, body: dict[str, Any]) -> None:
        if self.fails is not None:
            raise self.fails("PATCH", path, 403, "Forbidden", "no")
        self.patched.append((path, body["metadata"]["annotations"]["charterer.dev/stop"]))


def ran(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *arguments: str, answer: str = "") -> Result:
    monkeypatch.setattr(drain, "call", lambda options, use: asyncio.run(use(cluster)))
    result = CliRunner().invoke(main, arguments, input=answer)
    if result.exception is not None and not isinstance(result.exception, SystemExit | click.exceptions.Exit):
        raise result.exception
    return result


def test_stop_and_resume_annotate_the_namespace_of_the_operator_that_led_last(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    assert "Renting is stopped (operators): what runs goes on" in ran(cluster, monkeypatch, "stop").output
    assert "all machines are ended" in ran(cluster, monkeypatch, "stop", "--drain", "--yes").output
    assert "nodes are rented as budgets allow" in ran(cluster, monkeypatch, "resume").output
    path = "/api/v1/namespaces/operators"
    assert cluster.patched == [(path, "rent"), (path, "drain"), (path, None)]


def test_a_drain_asks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    assert ran(cluster, monkeypatch, "stop", "--drain", answer="n\n").exit_code == 1
    assert cluster.patched == []


def test_what_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    none = ran(Cluster(leads=()), monkeypatch, "stop")
    assert "no operator has ever run here: name its namespace with --namespace" in none.output
    assert "no Namespace x" in ran(Cluster(fails=NotFound), monkeypatch, "stop", "-n", "x").output
    refused = ran(Cluster(fails=Forbidden), monkeypatch, "stop", "-n", "x")
    assert (refused.exit_code, "bind Role charterer-stop" in refused.output) == (1, True)


def test_of_several_leases_the_only_held_one_is_the_operators_and_none_is_chosen_of_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever may create Leases in some namespace cannot turn the switch aside: `edit` has that right."""
    moved = Cluster("a-former-one")
    assert "Renting is stopped (operators)" in ran(moved, monkeypatch, "stop").output
    given_up = Cluster("older", "newer", leads=())
    assert "Renting is stopped (newer)" in ran(given_up, monkeypatch, "stop").output
    forged = Cluster(leads=("operators", "somebody"))
    refused = ran(forged, monkeypatch, "stop")
    assert (refused.exit_code, "namespaces operators, somebody: name the one" in refused.output) == (1, True)
    assert forged.patched == []


def test_the_doctor_says_that_the_operator_is_stopped_and_that_a_price_is_held() -> None:
    assert list(check_stopped(None)) == []
    (found,) = check_stopped(Stop.DRAIN)
    assert (found.text, found.remedy) == (
        "has stopped the operator: nothing is rented and all nodes are ended",
        "charterer resume",
    )
    held = {"type": "PriceHeld", "status": "True", "message": "the cloud asks $80.00/h: kubectl annotate it"}
    (found,) = check_held_prices([{"metadata": {"name": "a100"}, "status": {"conditions": [held]}}])
    assert (found.text, found.remedy) == ("holds a price: the cloud asks $80.00/h", "kubectl annotate it")
