"""Calls to the API server without an event loop, for the Lease's thread, which a blocked loop must not delay."""

from __future__ import annotations

import ssl

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from charterer.cluster.client import RawObject, parsed_object
from charterer.cluster.credentials import Access, NoAccess
from charterer.cluster.errors import READS, OutcomeUnknown, Unauthorized, Unreachable, classify


class BlockingClient:
    """One connection, kept between calls, for one thread at a time. Raises the classes of ``charterer.cluster.errors``.

    ``timeout`` (seconds) limits connecting and each read or write after it, not the whole call. Nothing is repeated.
    """

    def __init__(self, access: Access, timeout: float) -> None:
        self._access = access
        self._timeout = timeout
        self._api: ApiClient | None = None
        self._tls: ssl.SSLContext | None = None

    def call(self, method: str, path: str, body: RawObject | None = None) -> RawObject:
        """Send one request; returns the JSON object of the answer."""
        try:
            credential = self._access.credential()
        except NoAccess as error:
            raise Unreachable(method, path, 0, "NotConnected", f"not sent: {error}") from error
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if credential.header is not None:
            headers["Authorization"] = credential.header
        api = self._client(credential.tls)
        try:
            request = api.param_serialize(method, path, header_params=headers, body=body)
            response = api.call_api(*request, _request_timeout=self._timeout)
            answer = response.read()
        except (NewConnectionError, ConnectTimeoutError) as error:
            raise Unreachable(method, path, 0, "NotConnected", f"not sent: {error}") from error
        except (HTTPError, ApiException, OSError) as error:
            self.close()
            lost = Unreachable if method in READS else OutcomeUnknown
            raise lost(method, path, 0, "NoAnswer", f"no answer: {type(error).__name__} {error}".rstrip()) from error
        if response.status >= 300:
            failure = classify(method, path, response.status, response.headers, answer)
            if isinstance(failure, Unauthorized):
                self._access.refused(credential)
            raise failure
        return parsed_object(method, path, response.status, answer)

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._api is not None:
            self._api.close()
            self._api = None

    def _client(self, tls: ssl.SSLContext) -> ApiClient:
        if self._api is None or self._tls is not tls:
            self.close()
            self._api, self._tls = ApiClient(self._access.configuration), tls
            self._api.user_agent = "charterer"
            self._api.rest_client.pool_manager.connection_pool_kw.update(
                # Otherwise it makes a stricter context (Python 3.13's default), and of key files that are gone by now.
                ssl_context=tls,
                ca_certs=None,
                cert_file=None,
                key_file=None,
            )
        return self._api
