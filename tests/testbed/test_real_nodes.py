"""Parts of real nodes that can be tested without a node."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.testbed import gpus, node_programs
from tests.testbed.dns import names
from tests.testbed.images import PAUSE, TRAIN, base_images


def service(name: str, address: str | None) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterIP": address}}


def endpoints(service: str, *each: dict[str, Any]) -> dict[str, Any]:
    labels = {"kubernetes.io/service-name": service}
    return {"metadata": {"name": f"{service}-x", "namespace": "team", "labels": labels}, "endpoints": list(each)}


def test_a_service_is_known_by_its_address_and_a_headless_one_by_those_of_its_pods() -> None:
    ready = {"addresses": ["10.1.0.2"], "hostname": "train-r1-0", "conditions": {"ready": True}}
    late = {"addresses": ["10.1.0.3"], "hostname": "train-r1-1", "conditions": {"ready": False}}
    behind = {"addresses": ["10.1.0.9"]}
    services = [service("train", "None"), service("web", "10.96.0.7")]
    assert names(services, [endpoints("train", ready, late), endpoints("web", behind)]) == {
        "train.team.svc.cluster.local": ["10.1.0.2"],
        "train-r1-0.train.team.svc.cluster.local": ["10.1.0.2"],
        "web.team.svc.cluster.local": ["10.96.0.7"],
    }


@pytest.mark.parametrize("length", [0, 127, 128, 20_000])
def test_a_field_of_the_device_plugins_protocol_has_its_length_before_it(length: int) -> None:
    encoded = gpus.text(1, b"x" * length) + gpus.text(2, "end")
    assert list(gpus.fields(encoded)) == [b"x" * length, b"end"]
    assert encoded[0] == 0x0A  # field 1 of wire type 2


def test_both_images_are_in_one_archive(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("pause")
    with tarfile.open(base_images(tmp_path / "images", tmp_path / "program")) as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        parts = json.load(manifest)
        assert [part["RepoTags"] for part in parts] == [[PAUSE], [TRAIN]]
        assert {part["Layers"][0] for part in parts} <= set(archive.getnames())


def test_without_root_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    reason = node_programs.missing()
    assert reason is not None
    assert "they need root" in reason
    assert "\n" not in reason
