"""A step's samples are the same whatever the width, the passes and the number of restarts."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer_trainer import Batches
from charterer_trainer.sampling import shuffled


@given(samples=st.integers(1, 60), batch=st.integers(1, 40), seed=st.integers(0, 3), epochs=st.integers(1, 4))
def test_every_epoch_has_each_sample_once(samples: int, batch: int, seed: int, epochs: int) -> None:
    batches = Batches(samples, batch, seed=seed)
    stream = list(chain.from_iterable(batches.of(step) for step in range(-(-samples * epochs // batch))))
    for epoch in range(epochs):
        assert sorted(stream[epoch * samples : (epoch + 1) * samples]) == list(range(samples))


@given(
    batch=st.integers(1, 64),
    world=st.integers(1, 8),
    most=st.none() | st.integers(1, 16),
    steps=st.lists(st.integers(0, 50), min_size=1, max_size=4),
)
def test_the_ranks_passes_make_up_the_step_and_their_weights_its_mean(
    batch: int, world: int, most: int | None, steps: list[int]
) -> None:
    whole = Batches(100, batch, seed=7)
    try:
        ranks = [Batches(100, batch, rank=rank, world=world, most=most, seed=7) for rank in range(world)]
    except ValueError:
        assert batch // world < max(1, -(-batch // (world * (most or batch))))
        return
    for step in steps:
        parts = [rank.parts(step) for rank in ranks]
        assert Counter(chain.from_iterable(chain.from_iterable(parts))) == Counter(whole.of(step))
        assert {len(of_rank) for of_rank in parts} == {ranks[0].passes}
        assert all(1 <= len(part) <= (most or batch) for part in chain.from_iterable(parts))
        mean = sum(
            rank.weight(part) * sum(part) / len(part)
            for rank, of_rank in zip(ranks, parts, strict=True)
            for part in of_rank
        )
        assert mean / world == pytest.approx(sum(whole.of(step)) / batch)


def test_a_run_goes_on_at_another_batch_size_where_it_stopped() -> None:
    before = Batches(10, 4, seed=1)
    after = Batches(10, 3, seed=1, origin=(5, before.position(5)))
    seen = [*chain.from_iterable(map(before.of, range(5))), *chain.from_iterable(map(after.of, range(5, 15)))]
    for epoch in range(5):
        assert sorted(seen[epoch * 10 : epoch * 10 + 10]) == list(range(10))
    assert (before.epochs(5), after.position(15)) == (2.0, 50)


def test_the_sampler_of_a_loader_begins_at_any_step() -> None:
    batches = Batches(50, 8, rank=1, world=2, most=2)
    sampler = batches.sampler(3, 6)
    assert list(sampler) == [part for step in (3, 4, 5) for part in batches.parts(step)]
    assert len(sampler) == 6


def test_epochs_and_seeds_differ_and_stay_as_they_are() -> None:
    assert list(shuffled(8, 0, 0)) == [0, 5, 3, 7, 1, 6, 4, 2]
    assert len({tuple(shuffled(8, seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_an_order_of_ones_own_is_used_and_must_be_whole() -> None:
    assert Batches(4, 2, order=lambda epoch: [3, 2, 1, 0]).of(0) == [3, 2]
    with pytest.raises(ValueError, match="3 of 4 samples"):
        Batches(4, 2, order=lambda epoch: [3, 2, 1]).of(0)


@pytest.mark.parametrize(
    ("samples", "batch", "more", "message"),
    [
        (0, 1, {}, "there must be samples"),
        (9, 4, {"rank": 2, "world": 2}, "rank 2 of 2"),
        (9, 3, {"world": 4}, "cannot be split"),
        (9, 5, {"world": 2, "most": 1}, "3 passes on each of 2 ranks"),
        (9, 4, {"most": 0}, "at least one sample"),
    ],
)
def test_a_split_that_leaves_a_rank_without_samples_is_refused(
    samples: int, batch: int, more: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Batches(samples, batch, **more)  # type: ignore[arg-type]
