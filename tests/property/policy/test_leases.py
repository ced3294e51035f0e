"""The protocol by which clusters would lease parts of one limit (docs/development/adr/0005): a model, with partitions.

Requests and answers are lost, late, doubled and out of order, and clocks are wrong by up to ``DELTA``. Time and dollars
are whole numbers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tests import lanes

LIMIT, RATE, LEASE, DELTA = 40, 2, 8, 1
"""Dollars for all; dollars that a cluster may commit in a unit of time; units that a lease lasts; error of a clock."""
CLUSTERS = 3


@dataclass(frozen=True)
class Request:
    cluster: int
    number: int
    committed: int
    wish: int


@dataclass(frozen=True)
class Answer:
    cluster: int
    number: int
    granted: int
    until: int


@dataclass
class Account:
    """At home. ``reclaims``: gives what an expired lease has not reported to others; ``risk``: how much that was."""

    reclaims: bool
    granted: list[int] = field(default_factory=lambda: [0] * CLUSTERS)
    committed: list[int] = field(default_factory=lambda: [0] * CLUSTERS)
    until: list[int] = field(default_factory=lambda: [0] * CLUSTERS)
    last: list[int] = field(default_factory=lambda: [0] * CLUSTERS)
    risk: int = 0

    def hears(self, asked: Request, now: int) -> Answer | None:
        """Grant what is asked for as far as there is any; never less than the cluster itself said that it keeps."""
        mine = asked.cluster
        if asked.number <= self.last[mine]:
            return None
        self.last[mine], self.committed[mine] = asked.number, asked.committed
        for other in range(CLUSTERS):
            if self.reclaims and other != mine and now >= self.until[other]:
                self.risk += min(self.granted[other] - self.committed[other], RATE * (LEASE + 2 * DELTA))
                self.granted[other] = self.committed[other]
        free = LIMIT - sum(self.granted) + self.granted[mine]
        self.granted[mine] = max(asked.committed, min(asked.wish, free))
        self.until[mine] = now + LEASE
        return Answer(mine, asked.number, self.granted[mine], self.until[mine])


@dataclass
class Cluster:
    """``ahead``: by how much its clock is wrong."""

    name: int
    ahead: int
    granted: int = 0
    until: int = 0
    committed: int = 0
    number: int = 0

    def asks(self, wish: int) -> Request:
        """What it gives up, it gives up before it says so."""
        self.number += 1
        wish = max(wish, self.committed)
        self.granted = min(self.granted, wish)
        return Request(self.name, self.number, self.committed, wish)

    def hears(self, answer: Answer) -> None:
        """Only the answer to its last request counts."""
        if answer.number == self.number:
            self.granted, self.until = answer.granted, answer.until

    def spends(self, dollars: int, now: int) -> None:
        """Commit as much as its lease allows by its own clock, a margin before the end."""
        if now + self.ahead < self.until - DELTA:
            self.committed += max(min(dollars, RATE, self.granted - self.committed), 0)


def _run(reclaims: bool, seed: int) -> Account:
    """Some weeks of three clusters; every assertion is made at every step."""
    draw = random.Random(seed)
    home = Account(reclaims)
    clusters = [Cluster(name, draw.randint(-DELTA, DELTA)) for name in range(CLUSTERS)]
    requests, answers = list[Request](), list[Answer]()
    cut_off, begins = draw.randrange(CLUSTERS), draw.randrange(5, 20)
    for now in range(80):
        heard = [name for name in range(CLUSTERS) if name != cut_off or not begins <= now < begins + 40]
        for cluster in clusters:
            if draw.random() < 0.4:
                requests.append(cluster.asks(draw.choice([0, 8, 20, LIMIT]) if cluster.name in heard else LIMIT))
            cluster.spends(draw.choice([0, RATE, RATE]), now)
        for request in draw.sample(requests, min(len(requests), 2)):  # soon, late, twice or never
            if request.cluster in heard and (answer := home.hears(request, now)) is not None:
                answers.append(answer)
        for request in requests[-1:]:
            if draw.random() < 0.6 and request.cluster in heard and (answer := home.hears(request, now)) is not None:
                answers.append(answer)
        for answer in [*draw.sample(answers, min(len(answers), 1)), *answers[-1:]]:
            if draw.random() < 0.6 and answer.cluster in heard:
                clusters[answer.cluster].hears(answer)
        assert sum(cluster.committed for cluster in clusters) <= LIMIT + home.risk
    return home


@settings(max_examples=lanes.examples(200))
@given(seed=st.integers(0, 10**6))
def test_no_partition_makes_clusters_spend_more_than_the_limit(seed: int) -> None:
    assert _run(False, seed).risk == 0


@settings(max_examples=lanes.examples(200))
@given(seed=st.integers(0, 10**6))
def test_a_home_that_reclaims_overspends_at_most_what_expired_leases_could_commit_unheard(seed: int) -> None:
    _run(True, seed)


def test_only_a_home_that_reclaims_gives_others_what_a_cluster_that_is_cut_off_has() -> None:
    for reclaims, left in ((False, 10), (True, LIMIT)):
        home = Account(reclaims)
        assert home.hears(Request(0, 1, 0, LIMIT - 10), now=0) == Answer(0, 1, LIMIT - 10, LEASE)
        assert home.hears(Request(1, 1, 0, LIMIT), now=LEASE - 1) == Answer(1, 1, 10, 2 * LEASE - 1)
        assert home.hears(Request(1, 2, 0, LIMIT), now=LEASE) == Answer(1, 2, left, 2 * LEASE)
