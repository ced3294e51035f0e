"""A failed connection in the system's words, without what a library wraps around them."""

from __future__ import annotations

import errno
import socket
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from charterer.api.metadata import connection_error

HOST = ConnectionKey("cloud", 443, True, True, None, None, None)


def not_trusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


def no_tls() -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")
    error.reason = "WRONG_VERSION_NUMBER"
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            aiohttp.ClientConnectorError(HOST, OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)")),
            "Connection refused",
        ),
        (
            aiohttp.ClientConnectorDNSError(HOST, socket.gaierror(-2, "Name or service not known")),
            "Name or service not known",
        ),
        (
            aiohttp.ClientConnectorCertificateError(HOST, not_trusted()),
            "its certificate is not trusted: self-signed certificate",
        ),
        (aiohttp.ClientConnectorSSLError(HOST, no_tls()), "TLS fails: wrong version number"),
        (aiohttp.ConnectionTimeoutError("Connection timeout to host https://cloud"), "Connection timeout to host"),
        (aiohttp.ConnectionTimeoutError(), "ConnectionTimeoutError"),
        (ValueError("no token"), "no token"),
    ],
)
def test_the_cause_is_told_and_no_object_of_python(error: Exception, words: str) -> None:
    said = connection_error(error)
    assert said.startswith(words)
    assert "object at" not in said
    assert "[" not in said
