"""The API server's address and this process's credentials: one source for the client, the watch and the Lease.

The ``kubernetes`` package reads kubeconfigs and service accounts, runs credential plug-ins and refreshes their tokens.
This module detects a user without a credential, reads credentials again after a refusal or a possible rotation, and
gives three HTTP clients the same TLS context and token.
"""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import aiohttp
import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config import load_kube_config
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import KubeConfigMerger

from charterer import bounded_yaml

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_AGE: Final = 60.0
"""Seconds for which a token is used before the library is asked for the token again.

Projected tokens rotate at 80 % of their life. If a plug-in's tokens live less than the library's margin of 5 minutes,
the library would run the plug-in at every request. This limit prevents that.
"""

Fill: TypeAlias = Callable[[Configuration, str], None]
"""Fills a configuration.

The function writes key files into the directory, which is deleted after the files are read.
"""


class NoAccess(Exception):
    """No usable kubeconfig, service account or plug-in. The message says what is missing and how to provide it."""


class NotSent(aiohttp.ClientConnectionError):
    """NoAccess during a session, in another class, so that callers that repeat requests, such as kopf, treat it as a
    failed connection.
    """


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The identity that requests impersonate (kubectl's --as, ``as`` of a kubeconfig's user)."""

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The impersonation headers of every request.

        Raises NoAccess if groups, uid or extra fields are set without a user: the API server would ignore the
        impersonation and use this process's own identity.
        """
        if not self.user:
            if self.groups or self.uid or self.extra:
                raise NoAccess("groups, a uid or extra fields are to be impersonated without a user: set --as, too")
            return []
        extra = [(f"Impersonate-Extra-{quote(key)}", value) for key, values in self.extra.items() for value in values]
        uid = [("Impersonate-Uid", self.uid)] if self.uid else []
        groups = [("Impersonate-Group", group) for group in self.groups]
        return [("Impersonate-User", self.user), *groups, *uid, *extra]


@dataclass(frozen=True, slots=True)
class Credential:
    """This process's current identity: the ``Authorization`` header, if any, and the TLS context."""

    header: str | None = field(repr=False)
    tls: ssl.SSLContext


