"""`charterer drain`: nothing is left that would bill without the operator."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from charterer.cli.main import main
from charterer.cluster.client import Listing, RawObject
from charterer.domain.time import format_instant
from charterer.tools.commands import drain
from charterer.tools.commands.shared.cluster import wall_clock


def pool(name: str, uid: str = "u1") -> RawObject:
    metadata = {"name": name, "uid": uid, "resourceVersion": "7", "labels": {"a": "b"}}
    return {
        "apiVersion": "charterer.dev/v1alpha1",
        "kind": "GPUPool",
        "metadata": metadata,
        "spec": {"maxNodes": 2},
        "status": {"state": "Ready"},
    }


def pool_set(name: str, uid: str = "s1") -> RawObject:
    return {**pool(name, uid), "kind": "GPUPoolSet", "spec": {"axes": []}}


def of_set(name: str, uid: str = "u1") -> RawObject:
    """A pool that the set makes."""
    made = pool(name, uid)
    owner = {"apiVersion": made["apiVersion"], "kind": "GPUPoolSet", "name": "gpu", "uid": "s1", "controller": True}
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [owner]}}


def budget(refused: str) -> RawObject:
    """A budget whose costs go on record, unless that is refused."""
    shown = {
        "type": "CostsRecorded",
        "status": "True",
        "reason": "RecordWritten",
        "message": "",
        "lastTransitionTime": NOW,
    }
    if refused:
        shown |= {"status": "False", "reason": "RecordRefuses", "message": refused}
    return {"metadata": {"name": "research"}, "status": {"conditions": [shown]}}


NOW = format_instant(wall_clock())


class Cluster:
    """An API server whose rentals end, one at each look, once no pool is left."""

    def __init__(self, *pools: RawObject, rentals: int = 0, leads: bool = True) -> None:
        self.pools = {item["metadata"]["name"]: item for item in pools}
        self.rentals = [{"metadata": {"name": f"a100-{n}"}, "status": {"phase": "Ready"}} for n in range(rentals)]
        self.lease = {
            "metadata": {"namespace": "operators", "resourceVersion": "1"},
            "spec": {"holderIdentity": "x" if leads else "", "renewTime": format_instant(wall_clock())},
        }
        self.recreates: list[RawObject] = []
        self.gives_up = False
        self.sets: dict[str, RawObject] = {}
        self.deleted: list[str] = []
        self.queues: tuple[RawObject, ...] = ()
        self.refused = ""
        """Why the record of costs takes nothing: no rental goes then."""
        self.refused_looks = 1_000_000
        """How often a budget says so, from now on."""

    async def list(self, path: str, *, fields: str = "", labels: str = "") -> Listing:
        what = path.rpartition("/")[2]
        if what in ("jobs", "jobsets", "rayjobs", "trainingjobs", "trainjobs", "workloads"):
            return Listing((), 1)
        if what == "leases":
            return Listing((self.lease,), 1)
        if what == "gpupools":
            return Listing(tuple(self.pools.values()), 1)
        if what == "gpupoolsets":
            return Listing(tuple(self.sets.values()), 1)
        if what in ("clusterqueues", "admissionchecks", "resourceflavors"):
            return Listing(self.queues if what == "clusterqueues" else (), 1)
        if what == "gpubudgets":
            self.refused_looks -= 1
            self.refused = self.refused if self.refused_looks >= 0 else ""
            return Listing((budget(self.refused),), 1)
        now = tuple(self.rentals)
        if not self.pools and not self.refused:
            del self.rentals[:1]
            if not self.rentals:
                self.pools |= {item["metadata"]["name"]: item for item in self.recreates}
        return Listing(now, 1)

    async def delete(self, path: str, *, uid: str) -> None:
        kept = self.sets if "/gpupoolsets/" in path else self.pools
        assert kept.pop(path.rpartition("/")[2])["metadata"]["uid"] == uid
        self.deleted.append(path.rpartition("/")[2])
        if self.gives_up:
            self.lease["spec"]["holderIdentity"] = ""


def ran(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *arguments: str, answer: str = "") -> Result:
    monkeypatch.setattr(drain, "call", lambda options, use: asyncio.run(use(cluster)))
    monkeypatch.setattr(drain, "_LOOK_SECONDS", 0.0)
    result = CliRunner().invoke(main, ["drain", *arguments], input=answer)
    if result.exception is not None and not isinstance(result.exception, SystemExit | click.exceptions.Exit):
        raise result.exception
    return result


def test_the_check_names_what_is_rented_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(pool("a100"), rentals=2)
    done = ran(cluster, monkeypatch, "--check")
    assert done.exit_code == 1
    assert "2 machines are rented (a100-0 Ready, a100-1 Ready): without the operator they are not ended" in done.output
    assert list(cluster.pools) == ["a100"]
    assert ran(Cluster(pool("a100")), monkeypatch, "--check").exit_code == 0


def test_machines_that_have_ended_are_not_said_to_be_rented(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(pool("a100"), rentals=2)
    for rental in cluster.rentals:
        rental["status"] = {"phase": "Ended"}
    done = ran(cluster, monkeypatch, "--check")
    assert done.exit_code == 1
    assert "2 machines have ended and are not counted in the ledger yet (a100-0, a100-1)" in done.output
    assert "without the operator their cost is not counted" in done.output


def without_a_folder(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster whose machine has ended, and whose operator finds no folder for what it cost."""
    monkeypatch.setattr(drain, "_REFUSED_SECONDS", 0.0)
    cluster = Cluster(pool("a100"), rentals=1)
    cluster.rentals[0]["status"] = {"phase": "Ended"}
    cluster.refused = "the record of costs in /costs cannot be read: No such file or directory; make the folder"
    return cluster


