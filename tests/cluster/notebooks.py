"""A real Jupyter server with the kernel, a frontend that speaks Jupyter's protocol, and the operator's side by hand."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from charterer.cluster.paths import TRAINING_JOBS
from tests.cluster.crd_cases import ROOT
from tests.testbed import ports
from tests.testbed.controlplane import ControlPlane

SECONDS = 120.0
"""Until something counts as hanging, on a machine that is busy."""
EXAMPLES = ROOT / "examples/interactive"
SOURCE = ROOT / "trainer/src"
Content = Mapping[str, Any]


def write_keys(folder: Path) -> Path:
    """What examples/interactive/keys.sh makes of the Secret, without a cluster."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = (EXAMPLES / "keys.sh").read_text().split("openssl ")[1].split("\nkubectl")[0]
    command = "openssl " + recipe.replace("$folder", str(folder)).replace("$2", "notebook-gpu")
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    return folder


@dataclass
class Cell:
    """A cell that was sent: what came back so far."""

    outputs: list[tuple[str, Content]] = field(default_factory=list)
    reply: Content | None = None
    idle: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def text(self) -> str:
        """What it shows, as the notebook would have it: the last state of each display, then streams and results."""
        displays: dict[str, str] = {}
        parts = []
        for kind, content in self.outputs:
            if kind in ("display_data", "update_display_data") and "display_id" in content.get("transient", {}):
                displays[content["transient"]["display_id"]] = content["data"]["text/plain"]
            elif kind == "stream":
                parts.append(content["text"])
            elif kind in ("execute_result", "display_data"):
                parts.append(content["data"]["text/plain"])
            elif kind == "error":
                parts.append(f"{content['ename']}: {content['evalue']}")
        return "".join([*displays.values(), *parts])

    @property
    def shown(self) -> list[str]:
        """All states of its displays, in their order."""
        kinds = ("display_data", "update_display_data")
        return [content["data"]["text/plain"] for kind, content in self.outputs if kind in kinds]

    async def until(self, look: Callable[[Cell], bool]) -> Cell:
        """Wait for what has come back."""
        try:
            async with asyncio.timeout(SECONDS):
                while not look(self):
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise AssertionError(f"in vain: {self.outputs} {self.reply}") from None
        return self

    async def done(self) -> Cell:
        """Wait until it has run: replied to, and idle."""
        return await self.until(lambda cell: cell.reply is not None and cell.idle)


@dataclass
class Frontend:
    """One kernel of the server, over a websocket as a browser has it."""

    socket: aiohttp.ClientWebSocketResponse
    stop: Callable[[], Any]
    cells: dict[str, Cell] = field(default_factory=dict)

    async def listen(self) -> None:
        """Take in what the kernel says."""
        async for message in self.socket:
            said = json.loads(message.data)
            cell = self.cells.get((said.get("parent_header") or {}).get("msg_id", ""))
            if cell is None:
                continue
            kind, content = said["header"]["msg_type"], said["content"]
            if kind == "execute_reply":
                cell.reply = content
            elif kind == "status":
                cell.idle = content["execution_state"] == "idle"
            elif kind != "execute_input":
                assert not (cell.idle and cell.reply), f"{kind} after the end: {content}"
                cell.outputs.append((kind, content))
            cell.changed.set()

    async def send(self, source: str) -> Cell:
        """The user runs a cell."""
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "session": "test",
            "username": "",
            "version": "5.3",
        }
        content = {"code": source, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        cell = self.cells[header["msg_id"]] = Cell()
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        await self.socket.send_json({**message, "buffers": []})
        return cell

    async def run(self, source: str) -> Cell:
        """The user runs a cell and waits for it."""
        return await (await self.send(source)).done()


@dataclass
class Notebooks:
    """A Jupyter server, whose kernels have the rights of a service account in ``namespace``."""

    plane: ControlPlane
    python: Path
    namespace: str
    folder: Path
    keys: Path
    url: str
    token: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @asynccontextmanager
    async def kernel(self, job: str = "notebook-gpu") -> AsyncIterator[tuple[Frontend, int]]:
        """A new kernel that gets its GPU from the job, and the port at which it expects the worker."""
        port = ports.reserve()
        headers = {"Authorization": f"token {self.token}"}
        async with aiohttp.ClientSession(headers=headers) as http:
            async with http.post(f"{self.url}/api/kernels", json={"name": "charterer-gpu"}) as made:
                kernel = (await made.json())["id"]

            async def interrupt() -> None:
                async with http.post(f"{self.url}/api/kernels/{kernel}/interrupt") as answer:
                    assert answer.status == 204

            async with http.ws_connect(f"{self.url}/api/kernels/{kernel}/channels", max_msg_size=0) as websocket:
                front = Frontend(websocket, interrupt)
                listening = asyncio.create_task(front.listen())
                where = {"CHARTERER_JOB": job, "CHARTERER_WORKER": f"127.0.0.1:{port}"}
                await front.run(f"import os; os.environ.update({where})")
                yield front, port
                listening.cancel()
            async with http.delete(f"{self.url}/api/kernels/{kernel}"):
                pass

    async def answers(self, ended: Callable[[], tuple[int | None, str]]) -> None:
        """Until the server answers; ``ended`` has its exit code, and what it wrote."""
        deadline = time.monotonic() + SECONDS
        async with aiohttp.ClientSession() as http:
            while ended()[0] is None and time.monotonic() < deadline:
                try:
                    async with http.get(f"{self.url}/api?token={self.token}") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.05)
        raise AssertionError(ended()[1])

    def job(self, name: str = "notebook-gpu") -> dict[str, Any]:
        """The TrainingJob as it is."""
        return self.plane.call("GET", TRAINING_JOBS.one(name, self.namespace))

    def say(self, status: Mapping[str, object]) -> None:
        """The operator writes this into the job's status."""
        path = TRAINING_JOBS.one("notebook-gpu", self.namespace) + "/status"
        self.plane.call("PATCH", path, {"status": status})

    async def asked(self, number: int) -> None:
        """Until the kernel has asked so often."""
        deadline = time.monotonic() + SECONDS
        while (await asyncio.to_thread(self.job))["spec"]["interactive"].get("asks", 0) < number:
            assert time.monotonic() < deadline, self.job()

    def give(self, run: int, port: int, **environ: str) -> subprocess.Popen[bytes]:
        """The operator gives the job a GPU: the pod of its run starts."""
        worker = self.start_worker(port, **environ)
        option = {"pool": "a100", "gpus": 1, "speed": 1, "hourly": "4.10"}
        placements = [{"rental": "a100-1", "gpus": 1}]
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.say({"allocation": {"run": run, "option": option, "placements": placements, "since": since}})
        return worker

    def start_worker(self, port: int, **environ: str) -> subprocess.Popen[bytes]:
        """The process of the GPU's pod."""
        command = [
            str(self.python),
            "-m",
            "charterer_trainer.jupyter.worker",
            "--port",
            str(port),
            "--keys",
            str(self.keys),
        ]
        worker = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": str(SOURCE), "JAX_PLATFORMS": "cpu", **environ}
        )
        self.workers.append(worker)
        return worker

    async def take_back(self, worker: subprocess.Popen[bytes], answered: int) -> int:
        """The operator takes the GPU; the exit code of its process."""
        self.say({"allocation": None, "interactive": {"answered": answered}})
        worker.terminate()
        return await asyncio.to_thread(worker.wait, SECONDS)


