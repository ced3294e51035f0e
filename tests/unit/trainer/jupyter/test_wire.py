"""The connection of a kernel and its worker: who is spoken to, and what happens when it breaks."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from charterer_trainer.jupyter.listener import Listener
from charterer_trainer.jupyter.wire import Link, LinkError, Message, tls_context
from tests.cluster.notebooks import write_keys
from tests.patience import PATIENCE

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_keys(tmp_path_factory.mktemp("keys"))


@asynccontextmanager
async def served(keys: Path, serve: Serve) -> AsyncIterator[Link]:
    """A connection to what ``serve`` does."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls_context(keys, server=True))
    link = await Link.dial("127.0.0.1", server.sockets[0].getsockname()[1], tls_context(keys, server=False))
    try:
        yield link
    finally:
        await link.close()
        server.close()


async def test_messages_come_whole_and_in_order(keys: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer)
        for _ in range(2):
            await link.send(await link.receive())

    async with served(keys, echo) as link:
        large = bytes(range(256)) * 9_000
        await link.send(Message("one", {"text": "ü" * 300_000}, [b"", large]))
        await link.send(Message("two"))
        first, second = await link.receive(), await link.receive()
    assert (first.kind, first.fields["text"], [bytes(part) for part in first.parts]) == (
        "one",
        "ü" * 300_000,
        [b"", large],
    )
    assert (second.kind, second.parts) == ("two", [])


@pytest.mark.parametrize("mine", ["no certificate", "another certificate"])
async def test_nobody_without_the_key_is_answered(keys: Path, tmp_path: Path, mine: str) -> None:
    lost: list[bool] = []
    listener = Listener(0, keys, lambda: None, lambda: lost.append(True))
    context = tls_context(write_keys(tmp_path / "other"), server=False)
    context.verify_mode = ssl.CERT_NONE
    if mine == "no certificate":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises((LinkError, OSError)):  # noqa: PT012
        link = await Link.dial("127.0.0.1", listener.port, context)
        await link.send(Message("run", {"source": "1"}))
        await link.receive()
    assert listener.inbox.empty()
    assert lost == []
    link = await Link.dial("127.0.0.1", listener.port, tls_context(keys, server=False))
    assert (await link.receive()).kind == "hello"  # and the place is still free
    await link.close()


async def test_a_worker_with_another_certificate_is_not_spoken_to(keys: Path, tmp_path: Path) -> None:
    listener = Listener(0, write_keys(tmp_path / "other"), lambda: None, lambda: None)
    with pytest.raises(ssl.SSLCertVerificationError):
        await Link.dial("127.0.0.1", listener.port, tls_context(keys, server=False))


@pytest.mark.parametrize("also", [(), ("intermediate",), ("root",), ("intermediate", "root")], ids="+".join)
async def test_of_an_issuers_certificates_only_the_very_one_is_trusted(tmp_path: Path, also: tuple[str, ...]) -> None:
    """As cert-manager writes them, with or without the certificates above it."""
    issuer = Issuer()
    own, other = issuer.keys(tmp_path / "own", also), issuer.keys(tmp_path / "other", also)
    listener = Listener(0, own, lambda: None, lambda: None)
    context = tls_context(other, server=False)
    context.verify_mode = ssl.CERT_NONE
    with pytest.raises((LinkError, OSError)):  # noqa: PT012
        link = await Link.dial("127.0.0.1", listener.port, context)
        await link.send(Message("run", {"source": "1"}))
        await link.receive()
    with pytest.raises(ssl.SSLCertVerificationError):
        await Link.dial("127.0.0.1", listener.port, tls_context(other, server=False))
    assert listener.inbox.empty()
    link = await Link.dial("127.0.0.1", listener.port, tls_context(own, server=False))
    assert (await link.receive()).kind == "hello"
    await link.close()


class Issuer:
    """A root and an intermediate that sign certificates for anybody in the cluster."""

    def __init__(self) -> None:
        self._root = _Signed("root", None)
        self._intermediate = _Signed("intermediate", self._root)

    def keys(self, folder: Path, also: tuple[str, ...]) -> Path:
        """A Secret's files: a certificate of its own, those above it that are named, and the key."""
        folder.mkdir()
        leaf = _Signed("notebook-gpu", self._intermediate)
        above = {"root": self._root, "intermediate": self._intermediate}
        (folder / "tls.crt").write_bytes(b"".join(each.pem for each in (leaf, *[above[name] for name in also])))
        (folder / "tls.key").write_bytes(leaf.key_pem)
        return folder


class _Signed:
    def __init__(self, name: str, by: _Signed | None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(self.name if by is None else by.name)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=name != "notebook-gpu", path_length=None), critical=True)
            .sign((self if by is None else by).key, hashes.SHA256())
        )
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM)
        plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        self.key_pem = self.key.private_bytes(serialization.Encoding.PEM, *plain)


async def test_strangers_who_say_nothing_keep_no_place(keys: Path) -> None:
    """More of them than a worker has places for, whose connections are ended again; the kernel's is not."""
    listener = Listener(0, keys, lambda: None, lambda: None)
    strangers = [socket.create_connection(("127.0.0.1", listener.port), timeout=PATIENCE) for _ in range(300)]
    link = await Link.dial("127.0.0.1", listener.port, tls_context(keys, server=False))
    assert (await link.receive()).kind == "hello"
    ended = sum([await asyncio.to_thread(stranger.recv, 1) == b"" for stranger in strangers[:200]])
    assert ended == 200
    await link.close()
    for stranger in strangers:
        stranger.close()


async def test_a_second_kernel_is_told_that_the_worker_is_taken(keys: Path) -> None:
    lost = threading.Event()
    listener = Listener(0, keys, lambda: None, lost.set)
    context = tls_context(keys, server=False)
    first = await Link.dial("127.0.0.1", listener.port, context)
    assert (await first.receive()).kind == "hello"
    second = await Link.dial("127.0.0.1", listener.port, context)
    assert (await second.receive()).kind == "taken"
    await second.close()
    assert not lost.is_set()
    await first.close()
    assert await asyncio.to_thread(lost.wait, 30)


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (b"", "the connection was lost"),
        (b'{"kind": "run"', "the connection was lost"),
        (b'{"kind": "run", "parts": [10]}\nhalf', "lost midway"),
        (b'{"kind": "run", "parts": [-1]}\n', "no message"),
        (b'{"kind": "run", "parts": ["x"]}\n', "no message"),
        (b'{"kind": "run", "parts": []}\n', "no message"),
        (b'{"kind": "run", "parts": [3]}\n[1,', "no message"),
        (b"[]\n", "no message"),
        (b"[" * 20_000 + b"\n", "no message"),
        (b'{"kind": "run", "parts": [20000]}\n' + b"[" * 20_000, "no message"),
        (b"GET / HTTP/1.1\n", "no message"),
        (b'{"kind": "run", "parts": [100, 2000000]}\n', "is longer than 1000000"),
    ],
)
async def test_what_breaks_off_or_is_no_message_is_refused(keys: Path, sent: bytes, problem: str) -> None:
    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0, ssl=tls_context(keys, server=True))
    port, context = server.sockets[0].getsockname()[1], tls_context(keys, server=False)
    link = Link(*await asyncio.open_connection("127.0.0.1", port, ssl=context), longest_parts=1_000_000)
    with pytest.raises(LinkError, match=problem):
        await link.receive()
    await link.close()
    server.close()
