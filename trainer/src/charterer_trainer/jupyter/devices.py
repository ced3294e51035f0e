"""Pickling of values in GPU memory as host memory, together with the device to which they later return.

A process without such a device keeps the value in host memory together with the name of the device. A torch tensor
stores the device as an attribute, and returns to the device in a process that has it. A jax array of the default device
goes to the default device. An array that is sharded over a mesh is sharded again if the process has as many devices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pickle import PickleBuffer
from typing import Any

_HOME = "_charterer_device"
Reduced = tuple[Callable[..., Any], tuple[Any, ...]]


class DeviceReducer:
    """Reduces tensors and arrays of one pickle. If ``contents`` is False, the buffers are empty, and the pickle is only
    used for its structure.

    Tensors that share a storage share it again after unpickling. ``storages`` has the memory addresses of storages.
    """

    def __init__(self, contents: bool) -> None:
        self._contents = contents
        self.storages: set[int] = set()
        self._storages: dict[tuple[object, ...], tuple[Any, str]] = {}

    def reduce(self, value: Any) -> Reduced | None:
        """The pickle reduction of a tensor, its storage or an array, or None for other values."""
        kind = type(value)
        torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
        if torch is not None and kind.__module__.startswith("torch"):
            if kind in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided and not value.is_quantized:
                return self._tensor(torch, value)
            if kind is torch.UntypedStorage:
                return self._storage(torch, value)
        elif jax is not None and isinstance(value, getattr(jax, "Array", ())):
            return self._array(jax, value)
        return None

    def _tensor(self, torch: Any, value: Any) -> Reduced | None:
        home = getattr(value, _HOME, None) if value.device.type == "cpu" else str(value.device)
        if value.device.type == "meta" or value.is_conj() or value.is_neg():
            return None
        storage = value.untyped_storage()
        self.storages |= {storage.data_ptr()} - {0}
        place = (storage.data_ptr() or id(value), str(storage.device))
        kept, _ = self._storages.setdefault(place, (storage, home or "cpu"))
        extra = {name: each for name, each in vars(value).items() if name != _HOME}
        gradient = value.grad if value.is_leaf else None
        shape = (value.dtype, value.storage_offset(), tuple(value.shape), value.stride())
        parameter = type(value) is torch.nn.Parameter
        return torch_tensor, (kept, *shape, value.requires_grad, parameter, home, gradient, extra)

    def _storage(self, torch: Any, storage: Any) -> Reduced:
        home = next(home for kept, home in self._storages.values() if kept is storage)
        size = storage.nbytes() if self._contents else 0
        if size:
            host = torch.empty(0, dtype=torch.uint8).set_(storage.cpu())
            return torch_storage, (PickleBuffer(host.numpy()), home)
        return torch_storage, (PickleBuffer(bytearray()), home)

    def _array(self, jax: Any, value: Any) -> Reduced | None:
        if not value.is_fully_addressable:
            raise TypeError("a jax array of several processes cannot leave them")
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            return jax_key, (jax.random.key_data(value), str(jax.random.key_impl(value)))
        import numpy

        host = numpy.ascontiguousarray(value) if self._contents else numpy.empty(0, value.dtype)
        flat: Any = host.reshape(-1).view(numpy.uint8)  # numpy refuses buffers of types such as bfloat16
        placed = _placement(jax, value.sharding)
        return jax_array, (PickleBuffer(memoryview(flat).toreadonly()), value.dtype, value.shape, placed)


def torch_storage(content: Any, home: str) -> Any:
    """The storage on its home device, or in host memory if this process does not have that device."""
    import torch

    size = len(memoryview(content).cast("B")) if memoryview(content).nbytes else 0
    host = (
        torch.frombuffer(bytearray(content), dtype=torch.uint8).untyped_storage() if size else torch.UntypedStorage(0)
    )
    if home != "cpu" and (there := torch_device(home)) is not None:
        return torch.UntypedStorage(size, device=there).copy_(host)
    return host


def torch_device(home: str) -> str | None:
    """The device of this process for ``home``, or None if the process has no device of its type. If the number is too
    large, it wraps around.
    """
    import torch

    kind, _, number = home.partition(":")
    module = getattr(torch, kind, None)
    if module is None or not module.is_available():
        return None
    return f"{kind}:{int(number or 0) % max(1, module.device_count())}"


def torch_tensor(
    storage: Any,
    dtype: Any,
    offset: int,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    wants_gradient: bool,
    parameter: bool,
    home: str | None,
    gradient: Any,
    extra: dict[str, Any],
) -> Any:
    """The tensor on this storage."""
    import torch

    made = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, shape, stride)
    made = torch.nn.Parameter(made, wants_gradient) if parameter else made.requires_grad_(wants_gradient)
    if gradient is not None:
        made.grad = gradient
    vars(made).update(extra)
    if home is not None and made.device.type == "cpu":
        setattr(made, _HOME, home)
    return made


def jax_array(content: Any, dtype: Any, shape: tuple[int, ...], placed: tuple[Any, ...]) -> Any:
    """The array with its former placement if this process has the devices, otherwise on the default device."""
    import jax
    import numpy

    host = numpy.frombuffer(content, numpy.uint8).view(dtype).reshape(shape)
    return jax.device_put(host, _sharding(jax, placed))


def jax_key(data: Any, implementation: str) -> Any:
    """The random key."""
    import jax

    return jax.random.wrap_key_data(data, impl=implementation)


def _placement(jax: Any, sharding: Any) -> tuple[Any, ...]:
    """The placement as a tuple. Empty: the default device. ``(number,)``: another device.

    ``(shape, axes, spec)``: a mesh of all those devices.
    """
    if isinstance(sharding, jax.sharding.NamedSharding):
        mesh = sharding.mesh
        return (tuple(mesh.devices.shape), tuple(mesh.axis_names), tuple(sharding.spec))
    places = [device.id for device in sharding.device_set]
    default = jax.devices()[0].id
    return () if len(places) != 1 or places[0] == default else (places[0],)


def _sharding(jax: Any, placed: tuple[Any, ...]) -> Any:
    devices = jax.devices()
    if not placed:
        return None  # this leaves the array uncommitted, like an array that was never placed
    if len(placed) == 1:
        return devices[placed[0]] if placed[0] < len(devices) else None
    if len(placed) == 3:
        shape, axes, spec = placed
        count = 1
        for side in shape:
            count *= side
        if count <= len(devices):
            mesh = jax.make_mesh(shape, axes, devices=devices[:count])
            return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
    return None
