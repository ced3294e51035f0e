"""What a person is told when the cluster cannot be read: one line that names what is missing and what to do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import pytest

from charterer.tools.commands.shared.cluster import ClusterOptions, read

_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "URL"}}]
users: [{name: u, user: {token: secret}}]
"""


def kubeconfig(directory: Path, url: str) -> Path:
    file = directory / "config"
    file.write_text(_KUBECONFIG.replace("URL", url))
    return file


def test_without_a_kubeconfig_it_is_said_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(click.ClickException, match=r"no kubeconfig at .*absent"):
        read(ClusterOptions())


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        click.ClickException, match=r"^cannot reach the API server http://127\.0\.0\.1:1: Connection refused$"
    ):
        read(ClusterOptions(kubeconfig(tmp_path, "http://127.0.0.1:1")))


@contextmanager
def answering(status: int, reason: str, message: str) -> Iterator[str]:
    """The URL of an API server that says the same to everybody."""
    body = json.dumps({"kind": "Status", "apiVersion": "v1", "reason": reason, "message": message, "code": status})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "reason", "message", "told"),
    [
        (
            404,
            "NotFound",
            "404 page not found",
            "has no trainingjobs.charterer.dev: Charterer's CRDs are not installed; helm",
        ),
        (
            403,
            "Forbidden",
            'trainingjobs.charterer.dev is forbidden: User "ann" cannot list resource "trainingjobs"',
            'User "ann" cannot list resource "trainingjobs"; a ClusterRoleBinding to ClusterRole charterer-view',
        ),
        (401, "Unauthorized", "Unauthorized", "does not know you: Unauthorized; log in again"),
        (503, "ServiceUnavailable", "etcd is away", "cannot reach the API server http://127.0.0.1"),
    ],
)
def test_what_the_server_refuses_is_said_with_what_to_do(
    status: int, reason: str, message: str, told: str, tmp_path: Path
) -> None:
    with answering(status, reason, message) as url, pytest.raises(click.ClickException) as refused:
        read(ClusterOptions(kubeconfig(tmp_path, url)))
    assert told in refused.value.message
    assert "\n" not in refused.value.message
