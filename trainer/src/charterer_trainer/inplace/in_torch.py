"""Resizing in place for PyTorch: a DistributedDataParallel loop whose ranks change."""

from __future__ import annotations

import copy
import datetime
import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from charterer_trainer.environment import Environment
from charterer_trainer.inplace.board import host_and_port
from charterer_trainer.inplace.job import DEFAULT_PATIENCE_SECONDS, ElasticJob
from charterer_trainer.inplace.launch import check_launch
from charterer_trainer.inplace.torch_state import own_tensors, receive_state, send_state
from charterer_trainer.members import Members
from charterer_trainer.session import Session, current

DEFAULT_TIMEOUT_SECONDS = 300.0
"""Seconds after which a silent peer counts as failed. Torch's default is half an hour.

If a peer is killed, that is noticed at once.
"""


class TorchJob(ElasticJob):
    """A training loop in PyTorch. Read ``model`` again in each step, because a change replaces the object."""

    def __init__(
        self,
        session: Session,
        environment: Environment,
        net: Any,
        optimizer: Any,
        state: Mapping[str, Any],
        *,
        step: int,
        save: Callable[[int], object] | None,
        timeout: float,
        patience: float,
        ddp: Mapping[str, Any],
        warm_up: Callable[[Any], object] | None,
    ) -> None:
        super().__init__(session, environment, step=step, save=save, timeout=timeout, patience=patience)
        self.model: Any = None
        self._torch: Any = importlib.import_module("torch")
        self._dist: Any = importlib.import_module("torch.distributed")
        if self._dist.is_initialized():
            raise RuntimeError("elastic() forms the group of processes itself: leave init_process_group() out")
        self._net = net
        self._optimizer = optimizer
        self._state = dict(state)
        self._ddp = dict(ddp)
        self._on_gpu = any(parameter.is_cuda for parameter in net.parameters())
        self._store: Any = None
        self._warm_up(warm_up)
        self._join_first()

    def shard(self, samples: Any) -> Any:
        """This rank's part of a step's samples. ``samples`` are the samples of all ranks, in the same order on each
        rank.

        Raises ValueError if there are fewer samples than ranks.
        """
        if len(samples) < self.world:
            raise ValueError(f"{len(samples)} samples for {self.world} ranks: each needs one at least")
        self._batch = len(samples)
        return samples[self.rank :: self.world]

    def weight(self, samples: Any) -> float:
        """The factor for the mean loss of these samples. The samples are a part that ``shard`` returned.

        Gradients are averaged over ranks. If parts differ in length, this factor makes the result the mean over the
        whole batch.
        """
        return 1.0 if self._batch is None else len(samples) * self.world / self._batch

    # -- the group

    @property
    def _survives(self) -> bool:
        return not self._on_gpu  # NCCL may leave wrong numbers in the survivors

    def _connect(self, members: Members, name: str) -> None:
        rank = self.rank
        if rank == 0:
            if self._store is None:
                self._store = self._dist.TCPStore("localhost", 0, None, True, wait_for_workers=False)
            port = self._store.port
            self._rendezvous.tell(members, "port", port)
            store = self._store
        else:
            port = self._rendezvous.told(members, "port", self._patience)
            host, _ = host_and_port(members.address(members.leader))
            limit = datetime.timedelta(seconds=self._patience)
            store = self._dist.TCPStore(host, port, None, False, timeout=limit)
        self._init(self._dist.PrefixStore(name, store), rank, self.world)

    def _init(self, store: Any, rank: int, world: int) -> None:
        self._dist.init_process_group(
            "cpu:gloo,cuda:nccl" if self._on_gpu else "gloo",
            store=store,
            rank=rank,
            world_size=world,
            timeout=datetime.timedelta(seconds=self._timeout),
        )

    def _disconnect(self, failed: bool) -> None:
        self.model = None  # this drops the hooks on the parameters and the references to the group
        if self._on_gpu:
            self._torch.cuda.synchronize()
        if self._dist.is_initialized():
            self._dist.destroy_process_group()

    def _place(self) -> None:
        self.model = self._torch.nn.parallel.DistributedDataParallel(self._net, init_sync=False, **self._ddp)

    def _warm_up(self, call: Callable[[Any], object] | None) -> None:
        """Run slow first-time work before this process is ready, while the other processes train."""
        self._init(self._dist.HashStore(), 0, 1)
        with self._torch.random.fork_rng():
            spare = self._torch.nn.parallel.DistributedDataParallel(copy.deepcopy(self._net), **self._ddp)
            if call is not None:
                call(spare)
        del spare
        self._dist.destroy_process_group()

    # -- votes and state

    def _start_vote(self, stop: int, generation: int) -> Any:
        votes = self._torch.tensor([stop, generation], dtype=self._torch.int64)
        return votes, self._dist.all_reduce(votes, op=self._dist.ReduceOp.MAX, async_op=True)

    def _read_vote(self, votes: Any) -> tuple[int, int]:
        numbers, work = votes
        work.wait()
        stop, generation = numbers.tolist()
        return int(stop), int(generation)

    def _share_state(self, source: int, behind: list[int]) -> None:
        ranks = sorted([source, *behind])
        group = None if len(ranks) == self.world else self._dist.new_group(ranks)
        if self.rank == source:
            send_state(self._torch, self._content(), group, source)
        elif self.rank in behind:
            content = receive_state(self._torch, own_tensors(self._torch, self._net.state_dict()), group, source)
            self._net.load_state_dict(content["net"])
            self._optimizer.load_state_dict(content["optimizer"])
            for name, part in self._state.items():
                part.load_state_dict(content["state"][name])

    def _content(self) -> dict[str, Any]:
        return {
            "net": self._net.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "state": {name: part.state_dict() for name, part in self._state.items()},
        }


def elastic(
    net: Any,
    optimizer: Any,
    *,
    state: Mapping[str, Any] | None = None,
    step: int = 0,
    save: Callable[[int], object] | None = None,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    patience: float = DEFAULT_PATIENCE_SECONDS,
    ddp: Mapping[str, Any] | None = None,
    warm_up: Callable[[Any], object] | None = None,
) -> TorchJob:
    """Join the group of this job's processes, and wait until the group admits this process. For
    DistributedDataParallel.

    ``state``: other parts of the training state by name, with ``state_dict`` and ``load_state_dict`` (schedule,
    scaler). ``step``: number of steps in the loaded checkpoint. ``save``: is called with the number of steps, on one
    rank, if a checkpoint is due, before the first change, and at a stop. ``timeout``: seconds after which a silent peer
    counts as failed. It must be longer than the longest step and the longest save. ``patience``: seconds within which a
    group must form, and within which the operator must announce a new group to the survivors of a failed peer. ``ddp``:
    arguments of DistributedDataParallel. ``warm_up``: is called with a copy of the net before this process joins, to
    run a forward and backward pass once.

    Raises RuntimeError under torchrun, with several processes in a pod, or if the pod has several GPUs and the net is
    on one of them.
    """
    check_launch(os.environ, len({parameter.device for parameter in net.parameters()}))
    return TorchJob(
        current(),
        Environment.read(os.environ),
        net,
        optimizer,
        state or {},
        step=step,
        save=save,
        timeout=timeout,
        patience=patience,
        ddp=ddp or {},
        warm_up=warm_up,
    )
