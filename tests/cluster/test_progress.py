"""The progress endpoint against a real API server: its TokenReview, its Secret, a trainer with a real token."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from charterer.api.names import token_audience
from charterer.cluster import credentials
from charterer.cluster.client import Client
from charterer.cluster.errors import AlreadyExists, Conflict, NotFound
from charterer.cluster.paths import SECRETS, TOKEN_REVIEWS
from charterer.domain.ids import JobId
from charterer.domain.time import Instant, instant
from charterer.server.http import HeldAnswers, progress_app, serve
from charterer.server.listener import Refused
from charterer.server.progress import CurrentRun, ProgressBoard, ProgressReport
from charterer.server.tls import StoredSecret, TlsMaterial, ensure_tls
from charterer.server.tokens import Authenticator
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.controlplane import ControlPlane
from tests.unit.trainer.support import end, start

pytestmark = pytest.mark.xdist_group("progress")

NAMESPACE = "progress"
JOB = JobId("1f6b5f3e-6d3c-4a0e-9d6e-000000000001")
SCRIPT = """
import charterer_trainer
with charterer_trainer.run() as run:
    run.report(step=30, total_steps=120, throughput=812.5)
    print(run.allocation())
"""


@dataclass
class TrainingPod:
    """A pod with a token as Charterer projects them, and the directory that knows it."""

    plane: ControlPlane
    uid: str
    token: str

    def find(self, job: JobId) -> CurrentRun | None:
        allocation = {"run": 1, "gpus": 4, "pods": 1, "gpusPerPod": 4}
        return CurrentRun(1, frozenset({self.uid}), allocation, stopping=False) if job == JOB else None


class Silent:
    """Has no opinion on batch sizes."""

    def handle_report(self, job_id: JobId, run: int, report: ProgressReport, at: Instant) -> None:
        return None


def make_pod(plane: ControlPlane, name: str, audience: str) -> TrainingPod:
    spec = {"containers": [{"name": "trainer", "image": "none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
    made = json.loads(plane.kubectl("create", "-f", "-", "-o", "json", input=json.dumps(pod)))
    uid = made["metadata"]["uid"]
    bound = ("--bound-object-kind", "Pod", "--bound-object-name", name, "--bound-object-uid", uid)
    token = plane.kubectl("create", "token", "default", "-n", NAMESPACE, "--audience", audience, *bound).strip()
    return TrainingPod(plane, uid, token)


@pytest.fixture(scope="module")
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    control_plane.kubectl("create", "namespace", NAMESPACE)
    wait = ("wait", "--for=create", "serviceaccount/default", "--timeout=20s")
    control_plane.kubectl(*wait, "-n", NAMESPACE)
    async with Client(credentials.load(control_plane.kubeconfig)) as client:
        yield client
    control_plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def authenticator(client: Client, pod: TrainingPod, *, cache_seconds: float = 300.0) -> Authenticator:
    async def review(body: Mapping[str, object]) -> Mapping[str, object]:
        return await client.post(TOKEN_REVIEWS.all(), dict(body))

    return Authenticator(review, pod, cache_seconds=cache_seconds)


async def tls_from_secret(client: Client, name: str) -> TlsMaterial:
    async def load() -> StoredSecret | None:
        try:
            secret = await client.get(SECRETS.one(name, NAMESPACE))
        except NotFound:
            return None
        data = {key: base64.b64decode(value) for key, value in secret["data"].items()}
        return StoredSecret(data, secret["metadata"]["resourceVersion"])

    async def save(data: Mapping[str, bytes], resource_version: str | None) -> bool:
        metadata = {"name": name, "namespace": NAMESPACE}
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}
        try:
            if resource_version is None:
                await client.post(SECRETS.all(NAMESPACE), body)
            else:
                metadata["resourceVersion"] = resource_version
                await client.put(SECRETS.one(name, NAMESPACE), body)
        except (AlreadyExists, Conflict):
            return False
        return True

    return await ensure_tls(load, save, ["localhost"], datetime.now(UTC))


async def refusal(guard: Authenticator, token: str) -> Refused:
    with pytest.raises(Refused) as refused:
        await guard.authenticate(f"Bearer {token}", "10.0.0.1")
    return refused.value


async def test_kubernetes_vouches_for_the_token_of_a_training_pod(control_plane: ControlPlane, client: Client) -> None:
    pod = make_pod(control_plane, "vouched", token_audience(JOB))
    caller = await authenticator(client, pod).authenticate(f"Bearer {pod.token}", "10.0.0.1")
    assert (caller.job, caller.pod, caller.pod_uid) == (JOB, "vouched", pod.uid)


async def test_a_forged_signature_is_refused(control_plane: ControlPlane, client: Client) -> None:
    pod = make_pod(control_plane, "forged", token_audience(JOB))
    head, claims, signature = pod.token.split(".")
    forged = f"{head}.{claims}.{signature[:-8]}AAAAAAAA"
    assert (await refusal(authenticator(client, pod), forged)).status == 401


async def test_a_token_that_is_bound_to_no_pod_is_refused(control_plane: ControlPlane, client: Client) -> None:
    pod = make_pod(control_plane, "unbound", token_audience(JOB))
    words = ("create", "token", "default", "-n", NAMESPACE, "--audience", token_audience(JOB))
    unbound = control_plane.kubectl(*words).strip()
    assert (await refusal(authenticator(client, pod), unbound)).code == "NotAPod"


async def test_a_token_for_the_api_server_itself_is_refused(control_plane: ControlPlane, client: Client) -> None:
    pod = make_pod(control_plane, "ordinary", "https://kubernetes.default.svc")
    assert (await refusal(authenticator(client, pod), pod.token)).status == 401


async def test_the_token_dies_with_its_pod_even_while_the_directory_still_knows_it(
    control_plane: ControlPlane, client: Client
) -> None:
    pod = make_pod(control_plane, "deleted", token_audience(JOB))
    guard = authenticator(client, pod, cache_seconds=0.0)
    await guard.authenticate(f"Bearer {pod.token}", "10.0.0.1")
    control_plane.kubectl("delete", "pod", "deleted", "-n", NAMESPACE, "--grace-period=0", "--force")
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while True:  # the API server itself may remember a token for ten seconds
            try:
                await guard.authenticate(f"Bearer {pod.token}", "10.0.0.1")
            except Refused as refused:
                told = refused
                break
            await asyncio.sleep(0.2)
    assert told.status == 401


async def test_replicas_share_one_certificate_through_a_secret(client: Client) -> None:
    first, second = await asyncio.gather(tls_from_secret(client, "shared"), tls_from_secret(client, "shared"))
    assert first == second == await tls_from_secret(client, "shared")


async def test_a_trainer_with_its_projected_token_reports_and_hears_its_allocation(
    control_plane: ControlPlane, client: Client, tmp_path: Path
) -> None:
    pod = make_pod(control_plane, "trainer", token_audience(JOB))
    tls = await tls_from_secret(client, "charterer-progress-tls")
    board = ProgressBoard()

    def now() -> Instant:
        return instant(datetime.now(UTC))

    app = progress_app(authenticator(client, pod), pod, board, now, Silent(), HeldAnswers(lambda _: None))
    site = await serve(app, "localhost", 0, tls.server_context())
    try:
        (tmp_path / "token").write_text(pod.token)
        environ = {
            "CHARTERER_PROGRESS_URL": f"https://localhost:{site.port}",
            "CHARTERER_CA": tls.ca_pem,
            "CHARTERER_TOKEN_FILE": str(tmp_path / "token"),
            "CHARTERER_RUN": "1",
        }
        process = await start(SCRIPT, environ)
        assert process.stdout is not None
        printed = (await process.stdout.readline()).decode().strip()
        assert await end(process) == (0, "")
    finally:
        await site.close()
    assert printed == "Allocation(run=1, gpus=4, pods=1, gpus_per_pod=4)"
    latest = board.latest(JOB)
    assert latest is not None
    assert (latest.fraction, latest.step, latest.throughput) == (0.25, 30, 812.5)
