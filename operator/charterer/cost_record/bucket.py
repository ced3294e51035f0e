"""A record of costs in a bucket of S3, Google Cloud Storage or Azure Blob Storage, through obstore.

Credentials, region and endpoint come from where the clouds' own tools put them: environment variables, a workload's
identity, the machine's metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from charterer.cost_record.places import RecordUnavailable, refuse_large

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_SCHEMES: Final = {"s3": "S3", "gs": "Google Cloud Storage", "az": "Azure Blob Storage"}
_URL: Final = re.compile(r"(s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]*(/[^?#]*)?")
_CLIENT: Final[ClientConfig] = {
    "timeout": timedelta(seconds=20),
    "connect_timeout": timedelta(seconds=5),
    "allow_http": True,  # only where the endpoint that a person sets says http
}
_RETRIES: Final[RetryConfig] = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
_STATUS: Final = re.compile(r"status code: (\d{3})")
_METADATA: Final = "169.254.169.254"
"""Where a machine of a cloud is asked for credentials, if nothing else has any."""
_MESSAGE: Final = re.compile(r"<Message>(.*?)</Message>|\"message\": *\"(.*?)\"", re.DOTALL)
_LAYERS: Final = re.compile(r"^Generic [^:]*error: ")


class Bucket:
    """The objects below a URL as ``s3://bucket/prefix``. It takes tens of milliseconds to answer, whatever is asked."""

    at_once = 32

    def __init__(self, url: str) -> None:
        """RecordUnavailable if that is no such URL, or obstore is not installed."""
        if _URL.fullmatch(url) is None:
            raise RecordUnavailable(
                f"{url} is no place for a record of costs: write a path, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or "
                "az://CONTAINER/PREFIX"
            )
        try:
            from obstore.store import from_url
        except ImportError as error:
            raise RecordUnavailable(
                f"the record of costs at {url} needs obstore: pip install '.[records]' in a checkout"
            ) from error
        self._url = url.rstrip("/")
        self._cloud = _SCHEMES[url.partition("://")[0]]
        with self._explained("be opened"):
            self._store: ObjectStore = from_url(self._url, client_options=_CLIENT, retry_config=_RETRIES)

    def write(self, name: str, content: bytes) -> None:
        """As the protocol says. The right to replace an object is not needed."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with self._explained("be written"):
            try:
                obstore.put(self._store, name, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return

    def read(self, name: str) -> bytes:
        """As the protocol says."""
        import obstore

        with self._explained("be read"):
            found = obstore.get(self._store, name)
            refuse_large(name, found.meta["size"])
            return bytes(found.bytes())

    def folders(self, name: str) -> Sequence[str]:
        """As the protocol says."""
        import obstore

        with self._explained("be read"):
            prefixes = obstore.list_with_delimiter(self._store, name or None)["common_prefixes"]
            return [prefix.rstrip("/").rpartition("/")[2] for prefix in sorted(prefixes)]

    def files(self, name: str) -> Sequence[str]:
        """As the protocol says."""
        import obstore

        with self._explained("be read"):
            stream = obstore.list(self._store, name, chunk_size=1000)
            return sorted(found["path"] for chunk in stream for found in chunk)

    @contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, ValueError) as error:
            cause, advice = _cause(str(error)), self._advice(str(error))
            message = f"the record of costs at {self._url} cannot {done}: {cause}; {advice}"
            raise RecordUnavailable(message) from error

    def _advice(self, text: str) -> str:
        status = _STATUS.search(text)
        match "" if status is None else status[1]:
            case "401":
                return f"give this process credentials for {self._cloud}"
            case "403":
                return "give this process the rights to list, read and create objects there"
            case "404":
                return "make the bucket, or correct its name"
            case "301" | "307" | "400" if self._url.startswith("s3:"):
                return "set AWS_REGION to the region of the bucket"
            case "" if "redential" in text or _METADATA in text:
                return f"give this process credentials for {self._cloud}"
        return f"check the address, the network and {self._cloud}"


def _cause(text: str) -> str:
    """The vendor's own sentence in an error of obstore, else its first paragraph without the layers around it."""
    if (message := _MESSAGE.search(text)) is not None:
        return " ".join((message[1] or message[2]).split()).rstrip(".")
    first = " ".join(text.partition("\n\nDebug source")[0].split())
    return _LAYERS.sub("", first.rpartition(" - ")[2])[:300].rstrip(".")
