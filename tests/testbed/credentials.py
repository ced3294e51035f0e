"""Writes keys, certificates and kubeconfigs of one control plane. Certificates are valid for a year."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from collections.abc import Collection
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def _pem(key: _Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _certificate(subject: str, key: _Key, issuer: str) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365))
    )


def write_serving_certificate(
    ca_file: Path,
    certificate_file: Path,
    key_file: Path,
    addresses: Collection[str] = (),
    *,
    names: Collection[str] = (),
    ca_key_file: Path | None = None,
) -> None:
    """Write a new authority's certificate, and a certificate with key that it signed for loopback and ``addresses``.

    ``names`` are further DNS names of both certificates. ``ca_key_file`` gets the authority's key as PKCS #1.
    """
    ca_key: _Key = ec.generate_private_key(ec.SECP256R1())
    if ca_key_file is not None:
        ca_key = rsa.generate_private_key(65537, 2048)
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    further = [x509.DNSName(name) for name in names]
    ca = (
        _certificate("testbed-ca", ca_key, "testbed-ca")
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("testbed-ca"), *further]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    subjects = [
        *further,
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in sorted({"127.0.0.1", *addresses})),
        x509.DNSName("localhost"),
        x509.DNSName("kubernetes.default.svc"),
    ]
    certificate = (
        _certificate("kube-apiserver", key, "testbed-ca")
        .add_extension(x509.SubjectAlternativeName(subjects), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(_pem(key))
    if ca_key_file is not None:
        ca_key_file.write_bytes(_pem(ca_key))


def write_signing_key(key_file: Path) -> None:
    """Write a new private key that signs tokens of service accounts."""
    key_file.write_bytes(_pem(ec.generate_private_key(ec.SECP256R1())))


def write_kubeconfig(path: Path, *, url: str, ca_file: Path, token: str, namespace: str = "default") -> None:
    """Write a self-contained kubeconfig as JSON, which is also YAML."""
    authority = base64.b64encode(ca_file.read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": "testbed", "user": {"token": token}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "testbed", "namespace": namespace}}],
        "current-context": "testbed",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=2) + "\n")
