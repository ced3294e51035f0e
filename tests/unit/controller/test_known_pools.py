"""Which pools there are to act for, and which of those with the same machines acts."""

from __future__ import annotations

from dataclasses import replace

from charterer.clouds.fake import FakeGroup
from charterer.cluster.store import ObjectKey
from charterer.controller.surveys import first_come, known_pools, listed_twice, machines_of, with_known_instances
from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from tests import factory as make

NAMED = make.pool(id=PoolId("a100"), uid="u2", created=make.at(0))
RENAMED = make.pool(id=PoolId("renamed"), uid="u1", created=make.at(60), cloud=FakeGroup("http://10.0.0.1", "g"))


def taken(*pools: Pool, **listing: str) -> dict[str, str]:
    """The pools that are taken and by whom; ``listing``: a machine that the cloud lists in a pool."""
    surveys = {PoolId(name): make.survey(make.instance(machine), pool=name) for name, machine in listing.items()}
    machines = {name: machines_of(survey.instances) for name, survey in surveys.items()}
    found = first_come({pool.id: pool for pool in pools}, listed_twice(machines))
    assert list(found) == [pool.id for pool in pools]
    return {name: pool.taken_by for name, pool in found.items() if pool.taken_by is not None}


def known(pools: list[Pool], *rentals: Rental, unread: tuple[str, ...] = ()) -> list[Pool]:
    found = known_pools(
        {ObjectKey("", pool.id): pool for pool in pools}, {ObjectKey("", one.id): one for one in rentals}, unread
    )
    return list(found.values())


class TestPoolsOfTheSameMachines:
    def test_pools_of_different_groups_all_act(self) -> None:
        assert not taken(NAMED, RENAMED)

    def test_of_pools_whose_group_is_one_by_the_clouds_word_only_the_oldest_acts(self) -> None:
        both = [make.pool(**_with_group(pool)) for pool in (RENAMED, NAMED)]
        assert taken(*both) == {"renamed": "a100"}

    def test_the_name_decides_between_pools_created_in_the_same_second(self) -> None:
        both = [make.pool(**_with_group(pool) | {"created": make.at(0)}) for pool in (RENAMED, NAMED)]
        assert taken(*both) == {"renamed": "a100"}

    def test_a_pool_for_which_the_cloud_never_answered_keeps_no_other_from_the_machines(self) -> None:
        older = replace(NAMED, offering=None)
        younger = replace(RENAMED, cloud=NAMED.cloud)
        assert taken(older, younger) == {"a100": "renamed"}
        assert taken(older, replace(younger, offering=None)) == {"renamed": "a100"}

    def test_a_url_written_otherwise_is_the_same_before_the_cloud_has_answered(self) -> None:
        for url in ("http://CLOUD", "http://cloud:80/", "HTTP://cloud./"):
            other = make.pool(id=PoolId("renamed"), created=make.at(60), cloud=FakeGroup(url, "g"))
            assert taken(NAMED, other) == {"renamed": "a100"}, url

    def test_groups_that_list_one_machine_are_one_group(self) -> None:
        assert taken(NAMED, RENAMED, a100="i1", renamed="i1") == {"renamed": "a100"}
        assert not taken(NAMED, RENAMED, a100="i1", renamed="i2")

    def test_a_third_pool_is_taken_by_the_first_though_it_resembles_only_the_second(self) -> None:
        second = make.pool(**_with_group(RENAMED) | {"created": make.at(30)})
        first = make.pool(**_with_group(NAMED))
        third = make.pool(id=PoolId("third"), created=make.at(90), cloud=RENAMED.cloud)
        assert taken(first, second, third) == {"renamed": "a100", "third": "a100"}


class TestPoolsThatAreGone:
    def test_a_rental_keeps_what_is_needed_to_end_it_when_its_pool_is_torn_out(self) -> None:
        (left,) = known([], make.rental())
        assert (left.gone, left.deleting, left.cloud) == (True, True, make.rental().cloud)
        assert left.closed_because == "GPUPool a100 is gone"

    def test_a_pool_that_cannot_be_read_is_not_gone(self) -> None:
        assert known([], make.rental(), unread=("a100",)) == []

    def test_a_pool_created_again_for_its_group_goes_on(self) -> None:
        assert known([NAMED], make.rental()) == [NAMED]

    def test_a_pool_created_again_for_another_group_waits_until_the_former_one_is_empty(self) -> None:
        other = make.pool(uid="u3", cloud=FakeGroup("http://cloud", "other"))
        (left,) = known([other], make.rental())
        assert (left.gone, left.uid, left.cloud) == (True, "u3", make.rental().cloud)
        assert known([other]) == [other]

    def test_what_is_left_of_a_pool_never_acts_before_a_declared_one(self) -> None:
        (left,) = known([], make.rental())
        same = make.pool(id=PoolId("renamed"), created=make.at(900))
        assert taken(left, same) == {"a100": "renamed"}


def _with_group(pool: Pool) -> dict[str, object]:
    """The fields of a pool whose group the cloud has named."""
    offering = make.survey().offering
    named = type(offering)(offering.gpu_type, 4, "g.4", "z1", "account/g")
    return {"id": pool.id, "uid": pool.uid, "created": pool.created, "cloud": pool.cloud, "offering": named}


def test_machines_that_a_cloud_lists_as_before_are_the_objects_of_before() -> None:
    before = make.survey(make.instance("i1"), make.instance("i2"))
    again = with_known_instances(make.survey(make.instance("i1"), make.instance("i2")), before)
    assert again.instances is before.instances
    more = make.survey(make.instance("i3"), make.instance("i1"), replace(make.instance("i2"), node=None))
    found = with_known_instances(more, before)
    assert found == more
    assert [each in map(id, before.instances) for each in map(id, found.instances)] == [False, True, False]
    assert with_known_instances(more, None) is more
