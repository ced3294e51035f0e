"""The opaque field of a status: statistics that only Charterer reads, compressed, versioned and bounded in bytes."""

from __future__ import annotations

import base64
import binascii
import zlib
from abc import abstractmethod
from typing import Annotated, ClassVar, Final, Self, TypeVar

from pydantic import Field, ValidationError

from charterer.api.models.base import ApiModel, dump_json

MACHINE_STATE_BYTES: Final = 262_144
"""Most bytes of ``data``, which is ASCII: a sixth of what etcd takes of one object."""
_UNPACKED_BYTES: Final = 16_777_216
"""Most bytes of the JSON in ``data``: data that grows to more was not written by Charterer."""


class MachineContent(ApiModel):
    """The content of a machine state. A change of meaning takes a new version."""

    VERSION: ClassVar[int] = 1

    @abstractmethod
    def smaller(self) -> Self | None:
        """The content without its oldest or least informative part; None when nothing is left to leave out."""


_C = TypeVar("_C", bound=MachineContent)


class PackedStatistics(ApiModel):
    """Statistics that only Charterer reads. If this is deleted, they are learned anew."""

    version: Annotated[int, Field(ge=1, le=1_000_000)]
    """Version of the format of data."""
    data: Annotated[str, Field(max_length=MACHINE_STATE_BYTES)]
    """JSON, compressed with zlib and encoded in base64."""

    @classmethod
    def unpacked(cls, state: PackedStatistics | None, content: type[_C]) -> _C | None:
        """The content of a state; None of no state. ValueError names the field that cannot be read, and why."""
        if state is None:
            return None
        if state.version != content.VERSION:
            raise ValueError(
                f"status.machineState.version: this operator reads version {content.VERSION}, not {state.version}"
            )
        try:
            inflate = zlib.decompressobj()
            text = inflate.decompress(base64.b64decode(state.data, validate=True), _UNPACKED_BYTES)
            if not inflate.eof:
                raise ValueError(f"it is cut off, or longer than {_UNPACKED_BYTES} bytes")
            return content.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(step) for step in first["loc"])
            raise ValueError(f"status.machineState.data: {where}: {first['msg']}") from error
        except (binascii.Error, zlib.error, ValueError) as error:
            raise ValueError(f"status.machineState.data: {error}") from error


def packed(content: _C) -> tuple[PackedStatistics | None, _C | None]:
    """The content as a state, made smaller until it fits, and what was packed; both None when nothing is left."""
    kept: _C | None = content
    while kept is not None:
        data = base64.b64encode(zlib.compress(dump_json(kept).encode(), 9)).decode()
        if len(data) <= MACHINE_STATE_BYTES:
            return PackedStatistics(version=content.VERSION, data=data), kept
        kept = kept.smaller()
    return None, None
