"""Resizing in place for JAX: data-parallel training whose processes change. Each process holds the whole state.

At a change, JAX's distributed runtime and its backends are shut down and started again. Meanwhile the state is in numpy
arrays. Compiled functions are lost with the backends, so a persistent compilation cache makes a change fast.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from charterer_trainer.environment import Environment
from charterer_trainer.inplace.board import host_and_port
from charterer_trainer.inplace.job import DEFAULT_PATIENCE_SECONDS, ElasticJob
from charterer_trainer.inplace.launch import check_launch
from charterer_trainer.members import Members
from charterer_trainer.session import Session, current

DEFAULT_TIMEOUT_SECONDS = 600.0
MOST_CHANGES = 20
"""Number of changes after which a process requests a restart. In JAX 0.10 each change leaks 5 files, 14 threads and 11
MB.
"""
_COORDINATOR_SECONDS = 2.0
"""Seconds by which the coordinator ends after the other processes, because JAX aborts (134) a process that loses its
coordinator.
"""
_KNOCK_SECONDS = 0.005
_FAILURES = ("connection", "coordination", "unavailable", "deadline_exceeded", "heartbeat")


class JaxJob(ElasticJob):
    """A training loop in JAX. ``state`` is a tree of arrays, each of which is whole on every device. Set ``state`` in
    each step.

    ``mesh`` has one axis, ``batch``, over the devices of all processes. ``replicated`` and ``split`` are shardings of
    the mesh. A change replaces all of these, and compiled functions. An array outside ``state`` does not survive a
    change.
    """

    def __init__(
        self,
        session: Session,
        environment: Environment,
        state: Any,
        *,
        step: int,
        save: Callable[[int], object] | None,
        timeout: float,
        patience: float,
        cache: str | None,
        warm_up: Callable[[], object] | None,
    ) -> None:
        super().__init__(session, environment, step=step, save=save, timeout=timeout, patience=patience)
        self._jax: Any = importlib.import_module("jax")
        self._numpy: Any = importlib.import_module("numpy")
        self._backend: Any = importlib.import_module("jax.extend.backend")
        if self._jax.distributed.is_initialized():
            raise RuntimeError("elastic_jax() initialises jax.distributed itself: leave that and init_jax() out")
        self.mesh: Any = None
        self.replicated: Any = None
        self.split: Any = None
        self._changes = 0
        self._largest: Any = None
        self._mine = 0
        self._configure(cache)
        if warm_up is not None:
            warm_up()
        self.state: Any = self._jax.tree.map(self._numpy.asarray, state)
        self._backend.clear_backends()
        self._join_first()

    def shard(self, samples: Any) -> Any:
        """This rank's part of a step's samples, as a numpy array.

        Some samples are repeated, so that all devices get equal numbers. The ``weight`` of a repeated sample is 0.
        Raises ValueError if there are fewer samples than ranks.
        """
        samples = self._numpy.asarray(samples)
        if len(samples) < self.world:
            raise ValueError(f"{len(samples)} samples for {self.world} ranks: each needs one at least")
        devices = len(self.mesh.devices.flat)
        length = -(-len(samples) // devices) * (devices // self.world)
        mine = samples[self.rank :: self.world]
        self._batch, self._mine = len(samples), len(mine)
        return self._numpy.resize(mine, (length, *mine.shape[1:]))

    def weight(self, samples: Any) -> Any:
        """The weight of each of these samples in the mean over the whole batch. The samples are a part that ``shard``
        returned.

        The batch's loss is the sum over all devices of each sample's loss times its weight.
        """
        weights = self._numpy.zeros(len(samples), self._numpy.float32)
        weights[: self._mine] = 1.0 / (self._batch or len(samples))
        return weights

    def spread(self, local: Any) -> Any:
        """One array over all ranks, split along its first axis. Each rank contributes its part ``local``."""
        return self._jax.make_array_from_process_local_data(self.split, self._numpy.asarray(local))

    # -- the group

    def _configure(self, cache: str | None) -> None:
        update = self._jax.config.update
        update("jax_enable_preemption_service", False)  # the service would handle SIGTERM itself
        update("jax_cpu_collectives_implementation", "gloo")
        if cache is not None:
            update("jax_compilation_cache_dir", cache)
            update("jax_persistent_cache_min_compile_time_secs", 0)
            update("jax_persistent_cache_min_entry_size_bytes", -1)

    def _names_peers(self, error: Exception) -> bool:
        runtime = isinstance(error, self._jax.errors.JaxRuntimeError)
        return super()._names_peers(error) or (runtime and any(word in str(error).lower() for word in _FAILURES))

    def _limit(self) -> AbstractContextManager[None]:
        """A time limit for each step, because a collective that waits for a killed peer cannot be interrupted."""
        return self._watchdog.limit(self._timeout, f"step {self.step}")

    @property
    def _worn(self) -> bool:
        return self._changes >= MOST_CHANGES

    def _connect(self, members: Members, name: str) -> None:
        host, _ = host_and_port(members.address(members.leader))
        if self.rank == 0:
            with socket.create_server(("", 0)) as free:
                port = free.getsockname()[1]
            self._rendezvous.tell(members, "port", port)
        else:
            port = self._rendezvous.told(members, "port", self._patience)
            self._knock(host, port)
        self._jax.distributed.initialize(
            coordinator_address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            num_processes=self.world,
            process_id=self.rank,
            initialization_timeout=int(self._patience) or 1,
            cluster_detection_method="deactivate",
        )

    def _knock(self, host: str, port: Any) -> None:
        """Wait until the coordinator listens. A client that connects earlier would sleep for a second.

        Raises OSError after ``patience`` seconds.
        """
        deadline = time.monotonic() + self._patience
        while True:
            try:
                socket.create_connection((host, port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_KNOCK_SECONDS)

    def _disconnect(self, failed: bool) -> None:
        self._changes += 1
        self.state = self._jax.tree.map(lambda leaf: self._numpy.array(leaf.addressable_data(0)), self.state)
        self.mesh = self.replicated = self.split = self._largest = None
        self._jax.distributed.shutdown()
        self._backend.clear_backends()
        gc.collect()

    def _restart(self, why: str) -> NoReturn:
        if self.rank == 0 and self.world > 1:
            time.sleep(_COORDINATOR_SECONDS)
        super()._restart(why)

    def _place(self) -> None:
        sharding = self._jax.sharding
        self.mesh = sharding.Mesh(self._numpy.array(self._jax.devices()), ("batch",))
        self.replicated = sharding.NamedSharding(self.mesh, sharding.PartitionSpec())
        self.split = sharding.NamedSharding(self.mesh, sharding.PartitionSpec("batch"))
        self._largest = self._jax.jit(lambda votes: votes.max(axis=0), out_shardings=self.replicated)
        place = self._jax.make_array_from_process_local_data
        self.state = self._jax.tree.map(lambda leaf: place(self.replicated, leaf), self.state)

    # -- votes and state

    def _start_vote(self, stop: int, generation: int) -> Any:
        count = len(self.mesh.devices.flat) // self.world
        return self._largest(self.spread(self._numpy.array([[stop, generation]] * count, self._numpy.int32)))

    def _read_vote(self, votes: Any) -> tuple[int, int]:
        with self._watchdog.limit(self._timeout, f"step {self.step}"):
            stop, generation = self._numpy.asarray(votes).tolist()
        return int(stop), int(generation)

    def _share_state(self, source: int, behind: list[int]) -> None:
        """Send the state as bytes. JAX itself broadcasts by adding zeros, which would change a negative zero."""
        utils = importlib.import_module("jax.experimental.multihost_utils")
        leaves, shape = self._jax.tree.flatten(self.state)
        flat = [self._numpy.ascontiguousarray(leaf).reshape(-1).view(self._numpy.uint8) for leaf in leaves]
        sent = utils.broadcast_one_to_all(self._numpy.concatenate(flat), is_source=self.rank == source)
        parts = self._numpy.split(sent, self._numpy.cumsum([len(part) for part in flat])[:-1])
        received = [part.view(leaf.dtype).reshape(leaf.shape) for part, leaf in zip(parts, leaves)]
        self.state = self._jax.tree.unflatten(shape, received)


def elastic_jax(
    state: Any,
    *,
    step: int = 0,
    save: Callable[[int], object] | None = None,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    patience: float = DEFAULT_PATIENCE_SECONDS,
    cache: str | None = None,
    warm_up: Callable[[], object] | None = None,
) -> JaxJob:
    """Join the group of this job's processes, and wait until the group admits this process. For data-parallel training
    with JAX.

    ``state``: a tree of arrays that each process holds whole. ``step``: number of steps in the loaded checkpoint.
    ``save``: is called with the number of steps, on one rank, if a checkpoint is due, before the first change, and at a
    stop. ``timeout``: seconds after which a step counts as hanging. It must be longer than the compilation of the step.
    ``patience``: seconds within which a group must form. ``cache``: a folder for compiled functions, best on a volume
    that all pods share. ``warm_up``: is called before this process joins, to import and compile the functions of a
    step.

    Up to 20 planned changes happen in place. After a peer has failed, every process ends with exit code 75, for a
    restart.
    """
    check_launch(os.environ)
    return JaxJob(
        current(),
        Environment.read(os.environ),
        state,
        step=step,
        save=save,
        timeout=timeout,
        patience=patience,
        cache=cache,
        warm_up=warm_up,
    )
