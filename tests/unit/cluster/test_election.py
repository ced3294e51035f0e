"""The rules of leadership, on clocks of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.cluster.lease import Election, LeaseRecord, LeaseTimes

TIMES = LeaseTimes()


def record(holder: str, version: int = 1, duration: float = 15.0) -> LeaseRecord:
    return LeaseRecord(holder, duration, 0, str(version))


def candidate(identity: str = "me") -> Election:
    return Election(identity, TIMES)


class TestTaking:
    def test_a_lease_that_does_not_exist_or_was_given_up_may_be_taken(self) -> None:
        election = candidate()
        assert election.may_take(0)
        election.observe(record(""), 0)
        assert election.may_take(0)

    def test_our_own_may_be_taken_at_once(self) -> None:
        election = candidate()
        election.observe(record("me"), 0)
        assert election.may_take(0)

    def test_anothers_only_after_it_was_seen_unchanged_for_its_own_duration(self) -> None:
        election = candidate()
        election.observe(record("other", 1, duration=30), 100)
        assert not election.may_take(129.9)
        assert election.may_take(130)

    def test_each_renewal_seen_starts_the_wait_anew_and_seeing_the_same_again_does_not(self) -> None:
        election = candidate()
        election.observe(record("other", 1), 0)
        election.observe(record("other", 2), 14)
        election.observe(record("other", 2), 28)
        assert not election.may_take(28.9)
        assert election.may_take(29)


class TestHolding:
    def test_leadership_is_counted_from_before_it_was_asked_for(self) -> None:
        election = candidate()
        election.renewed(record("me"), asked=100, at=104)
        assert election.leading
        assert election.deadline == 110

    def test_resigning_ends_it(self) -> None:
        election = candidate()
        election.renewed(record("me"), asked=100, at=101)
        election.resign()
        assert not election.leading
        assert election.deadline == float("-inf")

    def test_a_usurper_is_one_who_holds_what_we_believed_to_be_ours(self) -> None:
        election = candidate()
        election.observe(record("other"), 0)
        assert election.other_holder() is None
        election.renewed(record("me", 2), asked=100, at=101)
        assert election.other_holder() is None
        election.observe(record("other", 3), 102)
        assert election.other_holder() == "other"

    @given(asked=st.floats(0, 1e6), to_server=st.floats(0, 3), to_us=st.floats(0, 3), seen_after=st.floats(0, 60))
    def test_a_leader_has_stopped_before_any_candidate_may_take_over(
        self, asked: float, to_server: float, to_us: float, seen_after: float
    ) -> None:
        """Whatever the network takes: the server wrote after we asked, and a candidate saw it after that."""
        leader, other = candidate("leader"), candidate("other")
        leader.renewed(record("leader", 7, TIMES.duration), asked, asked + to_server + to_us)
        seen = asked + to_server + seen_after
        other.observe(record("leader", 7, TIMES.duration), seen)
        spare = TIMES.duration - TIMES.renew_deadline - 1e-6
        assert not other.may_take(leader.deadline + spare)


@pytest.mark.parametrize("times", [{"renew": 10.0}, {"renew_deadline": 15.0}, {"retry": 6.0}, {"duration": 9.0}])
def test_times_that_cannot_keep_two_from_leading_are_refused(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="renew_deadline < duration"):
        LeaseTimes(**times)