class Access:
    """An API server and an identity. ``namespace`` is that of the context or of the pod. Thread-safe.

    ``rereads``: the files that ``fill`` reads may change without the library's notice. The constructor raises NoAccess.
    """

    def __init__(
        self,
        source: str,
        fill: Fill,
        *,
        namespace: str = "default",
        rereads: bool = False,
        clock: Callable[[], float] = time.monotonic,
        acting_as: Impersonation = Impersonation(),
    ) -> None:
        self.namespace = namespace
        self._impersonation = acting_as.headers
        self._source, self._fill, self._rereads, self._clock = source, fill, rereads, clock
        self._lock = threading.Lock()
        # The renewal has a thread of its own, because all threads of the event loop's pool may be waiting for a cloud.
        self._renewer = ThreadPoolExecutor(1, "charterer-credentials")
        self._refused = False
        self._configuration, tls = self._load()
        self._credential = Credential(self._header(), tls)
        self._due = clock() + MAX_AGE

    @property
    def configuration(self) -> Configuration:
        """The current configuration of the ``kubernetes`` package, for server and proxy.

        The credentials are not in it but in ``credential``.
        """
        return self._configuration

    @property
    def impersonates(self) -> bool:
        """Whether requests impersonate another identity."""
        return bool(self._impersonation)

    @property
    def server(self) -> str:
        """The API server's URL, without a slash at its end."""
        return str(self._configuration.host)

    @property
    def tls(self) -> ssl.SSLContext:
        """The last known TLS context. After the certificate was renewed, it is another object."""
        return self._credential.tls

    @property
    def proxy(self) -> str | None:
        """The proxy of the kubeconfig or the environment, or None if there is none or this server is exempt from it."""
        proxy, exempt = self._configuration.proxy, self._configuration.no_proxy or ""
        return None if not proxy or should_bypass_proxies(self.server, exempt) else str(proxy)

    def credential(self) -> Credential:
        """The current credential. Once a minute a call may block while it reads a file or runs a plug-in. Raises
        NoAccess.
        """
        with self._lock:
            if self._clock() >= self._due:
                tls = self._credential.tls
                if self._refused or self._rereads:
                    self._configuration, fresh = self._load()
                    # Connections belong to a context: a new context is used only if the old certificate may have been
                    # refused.
                    tls = fresh if self._refused else tls
                self._credential = Credential(self._header(), tls)
                self._refused, self._due = False, self._clock() + MAX_AGE
            return self._credential

    async def credential_async(self) -> Credential:
        """The current credential, read without blocking the event loop. Raises NoAccess."""
        if self._clock() < self._due:
            return self._credential
        return await asyncio.get_running_loop().run_in_executor(self._renewer, self.credential)

    def refused(self, credential: Credential) -> None:
        """Report that the API server answered 401 to this credential.

        The next call reads everything again, unless a newer credential exists already.
        """
        if credential is self._credential:
            self._refused, self._due = True, float("-inf")

    def session(self, *, connections: int = 64, traces: Sequence[aiohttp.TraceConfig] = ()) -> aiohttp.ClientSession:
        """A session whose every request carries the current token, or raises NotSent. The caller closes the session."""

        async def authorize(
            request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:
            try:
                credential = await self.credential_async()
            except NoAccess as error:
                raise NotSent(str(error)) from error
            if credential.header is not None:
                request.headers["Authorization"] = credential.header
            request.server_hostname = self._configuration.tls_server_name
            try:
                response = await handler(request)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
                if request.method == "GET":
                    raise
                # Another class, because aiohttp repeats a PUT or DELETE after these two errors.
                raise aiohttp.ClientConnectionError(f"{type(error).__name__} {error}") from error
            if response.status == 401:
                self.refused(credential)
                with contextlib.suppress(NoAccess):  # the next request raises NoAccess
                    await self.credential_async()  # ``tls`` is renewed before the request is repeated
            return response

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, ssl=self.tls),
            middlewares=(authorize,),
            trace_configs=list(traces),
            proxy=self.proxy,
            headers=[("User-Agent", "charterer"), *self._impersonation],
        )

    def _load(self) -> tuple[Configuration, ssl.SSLContext]:
        with _explained(self._source), tempfile.TemporaryDirectory(prefix="charterer-") as keys:
            configuration = Configuration(retries=False)  # by default a PUT is repeated three times
            self._fill(configuration, keys)
            return configuration, _tls(configuration)

    def _header(self) -> str | None:
        with _explained(self._source):
            header = self._configuration.get_api_key_with_prefix("BearerToken")  # refreshes the token if necessary
        if header is None:
            return None
        words = str(header).split()  # a token file may end with a line break, or be empty
        if len(words) < 2:
            raise NoAccess(f"{self._source}: the token is empty")
        return " ".join(words)


def load(
    kubeconfig: Path | None = None, context: str | None = None, acting_as: Impersonation = Impersonation()
) -> Access:
    """The access of a process: by ``kubeconfig`` if given, otherwise by the pod's service account, otherwise by the
    default kubeconfig.

    Runs the credential plug-in if there is one. Raises NoAccess.
    """
    if kubeconfig is not None:
        return from_kubeconfig([kubeconfig], context, acting_as=acting_as)
    if context is None and (SERVICE_ACCOUNT / "token").exists() and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return from_service_account(os.environ, SERVICE_ACCOUNT, acting_as=acting_as)
    from_environment = os.environ.get("KUBECONFIG", "")
    paths = [Path(part) for part in from_environment.split(os.pathsep) if part] or [Path.home() / ".kube" / "config"]
    existing = [path for path in paths if path.exists()]
    if not existing:
        raise NoAccess(
            f"no kubeconfig at {', '.join(map(str, paths))} and no service account at {SERVICE_ACCOUNT}: "
            "pass --kubeconfig, set KUBECONFIG, or run in a pod with a mounted service account token"
        )
    return from_kubeconfig(existing, context, acting_as=acting_as)


def from_service_account(
    environment: Mapping[str, str],
    directory: Path,
    *,
    clock: Callable[[], float] = time.monotonic,
    acting_as: Impersonation = Impersonation(),
) -> Access:
    """The access of a pod. The environment has the server's address, and the directory has token, CA and namespace."""

    def fill(configuration: Configuration, _: str) -> None:
        token, authority = str(directory / "token"), str(directory / "ca.crt")
        InClusterConfigLoader(token, authority, environ=environment).load_and_set(configuration)

    namespace = directory / "namespace"
    return Access(
        f"service account {directory}",
        fill,
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        rereads=True,
        clock=clock,
        acting_as=acting_as,
    )