def test_what_cannot_be_put_on_record_is_not_waited_for_and_its_cause_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = without_a_folder(monkeypatch)
    done = ran(cluster, monkeypatch, "--yes", "--wait", "3600", "--save", str(tmp_path / "pools.yaml"))
    assert (done.exit_code, cluster.pools) == (1, {})
    assert f"1 machine has ended and is not on record (a100-0): {cluster.refused}" in done.output
    assert "correct that and run `charterer drain` again" in done.output


def test_the_check_tells_why_what_an_ended_machine_cost_is_not_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = without_a_folder(monkeypatch)
    done = ran(cluster, monkeypatch, "--check")
    assert done.exit_code == 1
    assert cluster.refused in done.output
    assert "charterer drain" not in done.output


def test_a_record_that_refuses_for_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster = without_a_folder(monkeypatch)
    monkeypatch.setattr(drain, "_REFUSED_SECONDS", 3600.0)
    cluster.refused_looks = 2
    done = ran(cluster, monkeypatch, "--yes", "--save", str(tmp_path / "pools.yaml"))
    assert done.exit_code == 0, done.output


def test_a_drain_deletes_the_pools_waits_for_the_machines_and_keeps_the_manifests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster, file = Cluster(pool("a100"), rentals=2), tmp_path / "pools.yaml"
    confirmed = {"charterer.dev/confirm-price": "40.00"}
    last = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    cluster.pools["a100"]["metadata"]["annotations"] = confirmed | last
    done = ran(cluster, monkeypatch, "--save", str(file), answer="y\n")
    assert (done.exit_code, cluster.pools, cluster.rentals) == (0, {}, [])
    assert done.output.splitlines()[-1] == f"nothing is rented any more; kubectl apply -f {file} brings the pools back"
    (kept,) = yaml.safe_load_all(file.read_text())
    assert kept["metadata"] == {"name": "a100", "labels": {"a": "b"}, "annotations": confirmed}
    assert kept["spec"] == {"maxNodes": 2}
    assert "status" not in kept


def test_the_queues_that_ask_charterer_are_named_before_an_uninstall(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = Cluster(pool("a100"))
    asks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "charterer"}]}}
    cluster.queues = ({"metadata": {"name": "research"}, "spec": asks}, {"metadata": {"name": "other"}, "spec": {}})
    done = ran(cluster, monkeypatch, "--yes", "--save", str(tmp_path / "pools.yaml"))
    assert "take AdmissionCheck charterer out of spec.admissionChecksStrategy of research (Cl" in done.output


