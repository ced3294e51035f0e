"""The connection between a kernel and its worker: messages over TLS, with both sides authenticated by one key.

Both pods mount one Secret of type ``kubernetes.io/tls``. Each side trusts only the first certificate in its
``tls.crt``, whoever signed that certificate. Issuers' certificates that may follow in the file are not trusted. So a
peer without the certificate's key is refused, and no data of such a peer reach a pickle.

A message is a line of JSON with its kind and the lengths of the parts that follow. The first part is also JSON and has
the fields.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from charterer_trainer.jupyter.values import Parcel

PORT = 8786
_LONGEST_HEADER = 16 * 1024 * 1024
_LONGEST_PARTS = 1 << 40
_CHUNK = 1024 * 1024
_END = "-----END CERTIFICATE-----"
_PARTIAL_CHAIN = 0x80000
"""OpenSSL's X509_V_FLAG_PARTIAL_CHAIN, by which a certificate is its own trust anchor. Python has a name for it only
from 3.10 on.
"""
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))
"""Settings of TCP keepalive. If a peer is on a lost node, it sends nothing, and keepalive detects this after 35 s."""


class LinkError(Exception):
    """The connection was lost, or the peer violates the protocol."""


@dataclass(frozen=True)
class Message:
    """``fields`` are JSON values, and ``parts`` are bytes."""

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    parts: Sequence[Any] = ()


def tls_context(folder: Path, *, server: bool) -> ssl.SSLContext:
    """The TLS context of one end. It presents the Secret's certificate and accepts only that certificate. Raises
    OSError if there is no Secret.

    The certificate must be valid for both ends. If it has an extended key usage, this must include server auth and
    client auth.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is compared, so the pod's host name does not matter
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    leaf, end, _ = (folder / "tls.crt").read_text().partition(_END)
    context.load_verify_locations(cadata=leaf + end)
    context.verify_flags |= _PARTIAL_CHAIN
    return context


class Link:
    """One connection. Only one task at a time may use ``send``, and one ``receive``."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, longest_parts: int = _LONGEST_PARTS
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._longest_parts = longest_parts
        self._sending = asyncio.Lock()
        stream = writer.get_extra_info("socket")
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    @classmethod
    async def dial(cls, host: str, port: int, context: ssl.SSLContext) -> Link:
        """Connect to a worker. Raises OSError if there is none, and ssl.SSLError if its certificate differs."""
        return cls(*await asyncio.open_connection(host, port, ssl=context, limit=_CHUNK))

    async def send(self, message: Message) -> None:
        """Send a message. Raises LinkError if the connection is lost."""
        parts = [json.dumps(message.fields).encode(), *message.parts]
        header = {"kind": message.kind, "parts": [memoryview(each).nbytes for each in parts]}
        try:
            async with self._sending:
                self._writer.write(json.dumps(header).encode() + b"\n")
                for part in parts:
                    view = memoryview(part).cast("B")
                    for start in range(0, view.nbytes, _CHUNK):
                        self._writer.write(view[start : start + _CHUNK])
                        await self._writer.drain()
                await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise LinkError(f"the connection was lost: {error}") from error

    async def receive(self) -> Message:
        """Receive a message.

        Raises LinkError if the connection is lost, even within a message, or if the data are no message.
        """
        try:
            header = json.loads(await self._line())
            kind, lengths = header["kind"], header["parts"]
            if not lengths or not all(type(each) is int and each >= 0 for each in lengths):
                raise ValueError(lengths)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise LinkError("the connection was lost") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise LinkError(f"what came is no message: {error!r}") from error
        if sum(lengths) > self._longest_parts:
            raise LinkError(f"a message of {sum(lengths)} bytes is longer than {self._longest_parts}")
        fields, *parts = [await self._part(length) for length in lengths]
        try:
            return Message(kind, json.loads(fields), parts)
        except (ValueError, RecursionError) as error:
            raise LinkError(f"what came is no message: {error!r}") from error

    async def close(self) -> None:
        """Close the connection after the data written to it have been sent."""
        self._writer.close()
        with contextlib.suppress(OSError, RuntimeError):
            await self._writer.wait_closed()

    async def _line(self) -> bytes:
        line = bytearray()
        while not line.endswith(b"\n"):
            if len(line) > _LONGEST_HEADER:
                raise ValueError(f"a header of more than {_LONGEST_HEADER} bytes")
            try:
                line += await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                line += await self._reader.readexactly(error.consumed)
        return bytes(line)

    async def _part(self, length: int) -> bytearray:
        content = bytearray(length)
        filled = 0
        while filled < length:
            try:
                chunk = await self._reader.read(min(_CHUNK, length - filled))
            except OSError as error:
                raise LinkError("the connection was lost midway") from error
            if not chunk:
                raise LinkError("the connection was lost midway")
            content[filled : filled + len(chunk)] = chunk
            filled += len(chunk)
        return content


def parcel_fields(parcels: Sequence[Parcel]) -> tuple[list[dict[str, Any]], list[Any]]:
    """Parcels as fields and parts of a message."""
    fields, parts = [], []
    for each in parcels:
        fields.append(
            {
                "names": list(each.names),
                "refers": sorted(each.refers),
                "digests": list(each.digests),
                "buffers": len(each.buffers),
            }
        )
        parts += [each.stream, *each.buffers]
    return fields, parts


def parcels_of(fields: Sequence[Mapping[str, Any]], parts: Sequence[Any]) -> list[Parcel]:
    """The parcels of a message."""
    parcels, at = [], 0
    for each in fields:
        buffers = tuple(parts[at + 1 : at + 1 + each["buffers"]])
        names, refers, digests = tuple(each["names"]), frozenset(each["refers"]), tuple(each["digests"])
        parcels.append(Parcel(names, bytes(parts[at]), buffers, refers, digests))
        at += 1 + each["buffers"]
    return parcels
