"""A device plugin for simulated GPUs: ``python -m tests.testbed.gpus FOLDER COUNT``.

FOLDER is the kubelet's folder of device plugins. The plugin registers once the kubelet listens there. SIGUSR1 makes the
first GPU unhealthy, SIGUSR2 makes it healthy again. The few protobuf messages are encoded by hand
(https://protobuf.dev/programming-guides/encoding/) by k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc

RESOURCE = "nvidia.com/gpu"
_VERSION = "v1beta1"
_SOCKET = "charterer-gpu.sock"


class Devices:
    """``count`` devices. Either all are healthy, or all but the first."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._first_healthy = True
        self._version = 0
        self._changed = threading.Condition()

    def set_first(self, healthy: bool) -> None:
        """Set the health of the first device, and notify watchers."""
        with self._changed:
            self._first_healthy = healthy
            self._version += 1
            self._changed.notify_all()

    def watch(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """ListAndWatch: yield a ListAndWatchResponse now and after every change."""
        told = -1
        while context.is_active():
            with self._changed:
                while self._version == told:
                    self._changed.wait()
                told, response = self._version, self._response()
            yield response

    def _response(self) -> bytes:
        """Encode a ListAndWatchResponse: Devices of ID and health."""
        health = ["Healthy" if self._first_healthy or index else "Unhealthy" for index in range(self._count)]
        return b"".join(text(1, text(1, f"gpu-{index}") + text(2, word)) for index, word in enumerate(health))


def allocate(request: bytes, context: grpc.ServicerContext) -> bytes:
    """Encode an AllocateResponse. Each container, field 1 of the request, gets an environment with one variable."""
    environment = text(1, text(1, "NVIDIA_VISIBLE_DEVICES") + text(2, "all"))
    return b"".join(text(1, environment) for _ in fields(request))


def text(number: int, value: bytes | str) -> bytes:
    """Encode a field of wire type 2: a string or an encoded message."""
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def fields(message: bytes) -> Iterator[bytes]:
    """Yield the values of a message. All its fields must have wire type 2 and numbers below 16."""
    at = 0
    while at < len(message):
        at, size, shift = at + 1, 0, 0
        while message[at] & 0x80:
            size |= (message[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
        size |= message[at] << shift
        yield message[at + 1 : at + 1 + size]
        at += 1 + size


def _nothing(request: bytes, context: grpc.ServicerContext) -> bytes:
    """Return an empty message: no option is set, and PreStartContainer does nothing."""
    return b""


def serve(folder: Path, devices: Devices) -> grpc.Server:
    """Serve the plugin in the folder."""
    unary = {"GetDevicePluginOptions": _nothing, "Allocate": allocate, "PreStartContainer": _nothing}
    handlers = {name: grpc.unary_unary_rpc_method_handler(method) for name, method in unary.items()}
    handlers["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(devices.watch)
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{_VERSION}.DevicePlugin", handlers),))
    server.add_insecure_port(f"unix://{folder / _SOCKET}")
    server.start()
    return server


def register(folder: Path) -> None:
    """Register the plugin with the kubelet by a RegisterRequest of version, endpoint and resource."""
    with grpc.insecure_channel(f"unix://{folder / 'kubelet.sock'}") as channel:
        call = channel.unary_unary(f"/{_VERSION}.Registration/Register")
        call(text(1, _VERSION) + text(2, _SOCKET) + text(3, RESOURCE), timeout=20, wait_for_ready=True)


def main() -> None:
    """Serve until killed."""
    folder, devices = Path(sys.argv[1]), Devices(int(sys.argv[2]))
    signal.signal(signal.SIGUSR1, lambda *_: devices.set_first(False))
    signal.signal(signal.SIGUSR2, lambda *_: devices.set_first(True))
    while not (folder / "kubelet.sock").exists():
        time.sleep(0.05)
    server = serve(folder, devices)
    register(folder)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