def test_without_consent_nothing_is_deleted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster, file = Cluster(pool("a100"), rentals=1), tmp_path / "pools.yaml"
    done = ran(cluster, monkeypatch, "--save", str(file), answer="n\n")
    assert (done.exit_code, list(cluster.pools), file.exists()) == (1, ["a100"], False)


def test_a_file_that_exists_is_not_overwritten_the_next_number_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster, file = Cluster(pool("a100")), tmp_path / "pools.yaml"
    file.write_text("kept")
    (tmp_path / "pools-2.yaml").write_text("kept, too")
    done = ran(cluster, monkeypatch, "--yes", "--save", str(file))
    assert (done.exit_code, cluster.pools, file.read_text()) == (0, {}, "kept")
    third = tmp_path / "pools-3.yaml"
    assert f"kubectl apply -f {third} brings the pools back" in done.output
    assert [kept["metadata"]["name"] for kept in yaml.safe_load_all(third.read_text())] == ["a100"]


def test_nothing_is_deleted_where_the_pools_cannot_be_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster = Cluster(pool("a100"))
    done = ran(cluster, monkeypatch, "--yes", "--save", str(tmp_path / "nowhere" / "pools.yaml"))
    assert (done.exit_code, list(cluster.pools)) == (1, ["a100"])
    assert "Nothing was deleted: name another file with --save" in done.output


def test_nothing_is_begun_while_nobody_would_end_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(pool("a100"), rentals=1, leads=False)
    done = ran(cluster, monkeypatch, "--yes")
    assert (done.exit_code, list(cluster.pools)) == (1, ["a100"])
    assert "Start the operator first" in done.output


def test_machines_that_do_not_end_in_time_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster = Cluster(pool("a100"), rentals=1)
    done = ran(cluster, monkeypatch, "--yes", "--wait", "0", "--save", str(tmp_path / "p.yaml"))
    assert done.exit_code == 1
    assert "after 0 s 1 machine is rented (a100-0 Ready)" in done.output


def test_an_operator_that_goes_while_its_machines_should_end_is_missed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = Cluster(pool("a100"), rentals=1)
    cluster.gives_up = True
    done = ran(cluster, monkeypatch, "--yes", "--save", str(tmp_path / "p.yaml"))
    assert "1 machine is rented (a100-0 Ready); no operator leads, so nobody ends them: start it" in done.output


def test_pools_that_something_creates_again_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster = Cluster(pool("a100"), rentals=1)
    cluster.recreates = [pool("a100", uid="u2")]
    done = ran(cluster, monkeypatch, "--yes", "--save", str(tmp_path / "p.yaml"))
    assert done.exit_code == 1
    assert "GPUPools a100 were created meanwhile" in done.output


def test_sets_are_deleted_before_the_pools_that_they_would_make_anew_and_kept_in_their_stead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster, file = Cluster(of_set("gpu-a"), pool("a100", uid="u2"), rentals=1), tmp_path / "pools.yaml"
    cluster.sets = {"gpu": pool_set("gpu")}
    cluster.recreates = []
    done = ran(cluster, monkeypatch, "--save", str(file), answer="y\n")
    assert done.exit_code == 0, done.output
    assert "Delete GPUPoolSets gpu, GPUPools gpu-a, a100, stop their jobs" in done.output
    assert cluster.deleted == ["gpu", "gpu-a", "a100"]
    kept = [(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(file.read_text())]
    assert kept == [("GPUPoolSet", "gpu"), ("GPUPool", "a100")]


def test_a_pool_that_a_deleted_set_has_just_made_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster = Cluster(of_set("gpu-a"), rentals=1)
    cluster.sets = {"gpu": pool_set("gpu")}
    cluster.recreates = [of_set("gpu-b", uid="u9")]
    done = ran(cluster, monkeypatch, "--yes", "--wait", "0", "--save", str(tmp_path / "p.yaml"))
    assert done.exit_code == 1
    assert "after 0 s 1 machine is rented" in done.output
    cluster.rentals = []
    done = ran(cluster, monkeypatch, "--yes", "--wait", "0", "--save", str(tmp_path / "p.yaml"))
    assert "were created meanwhile" not in done.output
