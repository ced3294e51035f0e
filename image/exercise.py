"""Uses every library that the operator uses, to show that an installation from which much was deleted is whole.

``python exercise.py``, with the interpreter of that installation, as any user, without a cluster or a network. What
fails is raised. Afterwards it prints the files of all modules that were loaded, which are those to compile.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import os
import pkgutil
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo


def import_everything() -> None:
    """Every module of the package."""
    import charterer

    for module in pkgutil.walk_packages(charterer.__path__, "charterer."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)


@contextmanager
def failing(kind: type[Exception], words: str) -> Iterator[None]:
    """What must raise that, with these words."""
    try:
        yield
    except kind as error:
        if words not in str(error):
            raise
    else:
        raise AssertionError(f"there was no {kind.__name__}")


@contextmanager
def refusing_server(answer: str) -> Iterator[str]:
    """The URL of a server that answers every request with 403 and a body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(403)
            self.send_header("Content-Type", "application/json" if answer.startswith("{") else "text/xml")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        do_POST = do_PUT = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def call_aws() -> None:
    """Every client, with the description of every call; a request that is signed, sent and refused, with a role."""
    import boto3
    import botocore.exceptions

    from charterer.providers.aws.calls import Sdk
    from charterer.providers.aws.permissions import Call

    refusal = "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message/></Error></Errors></Response>"
    with refusing_server(refusal) as url:
        sdk = Sdk("us-east-1", endpoint=url)
        sdk._session = boto3.Session("id", "key")
        for call in Call:
            sdk.client(call.service).meta.service_model.operation_model(call.operation)
        for service in ("sts", "sso", "sso-oidc"):
            sdk.client(service)
        with failing(botocore.exceptions.ClientError, "UnauthorizedOperation"):
            sdk(Call.DESCRIBE_INSTANCES, {})
    assert not Sdk("eu-central-1").similar_region()
    assert "did you mean" in Sdk("eu-central-9").similar_region()


def call_gcp() -> None:
    """Every client with the method of every call; a request that is sent and refused, and missing credentials."""
    from google.auth.credentials import AnonymousCredentials

    from charterer.providers.gcp.calls import Sdk, SdkError
    from charterer.providers.gcp.permissions import Call

    refusal = {"error": {"code": 403, "message": "no", "errors": [{"reason": "forbidden", "message": "no"}]}}
    with refusing_server(json.dumps(refusal)) as url:
        sdk = Sdk(url, AnonymousCredentials())  # type: ignore[no-untyped-call]
        for call in Call:
            assert callable(getattr(sdk.client(call.service), call.python_name)), call
        with failing(SdkError, "forbidden"):
            sdk(Call.LIST_INSTANCES, {"project": "project-1", "zone": "us-central1-a"})
    for module in ("compute_engine", "impersonated_credentials", "identity_pool", "transport.requests"):
        importlib.import_module(f"google.auth.{module}")
    importlib.import_module("google.oauth2.service_account")


def call_azure() -> None:
    """Every client with the method of every call; a request to where nobody listens; the sources of credentials."""
    from azure.core.exceptions import AzureError

    from charterer.providers.azure.calls import Address, Sdk, _credential
    from charterer.providers.azure.permissions import Call

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        token = SimpleNamespace(get_token=lambda *_, **__: SimpleNamespace(token="t", expires_on=2**33))
        sdk = Sdk("s", "t", "c", Address(arm=f"https://127.0.0.1:{silent.getsockname()[1]}"), token)
        for call in Call:
            client = sdk._client(call.client)
            assert not call.group or callable(getattr(getattr(client, call.group), call.method)), call
        with failing(AzureError, "refused"):
            sdk(Call.LIST_SETS, {"resource_group_name": "group"})
    _credential("tenant", "client").close()


