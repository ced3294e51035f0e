"""A certificate of the progress endpoint that others make and renew, such as cert-manager, is read from files."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from charterer.app import certificate
from charterer.app.certificate import keep_renewed, progress_certificate
from charterer.app.settings import Settings
from charterer.server.tls import TlsMaterial, UnusableSecret, mounted_tls
from tests.unit.server.test_tls import handshake

HOST = "charterer-progress.charterer-system.svc"
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def signed(subject: str, own: Key, issuer: str, by: Key, *, names: tuple[str, ...] = (), ca: bool = False) -> bytes:
    """A certificate in PEM."""
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=90))
        .public_key(own.public_key())
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if names:
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
    return made.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def pem(private: Key) -> bytes:
    """As cert-manager writes it by default."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


class Issuer:
    """An authority, with one below it where ``intermediate``; it issues into a folder as cert-manager into a Secret."""

    def __init__(self, folder: Path, *, intermediate: bool = False) -> None:
        self.folder = folder
        self.server: Key = key()
        root = key()
        self._root = signed("root", root, "root", root, ca=True)
        self._by, self._name, self._between = root, "root", b""
        if intermediate:
            self._by, self._name = key(), "between"
            self._between = signed("between", self._by, "root", root, ca=True)

    def issue(self, *names: str) -> None:
        leaf = signed("progress", self.server, self._name, self._by, names=names or (HOST,))
        self.write(leaf + self._between, pem(self.server), self._root)

    def write(self, chain: bytes, private: bytes, authority: bytes) -> None:
        for file, content in (("tls.crt", chain), ("tls.key", private), ("ca.crt", authority)):
            (self.folder / file).write_bytes(content)


@pytest.mark.parametrize("intermediate", [False, True], ids=["of the authority", "of one below it"])
async def test_a_pod_that_is_given_the_authority_accepts_what_is_served(tmp_path: Path, intermediate: bool) -> None:
    Issuer(tmp_path, intermediate=intermediate).issue()
    material = mounted_tls(tmp_path, HOST)
    await handshake(material.server_context(), material.ca_pem, HOST)


def test_keys_of_runs_stay_when_the_certificate_is_renewed_and_differ_between_authorities(tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)
    issuer.issue()
    first = mounted_tls(tmp_path, HOST)
    issuer.issue()
    second = mounted_tls(tmp_path, HOST)
    assert second.chain_pem != first.chain_pem
    assert second.run_secret == first.run_secret
    assert second.vouched_by(first.ca_pem)
    issuer.server = key()
    issuer.issue()
    assert mounted_tls(tmp_path, HOST).run_secret != first.run_secret


def _without(file: str) -> Any:
    return lambda issuer: (issuer.folder / file).unlink()


def _empty_authority(issuer: Issuer) -> None:
    (issuer.folder / "ca.crt").write_bytes(b"")


def _another_key(issuer: Issuer) -> None:
    (issuer.folder / "tls.key").write_bytes(pem(key()))


def _no_certificate(issuer: Issuer) -> None:
    (issuer.folder / "tls.crt").write_bytes(b"none")


def _another_authority(issuer: Issuer) -> None:
    other = key()
    (issuer.folder / "ca.crt").write_bytes(signed("other", other, "other", other, ca=True))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_without("tls.crt"), "tls.crt cannot be read: No such file or directory; mount a Secret that has it"),
        (_without("ca.crt"), "ca.crt cannot be read"),
        (
            _empty_authority,
            "ca.crt is empty, and pods need the authority: use an issuer that tells its own",
        ),
        (_another_key, "tls.key does not belong to "),
        (_no_certificate, "tls.crt has no certificate in PEM"),
        (_another_authority, "which pods are given: use an issuer that puts its whole chain into tls.crt"),
        (lambda issuer: issuer.issue("elsewhere.svc"), f"tls.crt is not for {HOST}, where pods report: add that to"),
    ],
)
def test_what_pods_could_not_trust_is_refused_with_what_to_do(tmp_path: Path, spoil: Any, said: str) -> None:
    issuer = Issuer(tmp_path)
    issuer.issue()
    spoil(issuer)
    with pytest.raises(UnusableSecret) as refused:
        mounted_tls(tmp_path, HOST)
    assert str(tmp_path) in str(refused.value)
    assert said in str(refused.value)


async def test_an_operator_reads_the_files_and_asks_the_api_server_for_no_secret(tmp_path: Path) -> None:
    Issuer(tmp_path).issue()
    settings = Settings("charterer-0", "charterer-system", progress_certificate=tmp_path)
    assert await progress_certificate(cast(Any, None), settings) == mounted_tls(tmp_path, HOST)


async def test_a_running_operator_serves_what_is_renewed_and_keeps_the_former_one_of_an_authority_that_pods_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate, "_RENEWAL_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(certificate, "_RETRY_SECONDS", 0.0)
    served: list[str] = []
    looked, complained = asyncio.Event(), asyncio.Event()
    said: list[str] = []

    def reload(material: TlsMaterial, context: object) -> None:
        served.append(material.chain_pem)
        looked.set()

    def complain(text: str, where: object) -> None:
        said.append(text % where)
        complained.set()

    monkeypatch.setattr(TlsMaterial, "reload", reload)
    monkeypatch.setattr(certificate._log, "error", complain)
    issuer = Issuer(tmp_path)
    issuer.issue()
    first = mounted_tls(tmp_path, HOST)
    issuer.issue()
    renewed = mounted_tls(tmp_path, HOST)
    settings = Settings("charterer-0", "charterer-system", progress_certificate=tmp_path)
    client: Any = None
    context: Any = None
    task = asyncio.create_task(keep_renewed(client, settings, context, first.ca_pem))
    await looked.wait()
    Issuer(tmp_path).issue()
    await complained.wait()
    task.cancel()
    assert set(served) == {renewed.chain_pem}
    assert f"{tmp_path} holds a certificate of another authority" in said[0]
