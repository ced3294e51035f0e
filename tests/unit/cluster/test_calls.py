"""Both clients against servers that refuse, vanish or ask for a certificate."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from charterer.cluster import credentials
from charterer.cluster.client import Client
from charterer.cluster.credentials import Access
from charterer.cluster.errors import ApiError, OutcomeUnknown, Unauthorized, Unreachable
from charterer.cluster.lease import BlockingClient
from tests.patience import PATIENCE
from tests.unit.cluster.identities import certificate, kubeconfig, printing, runs

pytestmark = pytest.mark.filterwarnings("ignore:Unverified HTTPS request")

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/charterer"
Caller = Callable[[Access, str], Any]


def blocking(access: Access, method: str) -> Any:
    client = BlockingClient(access, timeout=PATIENCE)
    try:
        try:
            return client.call(method, PATH, {} if method == "PUT" else None)
        except Unauthorized:
            return client.call(method, PATH, {} if method == "PUT" else None)
    finally:
        client.close()


def asynchronous(access: Access, method: str) -> Any:
    async def call() -> Any:
        async with Client(access) as client:
            return await client.raw(method, PATH, body={} if method == "PUT" else None, within=PATIENCE)

    return asyncio.run(call())


both = pytest.mark.parametrize("call", [blocking, asynchronous])


class Answering(http.server.BaseHTTPRequestHandler):
    """200 and ``answer`` to those whom ``accepts`` likes, else 401; keeps connections."""

    protocol_version = "HTTP/1.1"
    accepts: Callable[[Answering], bool]
    answer: bytes

    def do_GET(self) -> None:
        accepted = type(self).accepts(self)
        body = self.answer if accepted else json.dumps({"kind": "Status", "message": "who are you?"}).encode()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200 if accepted else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def common_name(self) -> str:
        """Of the caller's certificate."""
        assert isinstance(self.connection, ssl.SSLSocket)
        subject: Any = (self.connection.getpeercert() or {}).get("subject", ())
        return str(dict(pair[0] for pair in subject).get("commonName", ""))


@contextlib.contextmanager
def serving(
    accepts: Callable[[Answering], bool], tls: ssl.SSLContext, answer: bytes = b'{"kind": "Lease"}'
) -> Iterator[str]:
    handler = type("Handler", (Answering,), {"accepts": staticmethod(accepts), "answer": answer})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def server_tls(folder: Path, *trusted: str) -> tuple[ssl.SSLContext, str]:
    """A server's context under the name ``the-api``, trusting these certificates, and the authority to check it by."""
    public, private = certificate("the-api")
    (folder / "server.pem").write_text(public + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    if trusted:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata="".join(trusted))
    (folder / "ca.pem").write_text(public)
    return context, "ca.pem"


@both
def test_a_certificate_from_a_plug_in_proves_who_we_are_and_is_renewed_when_it_is_refused(
    tmp_path: Path, call: Caller
) -> None:
    old, new = certificate("old"), certificate("new")
    tls, authority = server_tls(tmp_path, old[0], new[0])
    statuses = [{"clientCertificateData": public, "clientKeyData": private} for public, private in (old, new)]
    seen: list[str] = []

    def accepts(request: Answering) -> bool:
        seen.append(request.common_name())
        return seen[-1] == "new"

    with serving(accepts, tls) as url:
        cluster = {"server": url, "certificate-authority": authority, "tls-server-name": "the-api"}
        access = credentials.load(kubeconfig(tmp_path / "config", printing(tmp_path, *statuses), cluster))
        assert call(access, "GET") == {"kind": "Lease"}
        assert call(access, "PUT") == {"kind": "Lease"}
    assert seen == ["old", "new", "new"]
    assert runs(tmp_path) == 2


@both
def test_a_server_is_believed_by_its_authority_and_name_only(tmp_path: Path, call: Caller) -> None:
    tls, authority = server_tls(tmp_path)
    with serving(lambda _: True, tls) as url:
        unnamed = {"server": url, "certificate-authority": authority}
        with pytest.raises(ApiError, match="certificate"):
            call(credentials.load(kubeconfig(tmp_path / "config", cluster=unnamed)), "GET")
        unknown = {"server": url, "tls-server-name": "the-api"}
        with pytest.raises(ApiError, match="certificate"):
            call(credentials.load(kubeconfig(tmp_path / "config", cluster=unknown)), "GET")
        insecure = {"server": url, "insecure-skip-tls-verify": True}
        assert call(credentials.load(kubeconfig(tmp_path / "config", cluster=insecure)), "GET") == {"kind": "Lease"}


@both
def test_a_token_is_asked_for_again_after_a_401(tmp_path: Path, call: Caller) -> None:
    tls, _ = server_tls(tmp_path)
    with serving(lambda request: request.headers["Authorization"] == "Bearer good", tls) as url:
        user = printing(tmp_path, {"token": "bad"}, {"token": "good"}, {"token": "worse"})
        cluster = {"server": url, "insecure-skip-tls-verify": True}
        access = credentials.load(kubeconfig(tmp_path / "config", user, cluster))
        assert call(access, "PUT") == {"kind": "Lease"}
        access.refused(access.credential())
        with pytest.raises(Unauthorized, match="who are you"):
            call(access, "PUT")


@both
def test_without_a_credential_nothing_is_sent(tmp_path: Path, call: Caller) -> None:
    (tmp_path / "token").write_text("abc")
    access = credentials.load(kubeconfig(tmp_path / "config", {"tokenFile": "token"}))
    (tmp_path / "token").unlink()
    access.refused(access.credential())
    with pytest.raises(Unreachable, match=r"not sent: .*token"):
        call(access, "PUT")


@pytest.fixture
def rude() -> Iterator[tuple[str, list[str]]]:
    """A server that takes every request and closes the connection without an answer; its address and what it took."""
    taken: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    taken.append(connection.recv(65536).decode().split(" ", 1)[0])

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", taken
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@both
@pytest.mark.parametrize(("method", "error"), [("PUT", OutcomeUnknown), ("GET", Unreachable)])
def test_a_lost_answer_may_mean_that_it_was_done_and_a_mutation_is_not_repeated(
    tmp_path: Path, rude: tuple[str, list[str]], call: Caller, method: str, error: type[ApiError]
) -> None:
    url, taken = rude
    access = credentials.load(kubeconfig(tmp_path / "config", cluster={"server": url}))
    with pytest.raises(ApiError) as raised:
        call(access, method)
    assert type(raised.value) is error
    assert raised.value.reason == "NoAnswer"
    if method == "PUT":
        assert taken == ["PUT"]


@both
def test_what_was_not_sent_was_not_done(tmp_path: Path, call: Caller) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(Unreachable, match="not sent"):
        call(credentials.load(kubeconfig(tmp_path / "config", cluster={"server": url})), "PUT")


@both
@pytest.mark.parametrize(
    "answer", [b"<html>please log in</html>", b"", b"[1, 2]", b"[" * 20_000], ids=["html", "empty", "array", "deep"]
)
def test_an_answer_that_is_no_object_is_an_error_of_the_call(tmp_path: Path, call: Caller, answer: bytes) -> None:
    tls, _ = server_tls(tmp_path)
    with serving(lambda _: True, tls, answer) as url:
        access = credentials.load(
            kubeconfig(tmp_path / "config", cluster={"server": url, "insecure-skip-tls-verify": True})
        )
        with pytest.raises(ApiError, match="not a JSON object"):
            call(access, "GET")