def _service_account(plane: ControlPlane, namespace: str, folder: Path, spec: Mapping[str, Any]) -> Path:
    """What Kubernetes mounts into the notebook's pod; the account has what the example gives it, and nothing else.

    ``spec``: what the job of the example says otherwise.
    """
    manifests = "".join((EXAMPLES / name).read_text() + "\n---\n" for name in ("notebook.yaml", "job.yaml"))
    objects = [each for each in yaml.safe_load_all(manifests) if each and each["kind"] not in ("Pod", "NetworkPolicy")]
    for each in objects:
        each["metadata"]["namespace"] = namespace
        for subject in each.get("subjects", ()):
            subject["namespace"] = namespace
        if each["kind"] == "TrainingJob":
            each["spec"].update(spec)
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
    account = folder / "account"
    account.mkdir()
    wanted = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"expirationSeconds": 3600}}
    token = plane.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/notebook/token", wanted)
    (account / "token").write_text(token["status"]["token"])
    (account / "namespace").write_text(namespace)
    (account / "ca.crt").write_bytes(plane.ca_file.read_bytes())
    return account


def _start(
    plane: ControlPlane, python: Path, folder: Path, namespace: str, spec: Mapping[str, Any]
) -> tuple[Notebooks, subprocess.Popen[bytes]]:
    secret, port = uuid.uuid4().hex, ports.reserve()
    host, _, api_port = plane.url.removeprefix("https://").rpartition(":")
    environ = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "JAX_PLATFORMS": "cpu",
        "HOME": str(folder),
        "IPYTHONDIR": str(folder),
        "JUPYTER_PATH": str(folder / "share/jupyter"),
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": api_port,
        "CHARTERER_SERVICE_ACCOUNT": str(_service_account(plane, namespace, folder, spec)),
        "CHARTERER_GPU_KEYS": str(write_keys(folder / "keys")),
    }
    install = [str(python), "-m", "charterer_trainer.jupyter", "install", "--prefix", str(folder)]
    subprocess.run(install, env=environ, check=True, capture_output=True)
    command = [str(python), "-m", "jupyter_server", "--no-browser", "--allow-root", f"--port={port}"]
    options = [f"--IdentityProvider.token={secret}", f"--ServerApp.root_dir={folder}"]
    with (folder / "jupyter.log").open("w") as log:
        server = subprocess.Popen([*command, *options], env=environ, stdout=log, stderr=log)
    return Notebooks(plane, python, namespace, folder, folder / "keys", f"http://127.0.0.1:{port}", secret), server


@asynccontextmanager
async def notebooks(
    plane: ControlPlane, python: Path, folder: Path, namespace: str, **spec: Any
) -> AsyncIterator[Notebooks]:
    """A server of its own, with the rights that the example's Role gives in that namespace, and the example's job.

    ``spec``: what that job says otherwise.
    """
    made, server = await asyncio.to_thread(_start, plane, python, folder, namespace, spec)
    try:
        await made.answers(lambda: (server.poll(), (folder / "jupyter.log").read_text()))
        yield made
    finally:
        for process in [*made.workers, server]:
            process.kill()
            process.wait()