def from_kubeconfig(
    paths: list[Path],
    context: str | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    acting_as: Impersonation = Impersonation(),
) -> Access:
    """The access of one context of kubeconfig files.

    If two files have an entry of the same name, the entry of the first file is used. ``context`` None means the current
    context. ``acting_as`` replaces the user that the kubeconfig impersonates.
    """
    source = "kubeconfig " + ", ".join(map(str, paths))
    files = os.pathsep.join(map(str, paths))
    with _explained(source):
        _check(paths)
        merged = _merged(files)
        # The library uses the current context of the last file, but kubectl uses that of the first file.
        currents = (_merged(path).get("current-context") for path in files.split(os.pathsep) if Path(path).exists())
        chosen = context or next(filter(None, currents), None)
        if not chosen:
            raise NoAccess(f"{source}: no current-context is set; choose one with --context")
        entry = _find(merged, "contexts", chosen, source)
        if not _find(merged, "clusters", entry.get("cluster"), source).get("server"):
            raise NoAccess(f"{source}: cluster {entry.get('cluster')!r} has no field server")
        user = _find(merged, "users", entry["user"], source) if entry.get("user") else {}
    provider = (user.get("auth-provider") or {}).get("name", "oidc")
    if provider != "oidc":
        raise NoAccess(f"{source}: auth-provider {provider!r} is obsolete; use a credential plug-in (users[].exec)")
    asked = ", ".join(key for key in ("auth-provider", "tokenFile", "exec") if user.get(key))

    def fill(configuration: Configuration, keys: str) -> None:
        _check(paths)
        load_kube_config(files, chosen, configuration, temp_file_path=keys)
        # If a plug-in fails or a file is empty, the loader at most logs that, and continues without an identity.
        if asked and not configuration.api_key and not configuration.cert_file:
            raise NoAccess(
                f"{source}: {asked} of user {entry['user']!r} gave no credential "
                "(what a plug-in said is in the log); run it by hand or log in again"
            )

    rereads = bool(user.get("tokenFile"))  # the loader reads the token file once
    namespace = entry.get("namespace") or "default"
    chosen_identity = acting_as if acting_as != Impersonation() else _impersonation(user)
    return Access(source, fill, namespace=namespace, rereads=rereads, clock=clock, acting_as=chosen_identity)


def _impersonation(user: Mapping[str, Any]) -> Impersonation:
    """The impersonation fields of a user entry of a kubeconfig."""
    return Impersonation(
        user.get("as") or "",
        tuple(user.get("as-groups") or ()),
        user.get("as-uid") or "",
        user.get("as-user-extra") or {},
    )


def _check(paths: Iterable[Path]) -> None:
    """Refuse files whose YAML aliases are recursive or too many, because the library's loader would not end on them."""
    for path in paths:
        if path.exists():
            bounded_yaml.read(path)


def _merged(files: str) -> Mapping[str, Any]:
    config = KubeConfigMerger(files).config
    if config is None:
        raise FileNotFoundError("no such file")
    value: Mapping[str, Any] = config.value
    return value


def _find(merged: Mapping[str, Any], section: str, name: str | None, source: str) -> Mapping[str, Any]:
    entries = {entry["name"]: entry.value for entry in merged[section]}
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise NoAccess(f"{source}: {section} has no entry {name!r} (there are: {known})")
    body: Mapping[str, Any] = entries[name].get(section.removesuffix("s")) or {}
    return body


def _tls(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # Many cluster CAs lack the extensions that Python 3.13 requires by default.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


@contextlib.contextmanager
def _explained(source: str) -> Iterator[None]:
    try:
        yield
    except NoAccess:
        raise
    except Exception as error:  # the loaders raise almost any exception for a malformed file
        raise NoAccess(f"{source} cannot be read: {_in_a_line(error)}") from error


def _in_a_line(error: Exception) -> str:
    """The fault of the file in one line, without internal words of the loaders."""
    match error:
        case yaml.MarkedYAMLError() if error.problem_mark is not None:
            mark = error.problem_mark
            return f"it is no YAML: line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
        case yaml.YAMLError() | UnicodeDecodeError():
            return "it is no YAML"
        case binascii.Error():
            return "a field that ends in -data is not base64"
        case AttributeError() | IndexError() | KeyError() | TypeError():
            return "it does not have the shape of a kubeconfig: compare it with `kubectl config view`"
        case _:
            return " ".join(str(error).split())
