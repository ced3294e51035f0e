"""Sources of the ``Authorization`` header: none, fixed, a file that rotates, a plug-in whose tokens expire."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from purser.domain.time import parse_instant, seconds_between

FILE_MAX_AGE = 60.0
"""Seconds a token file's content is used before it is read again (projected tokens rotate at 80 % of their life)."""
EXEC_TIMEOUT = 30.0
"""Seconds a credential plug-in may take."""
EXPIRY_MARGIN = 60.0
"""Seconds before its expiry that a plug-in's token is replaced."""


class TokenFailed(Exception):
    """The token cannot be had: an unreadable file or a failing plug-in, named in the message."""


class TokenSource(Protocol):
    """Gives the header of this moment. Thread-safe."""

    def header(self) -> str | None:
        """The header's value, or None without a token. May block for a file or a plug-in. Raises TokenFailed."""
        ...

    async def header_async(self) -> str | None:
        """The same without blocking the event loop."""
        ...

    def refused(self) -> None:
        """The server answered 401: get a new token next time."""
        ...


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A header that never changes."""

    value: str | None = field(repr=False)

    def header(self) -> str | None:
        return self.value

    async def header_async(self) -> str | None:
        return self.value

    def refused(self) -> None:
        """Nothing else to offer."""


class NoToken(StaticToken):
    """No header: the client certificate, if there is one, is the identity."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)


class FileToken:
    """A bearer token in a file that something else replaces from time to time."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._header = ""
        self._read_at = float("-inf")

    def header(self) -> str:
        with self._lock:
            now = self._clock()
            if now - self._read_at >= FILE_MAX_AGE:
                try:
                    token = self._path.read_text().strip()
                except OSError as error:
                    raise TokenFailed(f"token file {self._path} cannot be read: {error.strerror}") from error
                if not token:
                    raise TokenFailed(f"token file {self._path} is empty")
                self._header, self._read_at = f"Bearer {token}", now
            return self._header

    async def header_async(self) -> str:
        return self.header()

    def refused(self) -> None:
        with self._lock:
            self._read_at = float("-inf")


@dataclass(slots=True)
class ExecToken:
    """A client-go credential plug-in (``users[].exec``): a command that prints an ExecCredential with a token."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    api_version: str
    directory: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _header: str = field(default="", repr=False)
    _until: float = field(default=float("-inf"), repr=False)

    @staticmethod
    def of(body: Mapping[str, Any], directory: Path) -> ExecToken:
        """From the kubeconfig's ``exec`` mapping; a command with a slash is relative to the kubeconfig."""
        command = str(body["command"])
        if "/" in command:
            command = str(directory / command)
        return ExecToken(
            command=(command, *map(str, body.get("args") or ())),
            environment={item["name"]: str(item["value"]) for item in body.get("env") or ()},
            api_version=str(body.get("apiVersion", "client.authentication.k8s.io/v1")),
            directory=directory,
        )

    def header(self) -> str:
        with self._lock:
            if time.monotonic() >= self._until:
                self._header, self._until = self._run()
            return self._header

    async def header_async(self) -> str:
        if time.monotonic() < self._until:
            return self._header
        return await asyncio.to_thread(self.header)

    def refused(self) -> None:
        with self._lock:
            self._until = float("-inf")

    def _run(self) -> tuple[str, float]:
        """The new header and the monotonic second until which it is good."""
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        environment = {**os.environ, **self.environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            done = subprocess.run(
                self.command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=EXEC_TIMEOUT
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TokenFailed(f"credential plug-in {self.command[0]} did not run: {error}") from error
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip()[-500:]
            raise TokenFailed(f"credential plug-in {self.command[0]} ended with {done.returncode}: {said}")
        try:
            status = json.loads(done.stdout)["status"]
            token, expires = status["token"], status.get("expirationTimestamp")
            life = _seconds_until(expires) - EXPIRY_MARGIN if expires else float("inf")
        except (ValueError, KeyError, TypeError) as error:
            raise TokenFailed(f"credential plug-in {self.command[0]} printed no ExecCredential with a token") from error
        return f"Bearer {token}", time.monotonic() + life


def _seconds_until(timestamp: str) -> float:
    return seconds_between(parse_instant(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())), parse_instant(timestamp))
