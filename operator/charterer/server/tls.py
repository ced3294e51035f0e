"""The progress endpoint's certificate, and its own certificate authority (CA) in one Secret that all replicas share.

Pods get the CA's certificate at their start and may run for weeks. So a renewed server certificate is signed by the
same CA, whose key is stored in the Secret too. If the CA itself is renewed, it keeps its name and key, so that pods
with the former CA certificate accept new server certificates.

A certificate that others make and renew, such as cert-manager, is read from the files of a mounted Secret instead.
"""

from __future__ import annotations

import hmac
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_LIFE = timedelta(days=3650)
_SERVER_LIFE = timedelta(days=730)
_RENEW_BEFORE = timedelta(days=30)
_CLOCK_SKEW = timedelta(hours=1)
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """The decoded data of a Secret, and its resourceVersion."""

    data: Mapping[str, bytes]
    resource_version: str


LoadSecret = Callable[[], Awaitable[StoredSecret | None]]
SaveSecret = Callable[[Mapping[str, bytes], str | None], Awaitable[bool]]
"""Creates the Secret (resourceVersion None) or replaces that version. Returns False if another replica wrote first."""


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """The CA's certificate for the pods, and the server's own chain and key. All are PEM.

    The keys of runs are derived from ``run_secret``. The pods of a run recognise each other by the key of the run.
    ``run_secret`` itself is derived from a key that stays the same when certificates are renewed: the CA's key, or the
    server's own key if the certificate is read from files.
    """

    ca_pem: str
    chain_pem: str
    key_pem: str
    renew_at: datetime
    run_secret: bytes

    def server_context(self) -> ssl.SSLContext:
        """A context for serving, with TLS 1.2 or later."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.reload(context)
        return context

    def reload(self, context: ssl.SSLContext) -> None:
        """Use this certificate for new connections on ``context``.

        Writes a temporary file, because ssl reads only files.
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "tls.pem")
            file.touch(mode=0o600)
            file.write_text(self.key_pem + self.chain_pem)
            context.load_cert_chain(file)

    def vouched_by(self, ca_pem: str) -> bool:
        """Whether pods that were started with this CA certificate accept the server certificate."""
        authorities = x509.load_pem_x509_certificates(ca_pem.encode())
        chain = x509.load_pem_x509_certificates(self.chain_pem.encode())
        for number, certificate in enumerate(chain):
            if any(_issued(certificate, authority) for authority in authorities):
                return True
            if not any(_issued(certificate, above) for above in chain[number + 1 : number + 2]):
                return False
        return False


class UnusableSecret(ValueError):
    """The Secret, or a file of a mounted Secret, does not have the expected content. The message has the remedy."""


