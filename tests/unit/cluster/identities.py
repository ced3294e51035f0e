"""Kubeconfigs, credential plug-ins and certificates to try access with."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

API_VERSION = "client.authentication.k8s.io/v1"


class Clock:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def kubeconfig(path: Path, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> Path:
    """A kubeconfig whose context ``here`` is the current one."""
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def plug_in(folder: Path, script: str, **more: Any) -> dict[str, Any]:
    """A user whose plug-in is a Python script."""
    (folder / "plug-in.py").write_text(script)
    return {
        "exec": {"command": sys.executable, "args": [str(folder / "plug-in.py")], "apiVersion": API_VERSION, **more}
    }


def printing(folder: Path, *statuses: dict[str, Any]) -> dict[str, Any]:
    """A user whose plug-in gives these statuses, one a run and the last for ever; ``runs(folder)`` counts."""
    answers = [{"apiVersion": API_VERSION, "kind": "ExecCredential", "status": status} for status in statuses]
    return plug_in(
        folder,
        "import json, os, pathlib\n"
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'\n"
        f"counted = pathlib.Path({str(folder / 'runs')!r})\n"
        "n = len(counted.read_text()) if counted.exists() else 0\n"
        "counted.write_text('x' * (n + 1))\n"
        f"answers = {json.dumps(answers)}\n"
        "print(json.dumps(answers[min(n, len(answers) - 1)]))\n",
    )


def runs(folder: Path) -> int:
    """How often the plug-in of ``printing`` ran."""
    return len((folder / "runs").read_text())


def certificate(name: str) -> tuple[str, str]:
    """A certificate signed by itself, for ``name`` and for loopback, and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM).decode(), private.decode()