def keep_costs() -> None:
    """A record of costs in a folder, and a request to a bucket that is signed, sent and refused."""
    from charterer.cost_record import CostRecord, RecordUnavailable

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(CostRecord(folder).write([]))
        assert list(CostRecord(folder).read(["2026-11"])) == []
    refusal = "<Error><Code>AccessDenied</Code><Message>nobody may</Message></Error>"
    with refusing_server(refusal) as url:
        os.environ |= {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_ENDPOINT_URL": url}
        with failing(RecordUnavailable, "nobody may"):
            list(CostRecord("s3://bucket").read(["2026-11"]))


def think() -> None:
    """A linear program by HiGHS, the rate of lost nodes, and a simulation in which the planner learns."""
    import numpy as np
    from click.testing import CliRunner

    from charterer.cli.main import main
    from charterer.domain.pool import CapacityType, NodeLifetimes
    from charterer.domain.time import Instant
    from charterer.estimate.hazard import hazard
    from charterer.policy.solve.linear_program import Columns, minimise

    columns = Columns(np.array([1.0, 3.0]), np.array([0, 0]), np.array([0, 1]))
    program = minimise(columns, [((0, 2.0),), ((0, 1.0),)], [1.5], columns.kinds)
    assert program is not None
    assert [round(fraction, 6) for fraction in program.fractions] == [0.5, 0.5], program
    assert hazard(NodeLifetimes(), [3.0], Instant(10**15), CapacityType.SPOT).high > 0.0
    with tempfile.TemporaryDirectory() as folder:
        workload, speeds = Path(folder) / "jobs.csv", Path(folder) / "speeds.csv"
        rows = "".join(f"job-{i},{60 * i},net,{2 ** (i % 3)}\n" for i in range(6))
        workload.write_text(f"name,time,application,num_replicas\n{rows}")
        times = "".join(f"net,{gpus},{3600 / gpus**0.9}\n" for gpus in (1, 2, 4, 8, 16))
        speeds.write_text(f"application,gpus,seconds\n{times}")
        told = ["--policy", "charterer", "--pays", "10", "--learn", "--processes", "1", "-o", "json"]
        result = CliRunner().invoke(main, ["simulate", str(workload), "--speeds", str(speeds), *told])
        if result.exit_code:
            raise AssertionError(result.output) from result.exception
        assert json.loads(result.stdout)
    assert {"highspy._core", "scipy.optimize._minpack"} <= sys.modules.keys()


def command_line() -> None:
    """The help of every command, the CustomResourceDefinitions, and the files of the live page."""
    import click
    from click.testing import CliRunner

    from charterer.cli.main import main
    from charterer.tools.commands.dashboard.command import PageServer
    from charterer.tools.commands.dashboard.documents import Board

    for name in main.list_commands(click.Context(main)):
        assert CliRunner().invoke(main, [name, "--help"], catch_exceptions=False).exit_code == 0, name
    assert CliRunner().invoke(main, ["crds"], catch_exceptions=False).exit_code == 0
    PageServer(Board())


def reach_the_cluster() -> None:
    """The pod's credentials, a call of the Lease's client that finds nobody, the watch's library, certificates."""
    import kopf  # noqa: F401

    from charterer.cluster.credentials import from_kubeconfig
    from charterer.cluster.errors import Unreachable
    from charterer.cluster.lease import BlockingClient
    from charterer.server.tls import ensure_tls

    async def nothing() -> None:
        return None

    async def kept(data: object, version: str | None) -> bool:
        return True

    material = asyncio.run(ensure_tls(nothing, kept, ("charterer",), datetime.now(UTC)))
    material.server_context()
    with tempfile.TemporaryDirectory() as folder, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        server = f"https://127.0.0.1:{silent.getsockname()[1]}"
        cluster: dict[str, Any] = {
            "server": server,
            "certificate-authority-data": base64.b64encode(material.ca_pem.encode()).decode(),
        }
        kubeconfig = Path(folder) / "config"
        kubeconfig.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        with failing(Unreachable, "refused"):
            BlockingClient(from_kubeconfig([kubeconfig]), 1.0).call("GET", "/version")


def ask_the_system() -> None:
    """The authorities of the web, time zones, and what the standard library is linked with."""
    assert ssl.create_default_context().cert_store_stats()["x509_ca"] > 50
    assert ZoneInfo("Europe/Berlin").utcoffset(datetime(2026, 7, 1, tzinfo=UTC)) is not None
    for module in ("sqlite3", "bz2", "lzma", "zlib", "ctypes", "uuid", "_hashlib", "hashlib"):
        importlib.import_module(module)


def loaded() -> list[str]:
    """The sources of the modules that are loaded."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return sorted(file for file in files if file and file.endswith(".py") and Path(file).is_absolute())


def main() -> None:
    """All of it."""
    clouds = (call_aws, call_gcp, call_azure, keep_costs)
    for step in (import_everything, *clouds, think, command_line, reach_the_cluster, ask_the_system):
        step()
    print("\n".join(loaded()))


if __name__ == "__main__":
    main()
