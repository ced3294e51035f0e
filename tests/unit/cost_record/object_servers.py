"""Servers of objects that speak as Google Cloud Storage (XML API) and Azure Blob Storage do, as far as a record needs.

They are strict: a request that the vendor's reference does not describe so, or that a record does not need, gets 400.
Lists come in pages of two. Neither checks signatures: no real account was ever asked.

References: cloud.google.com/storage/docs/xml-api/reference-headers and get-bucket-list;
learn.microsoft.com/rest/api/storageservices/put-blob and list-blobs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 2


class _Refused(Exception):
    """The status and code of an answer that is no success."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class ObjectServer(BaseHTTPRequestHandler):
    """What both have in common: objects of one bucket by key."""

    protocol_version = "HTTP/1.1"
    bucket: ClassVar[str]
    objects: ClassVar[dict[str, bytes]]
    refusal: ClassVar[tuple[int, str] | None]

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_PUT(self) -> None:
        """An object is made."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self._answered(lambda: self.put(self._key(), content))

    def do_GET(self) -> None:
        """An object, or a list."""
        query = dict(parse_qsl(urlsplit(self.path).query, strict_parsing=True)) if "?" in self.path else {}
        self._answered(lambda: self.listed(query) if query else self._content())

    def put(self, key: str, content: bytes) -> tuple[int, bytes]:
        """Store it, with the vendor's conditions."""
        raise NotImplementedError

    def listed(self, query: Mapping[str, str]) -> tuple[int, bytes]:
        """A page of names, in the vendor's XML."""
        raise NotImplementedError

    def page(self, prefix: str, delimiter: str, after: str) -> tuple[list[str], list[str], str]:
        """Keys, prefixes up to the delimiter, and the last name where more follow; two of them at most."""
        names = {self._shortened(key, prefix, delimiter) for key in self.objects if key.startswith(prefix)}
        rest = sorted(name for name in names if name > after)
        shown = rest[:PAGE]
        keys, prefixes = ([n for n in shown if n in self.objects], [n for n in shown if n not in self.objects])
        return keys, prefixes, shown[-1] if len(rest) > PAGE else ""

    @staticmethod
    def _shortened(key: str, prefix: str, delimiter: str) -> str:
        end = key.find(delimiter, len(prefix)) if delimiter else -1
        return key if end < 0 else key[: end + 1]

    def _key(self) -> str:
        path = unquote(urlsplit(self.path).path).removeprefix("/")
        if not path.startswith(f"{self.bucket}/"):
            raise _Refused(404, "NoSuchBucket" if "/" not in self.bucket else "ContainerNotFound")
        return path.removeprefix(f"{self.bucket}/")

    def _content(self) -> tuple[int, bytes]:
        key = self._key()
        if key not in self.objects:
            raise _Refused(404, "NoSuchKey")
        return 200, self.objects[key]

    def _answered(self, answer: object) -> None:
        try:
            if self.refusal is not None:
                raise _Refused(*self.refusal)
            assert callable(answer)
            status, content = answer()
        except _Refused as error:
            status = error.status
            text = f"<Error><Code>{error.code}</Code><Message>It is {error.code}.</Message></Error>"
            content = f'<?xml version="1.0" encoding="utf-8"?>{text}'.encode()
        self.send_response(status)
        for name, value in {"ETag": '"1"', "Last-Modified": "Tue, 03 Nov 2026 10:00:00 GMT"}.items():
            self.send_header(name, value)
        self.send_header("x-goog-generation", "1")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class GoogleObjects(ObjectServer):
    """Google Cloud Storage's XML API."""

    bucket = "costs"

    def put(self, key: str, content: bytes) -> tuple[int, bytes]:
        """Only if there is no such object: generation 0."""
        if self.headers["x-goog-if-generation-match"] != "0" or not self.headers["Authorization"].startswith("Bearer"):
            raise _Refused(400, "InvalidRequest")
        if key in self.objects:
            raise _Refused(412, "PreconditionFailed")
        self.objects[key] = content
        return 200, b""

    def listed(self, query: Mapping[str, str]) -> tuple[int, bytes]:
        """Version 2 of the list."""
        unknown = query.keys() - {"list-type", "prefix", "delimiter", "continuation-token"}
        if unknown or query["list-type"] != "2":
            raise _Refused(400, "InvalidArgument")
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
        keys, prefixes, last = self.page(prefix, query.get("delimiter", ""), after)
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[key])}</Size><ETag>&quot;1&quot;</ETag>"
            "<LastModified>2026-11-03T10:00:00.000Z</LastModified></Contents>"
            for key in keys
        )
        common = "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in prefixes)
        more = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if last else ""
        text = f"<ListBucketResult><IsTruncated>{str(bool(last)).lower()}</IsTruncated>{more}{contents}{common}"
        return 200, f'<?xml version="1.0" encoding="UTF-8"?>{text}</ListBucketResult>'.encode()


class AzureBlobs(ObjectServer):
    """Azure Blob Storage, with the account in the path, as a custom endpoint has it."""

    bucket = "account/costs"

    def put(self, key: str, content: bytes) -> tuple[int, bytes]:
        """Only if there is no such blob."""
        wanted = {"x-ms-blob-type": "BlockBlob", "If-None-Match": "*"}
        if any(self.headers[name] != value for name, value in wanted.items()) or not self.headers["x-ms-version"]:
            raise _Refused(400, "InvalidHeaderValue")
        if key in self.objects:
            raise _Refused(409, "BlobAlreadyExists")
        self.objects[key] = content
        return 201, b""

    def listed(self, query: Mapping[str, str]) -> tuple[int, bytes]:
        """List Blobs."""
        unknown = query.keys() - {"restype", "comp", "prefix", "delimiter", "marker"}
        if unknown or (query["restype"], query["comp"]) != ("container", "list"):
            raise _Refused(400, "InvalidQueryParameterValue")
        prefix, after = query.get("prefix", ""), query.get("marker", "")
        keys, prefixes, last = self.page(prefix, query.get("delimiter", ""), after)
        blobs = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties><Last-Modified>Tue, 03 Nov 2026 10:00:00 GMT</Last-Modified>"
            f"<Etag>1</Etag><Content-Length>{len(self.objects[key])}</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
            for key in keys
        )
        common = "".join(f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" for name in prefixes)
        text = f"<Blobs>{blobs}{common}</Blobs><NextMarker>{escape(last)}</NextMarker>"
        return 200, f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults>{text}</EnumerationResults>'.encode()


@contextmanager
def serving(kind: type[ObjectServer]) -> Iterator[tuple[str, type[ObjectServer]]]:
    """A server of that kind with no objects: its URL, and the class that has its objects and its refusal."""

    class Server(kind):  # type: ignore[valid-type, misc]
        objects: ClassVar[dict[str, bytes]] = {}
        refusal: ClassVar[tuple[int, str] | None] = None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", Server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
