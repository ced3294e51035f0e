"""Programs of releases, from a server that behaves as the authors' hosts do, well or badly."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.testbed import build, releases
from tests.testbed.cache import BuildError
from tests.testbed.releases import Release, pins

PROGRAM = b"#!/bin/sh\necho released\n"
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def archive() -> bytes:
    """A tar with a program, and a file that nobody asked for."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name in ("it-1.2.3/bin/it", "it-1.2.3/../../escaped"):
            entry = tarfile.TarInfo(name)
            entry.size = len(PROGRAM)
            tar.addfile(entry, io.BytesIO(PROGRAM))
    return made.getvalue()


ARCHIVE = archive()
FILES = {"/it": PROGRAM, "/it.tar.gz": ARCHIVE, "/moved": b"", "/silent": b"", "/cut": PROGRAM, "/trickle": PROGRAM}


class Host(BaseHTTPRequestHandler):
    """GET of the files above, each in the way of its name; all else is an error."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """One file."""
        if self.path not in FILES:
            return self.send_error(404)
        if self.path == "/silent":
            self.server.over.wait()  # type: ignore[attr-defined]
            return None
        self.send_response(302 if self.path == "/moved" else 200)
        if self.path == "/moved":
            self.send_header("Location", "/it")
        self.send_header("Content-Length", str(len(FILES[self.path])))
        self.end_headers()
        if self.path in ("/cut", "/trickle"):
            self.wfile.write(PROGRAM[:5])
            self.wfile.flush()
            if self.path == "/trickle":
                self.server.over.wait()  # type: ignore[attr-defined]
            self.close_connection = True
            return None
        self.wfile.write(FILES[self.path])
        return None

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    server.over = threading.Event()  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setattr(releases, "_SILENCE", 0.5)
    monkeypatch.setattr(releases, "_unreachable", set())
    monkeypatch.delenv("CHARTERER_FROM_SOURCE", raising=False)
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.over.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


class Fetch:
    """``releases.fetch`` of a program ``it`` of one file; what it said."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.into = folder / "into"
        self.into.mkdir()
        self.said: list[str] = []
        self._pins = folder / "releases.json"
        monkeypatch.setattr(releases, "_PINS", self._pins)

    def __call__(self, *urls: str, content: bytes = PROGRAM, member: str = "") -> bool:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        here = f"{sys.platform}-{MACHINE}"
        files = [
            Release("go-it", "it", "1.2.3", here, url, digest, "a page", {f"it{place or ''}": member})
            for place, url in enumerate(urls)
        ]
        names = Release.__dataclass_fields__
        self._pins.write_text(json.dumps([{name: getattr(file, name) for name in names} for file in files]))
        return releases.fetch("go-it", "it", self.into, 320, self.said.append)

    def there(self) -> list[str]:
        """The names of what was put into the folder."""
        return sorted(path.name for path in self.into.iterdir())


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetch:
    return Fetch(tmp_path, monkeypatch)


@pytest.mark.parametrize("path", ["/it", "/moved"])
def test_a_program_whose_digest_is_right_is_taken(path: str, host: str, fetch: Fetch) -> None:
    assert fetch(host + path)
    assert subprocess.check_output([fetch.into / "it"]) == b"released\n"
    assert fetch.there() == ["it"]


def test_of_an_archive_only_the_program_is_taken(host: str, fetch: Fetch) -> None:
    assert fetch(f"{host}/it.tar.gz", content=ARCHIVE, member="it-1.2.3/bin/it")
    assert subprocess.check_output([fetch.into / "it"]) == b"released\n"
    assert fetch.there() == ["it"]
    assert not (fetch.into.parent / "escaped").exists()


def test_a_wrong_digest_is_an_error_that_names_both_and_the_source(host: str, fetch: Fetch) -> None:
    with pytest.raises(BuildError) as raised:
        fetch(f"{host}/it", content=b"another")
    for digest in (PROGRAM, b"another"):
        assert hashlib.sha256(digest).hexdigest() in str(raised.value)
    assert "a page" in str(raised.value)
    assert fetch.there() == []


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/gone", "404"), ("/cut", "ended after 5 of"), ("/silent", "timed out"), ("/trickle", "timed out")],
)
def test_what_cannot_be_fetched_is_built_and_the_reason_is_one_line(
    path: str, reason: str, host: str, fetch: Fetch
) -> None:
    assert not fetch(host + path)
    assert reason in fetch.said[-1]
    assert "\n" not in fetch.said[-1]
    assert fetch.there() == []


def test_all_of_several_files_are_taken_or_none(host: str, fetch: Fetch) -> None:
    assert not fetch(f"{host}/it", f"{host}/gone")
    assert fetch.there() == []
    assert fetch(f"{host}/it", f"{host}/moved")
    assert fetch.there() == ["it", "it1"]


def test_a_host_that_does_not_answer_is_asked_once_and_told_of_once(host: str, fetch: Fetch) -> None:
    assert not fetch(f"{host}/silent")
    assert not fetch(f"{host}/it")
    assert len(fetch.said) == 1


def test_a_host_that_refuses_is_no_error(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "_unreachable", set())
    monkeypatch.delenv("CHARTERER_FROM_SOURCE", raising=False)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        assert not fetch(f"http://127.0.0.1:{nobody.getsockname()[1]}/it")
    assert "cannot be reached" in fetch.said[-1]


def test_a_download_that_takes_longer_than_a_build_is_given_up(
    host: str, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((0.0, 1000.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    assert not fetch(f"{host}/it")
    assert "takes longer than a build" in fetch.said[-1]


def test_nothing_is_fetched_for_another_platform_or_by_who_wants_the_source(
    host: str, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "mips")
    assert not fetch(f"{host}/it")
    monkeypatch.undo()
    monkeypatch.setenv("CHARTERER_FROM_SOURCE", "1")
    assert not fetch(f"{host}/it")
    assert fetch.said == []


def test_the_pins_are_of_the_versions_that_are_built_and_say_where_their_digests_are_from() -> None:
    lengths = {"sha256": 64, "sha512": 128}
    for pin in pins():
        algorithm, _, digest = pin.digest.partition(":")
        assert len(bytes.fromhex(digest)) * 2 == lengths[algorithm]
        assert pin.url.startswith("https://")
        assert pin.version in pin.url
        assert pin.source
    built = {
        ("go-kubernetes-1.36", "kube"): "k8s.io/kubernetes",
        ("go-kubernetes-1.37", "kube"): "k8s.io/kubernetes",
        ("go-kwok", "kwok"): "sigs.k8s.io/kwok",
        ("go-helm-3", "helm"): "helm.sh/helm/v3",
    }
    for (module, name), path in built.items():
        of = [pin for pin in pins() if (pin.module, pin.target) == (module, name) and name in pin.url]
        minor = build.pinned(module, path).removeprefix("v").rpartition(".")[0]
        assert {pin.version.rpartition(".")[0] for pin in of} == {minor}
