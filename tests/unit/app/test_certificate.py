"""A running operator looks daily after its certificate: trainers that live across the renewal go on reporting."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509

from charterer.app import certificate
from charterer.app.certificate import keep_renewed, progress_certificate
from charterer.app.settings import Settings
from charterer.cluster.client import Client
from charterer.cluster.errors import NotFound, Unreachable
from charterer.server.tls import TlsMaterial
from charterer_trainer.client import Client as TrainerClient
from charterer_trainer.environment import Environment

SETTINGS = Settings("charterer-0", "charterer", progress_url="https://127.0.0.1")


class SecretStore:
    """The API server, as far as one Secret goes."""

    def __init__(self) -> None:
        self.secret: dict[str, Any] | None = None
        self.away = False
        self.asked = asyncio.Event()

    async def get(self, path: str) -> dict[str, Any]:
        self.asked.set()
        if self.away:
            raise Unreachable("GET", path, 503, "", "away")
        if self.secret is None:
            raise NotFound("GET", path, 404, "NotFound", "")
        return self.secret

    async def post(self, path: str, body: Mapping[str, Any]) -> None:
        self.secret = {"metadata": {"resourceVersion": "1"}, "data": dict(body["data"])}

    async def merge_patch(self, path: str, body: Mapping[str, Any]) -> None:
        assert self.secret is not None
        version = str(int(self.secret["metadata"]["resourceVersion"]) + 1)
        self.secret = {"metadata": {"resourceVersion": version}, "data": dict(body["data"])}


class Clock:
    """Stands in for datetime in the module that asks for the time."""

    ahead = timedelta(0)

    @classmethod
    def now(cls, zone: object) -> datetime:
        return datetime.now(UTC) + cls.ahead


async def a_look(store: SecretStore) -> None:
    """Wait until the operator has looked at its Secret once more; the look before has been dealt with then."""
    store.asked.clear()
    await store.asked.wait()


def serial(pem: str) -> int:
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


async def served(context: ssl.SSLContext, trainer: TrainerClient, port: list[int]) -> None:
    """The trainer reports over TLS and is answered."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if b"content-length" in line.lower())
        await reader.readexactly(length)
        body = json.dumps({"againSeconds": 7}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port[0], ssl=context) as listening:
        port[0] = listening.sockets[0].getsockname()[1]
        trainer._environment = environment(trainer._environment, port[0])
        answered = await asyncio.to_thread(trainer.post, {"fraction": 0.5})
        assert answered.again_seconds == 7.0


def environment(former: Environment, port: int) -> Environment:
    return Environment(f"https://127.0.0.1:{port}", former.ca_pem, former.token_file, former.run, 0, 0, None, None, "")


@pytest.mark.parametrize("years", [2, 8.5])
async def test_a_trainer_reports_on_when_certificate_or_authority_are_renewed(
    years: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After two years the server's certificate is renewed, after eight the authority's too."""
    monkeypatch.setattr(certificate, "datetime", Clock)
    monkeypatch.setattr(certificate, "_RENEWAL_CHECK_SECONDS", 0.005)
    monkeypatch.setattr(certificate, "_RETRY_SECONDS", 0.005)
    Clock.ahead = -timedelta(days=365.25 * years - 20)
    store = SecretStore()
    client = cast(Client, store)
    first = await progress_certificate(client, SETTINGS)
    context = first.server_context()
    token = tmp_path / "token"
    token.write_text("t")
    trainer = TrainerClient(Environment("https://127.0.0.1", first.ca_pem, token, 1, 0, 0, None, None, ""))
    port = [0]
    if years == 2:
        await served(context, trainer, port)
    Clock.ahead = timedelta(0)
    task = asyncio.create_task(keep_renewed(client, SETTINGS, context, first.ca_pem))
    await a_look(store)
    await a_look(store)
    now = await progress_certificate(client, SETTINGS)
    assert serial(now.chain_pem) != serial(first.chain_pem)
    assert (now.ca_pem == first.ca_pem) == (years == 2)
    await served(context, trainer, port)
    assert not task.done()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_look_that_fails_and_a_secret_that_was_deleted_do_not_end_the_operator_nor_what_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate, "_RENEWAL_CHECK_SECONDS", 0.005)
    monkeypatch.setattr(certificate, "_RETRY_SECONDS", 0.005)
    store = SecretStore()
    client = cast(Client, store)
    first: TlsMaterial = await progress_certificate(client, SETTINGS)
    context = first.server_context()
    token = tmp_path / "token"
    token.write_text("t")
    trainer = TrainerClient(Environment("https://127.0.0.1", first.ca_pem, token, 1, 0, 0, None, None, ""))
    task = asyncio.create_task(keep_renewed(client, SETTINGS, context, first.ca_pem))
    store.away = True
    await a_look(store)
    store.away, store.secret = False, None
    await a_look(store)
    await a_look(store)
    assert store.secret is not None
    assert not task.done()
    await served(context, trainer, [0])
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