def _issued(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Pair:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _cert_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _read_pair(data: Mapping[str, bytes], prefix: str) -> _Pair:
    try:
        key = serialization.load_pem_private_key(data[f"{prefix}.key"], password=None)
        certificate = x509.load_pem_x509_certificate(data[f"{prefix}.crt"])
    except (KeyError, ValueError, TypeError) as error:
        raise UnusableSecret(
            f"the Secret with the progress endpoint's certificate is unusable at {prefix}.crt or {prefix}.key "
            f"({type(error).__name__}); delete the Secret and restart the operator, which then writes a new one"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise UnusableSecret(
            f"{prefix}.key in the Secret with the progress endpoint's certificate does not belong to {prefix}.crt; "
            "delete the Secret and restart the operator, which then writes a new one"
        )
    return _Pair(key, certificate)


def _builder(subject: str, now: datetime, life: timedelta) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + life)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _new_authority(now: datetime, key: ec.EllipticCurvePrivateKey) -> _Pair:
    subject = "charterer progress authority"
    certificate = (
        _builder(subject, now, _AUTHORITY_LIFE)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _Pair(key, certificate)


def _new_server(authority: _Pair, names: Sequence[str], now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder("charterer progress", now, _SERVER_LIFE)
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return _Pair(key, certificate)


def _renew_at(authority: _Pair, server: _Pair) -> datetime:
    """The time at which the first of the two certificates must be replaced. A CA must outlive the server certificates
    that it signs.
    """
    return min(
        server.certificate.not_valid_after_utc - _RENEW_BEFORE,
        authority.certificate.not_valid_after_utc - _SERVER_LIFE,
    )


def _serves(certificate: x509.Certificate, names: Sequence[str]) -> bool:
    try:
        san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return {_general(name) for name in names} <= set(san)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _current(data: Mapping[str, bytes], names: Sequence[str], now: datetime) -> tuple[_Pair, _Pair, bool]:
    """The CA and server certificate to use from ``now`` on, and whether they differ from ``data``."""
    if not data:
        authority = _new_authority(now, ec.generate_private_key(ec.SECP256R1()))
        return authority, _new_server(authority, names, now), True
    authority, server = _read_pair(data, "ca"), _read_pair(data, "tls")
    if authority.certificate.not_valid_after_utc <= now + _SERVER_LIFE:
        authority = _new_authority(now, authority.key)
    elif now < _renew_at(authority, server) and _serves(server.certificate, names):
        return authority, server, False
    return authority, _new_server(authority, names, now), True


async def ensure_tls(load: LoadSecret, save: SaveSecret, names: Sequence[str], now: datetime) -> TlsMaterial:
    """The certificate for ``names`` (DNS names or IP addresses): the stored certificate, or a new one. A new one is
    stored before it is returned.

    A server certificate is valid for two years. It is replaced 30 days before its end, or if ``names`` has a new name.
    The CA is valid for ten years and is renewed under its own key two years before its end. If several replicas write
    at the same time, one succeeds and the others use its certificate. Raises UnusableSecret if the Secret does not have
    the expected content, and RuntimeError if other replicas keep changing the Secret.
    """
    if now.tzinfo is None:
        raise ValueError("ensure_tls needs an aware datetime")
    now = now.astimezone(UTC).replace(microsecond=0)
    for _ in range(_ATTEMPTS):
        stored = await load()
        authority, server, changed = _current(stored.data if stored is not None else {}, names, now)
        data = {
            "ca.crt": _cert_pem(authority.certificate),
            "ca.key": _key_pem(authority.key),
            "tls.crt": _cert_pem(server.certificate),
            "tls.key": _key_pem(server.key),
        }
        if not changed or await save(data, stored.resource_version if stored is not None else None):
            return TlsMaterial(
                ca_pem=data["ca.crt"].decode(),
                chain_pem=data["tls.crt"].decode(),
                key_pem=data["tls.key"].decode(),
                renew_at=_renew_at(authority, server),
                run_secret=_run_secret(data["ca.key"]),
            )
    raise RuntimeError(f"the progress endpoint's certificate could not be stored in {_ATTEMPTS} attempts")


# Certificates in files that others make and renew, such as those of a Secret of cert-manager.


def mounted_tls(folder: Path, name: str) -> TlsMaterial:
    """The certificate in ``tls.crt``, ``tls.key`` and ``ca.crt`` of a folder, for the host ``name``.

    Raises UnusableSecret if a file is missing or has other content, if the files do not belong together, or if the
    certificate is for another host.
    """
    found = {file: _mounted(folder, file) for file in ("tls.crt", "tls.key", "ca.crt")}
    chain = _certificates(folder, "tls.crt", found["tls.crt"])
    _certificates(folder, "ca.crt", found["ca.crt"])
    try:
        key = serialization.load_pem_private_key(found["tls.key"], password=None)
    except (ValueError, TypeError) as error:
        raise UnusableSecret(f"{folder}/tls.key is no private key in PEM ({type(error).__name__})") from error
    if key.public_key() != chain[0].public_key():
        raise UnusableSecret(f"{folder}/tls.key does not belong to tls.crt beside it: take both from one Secret")
    if not _serves(chain[0], (name,)):
        raise UnusableSecret(
            f"{folder}/tls.crt is not for {name}, where pods report: add that to spec.dnsNames of its Certificate"
        )
    material = TlsMaterial(
        ca_pem=found["ca.crt"].decode(),
        chain_pem=found["tls.crt"].decode(),
        key_pem=found["tls.key"].decode(),
        renew_at=chain[0].not_valid_after_utc,
        run_secret=_run_secret(found["tls.key"]),
    )
    if not material.vouched_by(material.ca_pem):
        raise UnusableSecret(
            f"{folder}/tls.crt is not signed by ca.crt beside it, which pods are given: use an issuer that puts its "
            "whole chain into tls.crt and its authority into ca.crt"
        )
    return material


def _mounted(folder: Path, file: str) -> bytes:
    try:
        content = (folder / file).read_bytes()
    except OSError as error:
        raise UnusableSecret(f"{folder}/{file} cannot be read: {error.strerror}; mount a Secret that has it") from error
    if not content.strip() and file == "ca.crt":
        raise UnusableSecret(
            f"{folder}/ca.crt is empty, and pods need the authority: use an issuer that tells its own, not one of ACME"
        )
    return content


def _certificates(folder: Path, file: str, content: bytes) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise UnusableSecret(f"{folder}/{file} has no certificate in PEM") from error


def _run_secret(key: bytes) -> bytes:
    """The secret from which keys of runs are derived. It is derived from a private key."""
    return hmac.new(key, b"charterer: keys of runs", "sha256").digest()
