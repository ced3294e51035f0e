"""Transfer of a training loop's state to other ranks of a torch group. Tensors are sent as raw bytes, and everything
else is pickled.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

_BUCKET_BYTES = 33_554_432
"""Most bytes of small tensors that are sent together. Small tensors are joined, because each broadcast costs a round
trip.
"""


class _Pickler(pickle.Pickler):
    """Extracts the tensors of the pickled object, in the order of pickling."""

    def __init__(self, torch: Any, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._tensor = torch.Tensor
        self.tensors: list[Any] = []

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, self._tensor):
            return None
        self.tensors.append(obj.detach())
        return tuple(obj.shape), obj.dtype, obj.device.type


class _Unpickler(pickle.Unpickler):
    """Inserts tensors of the same shapes in the same order. A tensor of ``own`` is used if it fits, otherwise a new
    tensor.
    """

    def __init__(self, torch: Any, file: io.BytesIO, own: Iterable[Any]) -> None:
        super().__init__(file)
        self._torch = torch
        self._own = iter(own)
        self.tensors: list[Any] = []

    def persistent_load(self, pid: Any) -> Any:
        shape, dtype, device = pid
        tensor = next(self._own, None)
        if tensor is None or (tuple(tensor.shape), tensor.dtype, tensor.device.type) != pid:
            tensor = self._torch.empty(shape, dtype=dtype, device=device)
        self.tensors.append(tensor)
        return tensor


def own_tensors(torch: Any, state: dict[str, Any]) -> Iterator[Any]:
    """The tensors of a state_dict, into which received tensors may be written."""
    return (value.detach() for value in state.values() if isinstance(value, torch.Tensor))


def send_state(torch: Any, state: object, group: Any, source: int) -> None:
    """Broadcast ``state`` from this rank, which is ``source``, to all ranks of the group."""
    file = io.BytesIO()
    pickler = _Pickler(torch, file)
    pickler.dump(state)
    size = torch.tensor([file.tell()])
    torch.distributed.broadcast(size, source, group=group)
    torch.distributed.broadcast(torch.frombuffer(file.getbuffer(), dtype=torch.uint8), source, group=group)
    for bucket in _buckets(pickler.tensors):
        torch.distributed.broadcast(_joined(torch, bucket), source, group=group)


def receive_state(torch: Any, own: Iterable[Any], group: Any, source: int) -> Any:
    """Receive the state that ``source`` sends.

    The first tensors are written into ``own``, which saves the memory for a copy of the net.
    """
    size = torch.zeros(1, dtype=torch.int64)
    torch.distributed.broadcast(size, source, group=group)
    data = torch.empty(int(size), dtype=torch.uint8)
    torch.distributed.broadcast(data, source, group=group)
    unpickler = _Unpickler(torch, io.BytesIO(data.numpy().tobytes()), own)
    state = unpickler.load()
    for bucket in _buckets(unpickler.tensors):
        alone = len(bucket) == 1 and bucket[0].is_contiguous()
        flat = _bytes(torch, bucket[0]) if alone else _room(torch, bucket)
        torch.distributed.broadcast(flat, source, group=group)
        if not alone:
            _split(torch, flat, bucket)
    return state


def _buckets(tensors: Sequence[Any]) -> Iterator[list[Any]]:
    """The tensors in order, in groups that are on one kind of device and within the size limit."""
    bucket: list[Any] = []
    size = 0
    for tensor in tensors:
        if tensor.numel() == 0:
            continue
        count = tensor.numel() * tensor.element_size()
        if bucket and (size + count > _BUCKET_BYTES or tensor.device.type != bucket[0].device.type):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += count
    if bucket:
        yield bucket


def _bytes(torch: Any, tensor: Any) -> Any:
    """The tensor's bytes, without a copy if the tensor is contiguous."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _joined(torch: Any, bucket: Sequence[Any]) -> Any:
    return _bytes(torch, bucket[0]) if len(bucket) == 1 else torch.cat([_bytes(torch, tensor) for tensor in bucket])


def _room(torch: Any, bucket: Sequence[Any]) -> Any:
    count = sum(tensor.numel() * tensor.element_size() for tensor in bucket)
    return torch.empty(count, dtype=torch.uint8, device=bucket[0].device)


def _split(torch: Any, flat: Any, bucket: Sequence[Any]) -> None:
    start = 0
    for tensor in bucket:
        end = start + tensor.numel() * tensor.element_size()
        whole = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        _bytes(torch, whole).copy_(flat[start:end])
        tensor.copy_(whole)
        start = end
