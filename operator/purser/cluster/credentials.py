"""Where the API server is and how to prove who we are: one source for the client, the watch and the Lease.

Read from a kubeconfig or from the pod's service account. Tokens in files rotate and tokens of plug-ins expire, so the
``Authorization`` header is asked for at every request. Everything here may be called from any thread.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from purser.cluster.tokens import ExecToken, FileToken, NoToken, StaticToken, TokenSource

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoAccess(Exception):
    """No usable kubeconfig or service account; the message says what is missing and how to provide it."""


@dataclass(frozen=True, slots=True)
class Access:
    """An API server and an identity. ``namespace`` is the context's or the pod's own one.

    ``ca``, ``certificate`` and ``key`` are PEM texts; ``ca`` None means the system's authorities.
    """

    server: str
    namespace: str = "default"
    ca: str | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    proxy: str | None = None
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    token: TokenSource = field(default_factory=NoToken, repr=False)

    @property
    def tls(self) -> bool:
        """Whether the server is spoken to over TLS."""
        return self.server.startswith("https://")

    def ssl_context(self) -> ssl.SSLContext:
        """A fresh TLS context with the cluster's authority and, if there is one, the client certificate."""
        context = ssl.create_default_context(cadata=self.ca)
        # Cluster authorities are often made without the extensions that Python 3.13 began to insist on.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate and self.key:
            with ExitStack() as stack:  # the ssl module loads key pairs from files only
                files = []
                for text in (self.certificate, self.key):
                    file = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".pem"))
                    file.write(text)
                    file.flush()
                    files.append(file.name)
                context.load_cert_chain(files[0], files[1])
        return context

    def session(self, *, connections: int = 64) -> aiohttp.ClientSession:
        """A session whose every request carries the token of that moment. The caller closes it."""

        async def authorize(
            request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:
            header = await self.token.header_async()
            if header is not None:
                request.headers["Authorization"] = header
            return await handler(request)

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, ssl=self.ssl_context() if self.tls else True),
            middlewares=(authorize,),
            proxy=self.proxy,
            headers={"User-Agent": "purser"},
        )


def load(kubeconfig: Path | None = None, context: str | None = None) -> Access:
    """The access a process has: ``kubeconfig`` if given, else the pod's service account, else the default kubeconfig.

    Raises NoAccess.
    """
    if kubeconfig is not None:
        return from_kubeconfig([kubeconfig], context)
    if context is None and (SERVICE_ACCOUNT / "token").exists() and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return from_service_account(os.environ, SERVICE_ACCOUNT)
    named = os.environ.get("KUBECONFIG", "")
    paths = [Path(part) for part in named.split(os.pathsep) if part] or [Path.home() / ".kube" / "config"]
    existing = [path for path in paths if path.exists()]
    if not existing:
        raise NoAccess(
            f"no kubeconfig at {', '.join(map(str, paths))} and no service account at {SERVICE_ACCOUNT}: "
            "pass --kubeconfig, set KUBECONFIG, or run in a pod with a mounted service account token"
        )
    return from_kubeconfig(existing, context)


def from_service_account(environment: Mapping[str, str], directory: Path) -> Access:
    """The access of a pod: the server from its environment, token, CA and namespace from the mounted directory."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = directory / "namespace"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        ca=(directory / "ca.crt").read_text(),
        token=FileToken(directory / "token"),
    )


def from_kubeconfig(paths: list[Path], context: str | None = None) -> Access:
    """The access of one context (the current one if None) of kubeconfig files; of equal names the first file's wins."""
    merged = _merge(paths)
    chosen = context or merged.current
    if not chosen:
        raise NoAccess(f"{_names(paths)}: no current-context is set; choose one with --context")
    entry = merged.find("contexts", chosen, paths)
    cluster = merged.find("clusters", entry.body.get("cluster", ""), paths)
    user = merged.find("users", entry.body["user"], paths) if entry.body.get("user") else _Entry({}, Path())
    if "server" not in cluster.body:
        raise NoAccess(f"{_names(paths)}: cluster {entry.body['cluster']!r} has no field server")
    return Access(
        server=str(cluster.body["server"]).rstrip("/"),
        namespace=entry.body.get("namespace", "default"),
        ca=cluster.pem("certificate-authority"),
        insecure=bool(cluster.body.get("insecure-skip-tls-verify")),
        tls_server_name=cluster.body.get("tls-server-name"),
        proxy=cluster.body.get("proxy-url"),
        certificate=user.pem("client-certificate"),
        key=user.pem("client-key"),
        token=_token(user, paths),
    )


def _token(user: _Entry, paths: list[Path]) -> TokenSource:
    body = user.body
    if "exec" in body:
        return ExecToken.of(body["exec"], user.directory)
    if body.get("tokenFile"):
        return FileToken(user.directory / body["tokenFile"])
    if body.get("token"):
        return StaticToken(f"Bearer {body['token']}")
    if body.get("username"):
        pair = f"{body['username']}:{body.get('password', '')}".encode()
        return StaticToken(f"Basic {base64.b64encode(pair).decode()}")
    if "auth-provider" in body:
        name = body["auth-provider"].get("name")
        raise NoAccess(f"{_names(paths)}: auth-provider {name!r} is obsolete; use a credential plug-in (users[].exec)")
    return NoToken()


@dataclass(frozen=True, slots=True)
class _Entry:
    """A named entry of a kubeconfig; relative paths in it are relative to ``directory``."""

    body: Mapping[str, Any]
    directory: Path

    def pem(self, name: str) -> str | None:
        """The text of ``<name>-data`` (base64) or of the file ``<name>``."""
        if data := self.body.get(f"{name}-data"):
            return base64.b64decode(data).decode()
        if path := self.body.get(name):
            return (self.directory / str(path)).read_text()
        return None


@dataclass(slots=True)
class _Merged:
    current: str = ""
    entries: dict[tuple[str, str], _Entry] = field(default_factory=dict)

    def find(self, section: str, name: str, paths: list[Path]) -> _Entry:
        entry = self.entries.get((section, name))
        if entry is None:
            known = ", ".join(sorted(n for s, n in self.entries if s == section)) or "none"
            raise NoAccess(f"{_names(paths)}: {section} has no entry {name!r} (there are: {known})")
        return entry


def _merge(paths: list[Path]) -> _Merged:
    merged = _Merged()
    for path in paths:
        try:
            config = yaml.safe_load(path.read_text()) or {}
        except (OSError, yaml.YAMLError) as error:
            raise NoAccess(f"kubeconfig {path} cannot be read: {error}") from error
        merged.current = merged.current or config.get("current-context") or ""
        for section, inner in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
            for item in config.get(section) or ():
                entry = _Entry(item.get(inner) or {}, path.resolve().parent)
                merged.entries.setdefault((section, item["name"]), entry)
    return merged


def _names(paths: list[Path]) -> str:
    return "kubeconfig " + ", ".join(map(str, paths))
