"""The samples of a step. They depend only on the step, so a run of any width can continue a former run."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator, Sequence


def shuffled(count: int, seed: int, epoch: int) -> Sequence[int]:
    """The permutation of 0 to ``count`` − 1 for an epoch, the same in every version of Python (Fisher and Yates).

    The call takes one to two seconds for a million samples, once an epoch, and eight bytes for each.
    """
    draw = random.Random(f"{seed}/{epoch}").random
    order = array("q", range(count))
    for last in range(count - 1, 0, -1):
        other = int(draw() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


class Batches:
    """Steps of ``batch`` samples of all ranks together, from endless epochs of ``samples`` samples.

    Each epoch has each sample once, in an order of its own that ``seed`` determines. A batch may end one epoch and
    begin the next. ``rank`` of ``world`` trains on its share of each batch, in passes of at most ``most`` samples whose
    gradients it accumulates. ``order(epoch)`` replaces the permutations, for example by numpy's for many millions of
    samples. ``origin``: the step at which this batch size began, and the number of samples before that step.

    Raises ValueError if there is no sample, or if a rank or a pass would get none.
    """

    def __init__(
        self,
        samples: int,
        batch: int,
        *,
        rank: int = 0,
        world: int = 1,
        most: int | None = None,
        seed: int = 0,
        order: Callable[[int], Sequence[int]] | None = None,
        origin: tuple[int, int] = (0, 0),
    ) -> None:
        if samples < 1 or not 0 <= rank < world:
            raise ValueError(f"{samples} samples, rank {rank} of {world}: there must be samples, and such a rank")
        if most is not None and most < 1:
            raise ValueError(f"most is {most}, and a pass has at least one sample")
        self.samples = samples
        self.batch = batch
        self.rank = rank
        self.world = world
        self.passes = 1 if most is None else -(-batch // (world * most))
        if batch < world * self.passes:
            raise ValueError(
                f"a batch of {batch} cannot be split into {self.passes} passes on each of {world} ranks: "
                "choose a larger batch, a larger `most`, or fewer ranks"
            )
        self._order = order or (lambda epoch: shuffled(samples, seed, epoch))
        self._origin = origin
        self._epoch = -1
        self._permutation: Sequence[int] = ()

    def position(self, step: int) -> int:
        """The number of samples before this step, which a checkpoint stores as ``origin``."""
        return self._origin[1] + (step - self._origin[0]) * self.batch

    def epochs(self, step: int) -> float:
        """The number of epochs before this step."""
        return self.position(step) / self.samples

    def of(self, step: int) -> list[int]:
        """The samples of a step, of all ranks."""
        begin = self.position(step)
        return [self._sample(place) for place in range(begin, begin + self.batch)]

    def share(self, step: int) -> list[int]:
        """This rank's samples of a step: ``batch``/``world`` of them, rounded up or down."""
        begin = self.position(step)
        return [self._sample(place) for place in range(begin + self.rank, begin + self.batch, self.world)]

    def parts(self, step: int) -> list[list[int]]:
        """This rank's samples of a step, one list for each of its ``passes``."""
        share = self.share(step)
        return [share[first :: self.passes] for first in range(self.passes)]

    def weight(self, samples: Sequence[object]) -> float:
        """The factor for the mean loss over these samples, which are one part of a step. With it, the parts yield the
        batch's gradient.

        The batch's gradient is the mean over ranks (as in DistributedDataParallel) of the sum over passes. The factor
        is 1/``passes`` if the batch divides evenly.
        """
        return len(samples) * self.world / self.batch

    def sampler(self, first: int, end: int) -> PartSampler:
        """The parts of the steps from ``first`` to before ``end``: a ``batch_sampler`` for torch's DataLoader."""
        return PartSampler(self, first, end)

    def _sample(self, place: int) -> int:
        epoch, index = divmod(place, self.samples)
        if epoch != self._epoch:
            permutation = self._order(epoch)
            if len(permutation) != self.samples:
                raise ValueError(f"the order of epoch {epoch} has {len(permutation)} of {self.samples} samples")
            self._epoch, self._permutation = epoch, permutation
        return int(self._permutation[index])


class PartSampler:
    """Lists of samples, ``passes`` for each step."""

    def __init__(self, batches: Batches, first: int, end: int) -> None:
        self._batches = batches
        self._steps = range(first, end)

    def __iter__(self) -> Iterator[list[int]]:
        for step in self._steps:
            yield from self._batches.parts(step)

    def __len__(self) -> int:
        return len(self._steps) * self._batches.passes
