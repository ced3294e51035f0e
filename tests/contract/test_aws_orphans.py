"""Instances of this cluster without a GPURental, whatever became of it, are ended within a few surveys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import InstanceId, RentalId
from charterer.domain.plan import Release
from charterer.domain.pool import InstanceState, Survey
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.steps import Adopt, MarkEnded, RecordOrphan, Refresh, Terminate
from charterer.domain.time import instant
from charterer.lifecycle import next_steps
from charterer.policy import plan
from charterer.providers.aws.listing import LAG_SECONDS, gang_tags
from charterer.providers.aws.permissions import CLUSTER_TAG, ORDER_TAG, POOL_TAG
from charterer.providers.errors import InvalidRequest
from tests import factory as make
from tests.contract.aws_pools import GROUP, TYPE, AwsMarket, orders
from tests.contract.conftest import OpenAws
from tests.contract.wire import CLUSTER

OURS = {CLUSTER_TAG: CLUSTER, POOL_TAG: "aws"}
SURVEY_SECONDS = 15.0


async def surveys_until_settled(m: AwsMarket) -> int:
    """How many surveys an operator with one budget, and no rental on record, makes until all it was billed is ended."""
    rentals: dict[RentalId, Rental] = {}
    for number in range(1, 20):
        m.account.clock.advance(SURVEY_SECONDS)
        survey, now = await m.survey(), instant(m.account.clock.now)
        pool = replace(m.pool, offering=survey.offering, quote=await m.provider.quote(m.pool))
        snapshot = make.snapshot(make.budget(), pool, survey, *rentals.values(), now=now)
        for command in plan(snapshot).commands:
            if isinstance(command, Release):
                released = replace(rentals[command.rental], released=now, released_because="Idle")
                rentals[command.rental] = replace(released, phase=RentalPhase.DRAINING)
        for step in next_steps(snapshot)[0].values():
            match step:
                case RecordOrphan(rental=name, instance=machine):
                    rentals[name] = make.rental(
                        name, machine, pool=pool.id, cloud=pool.cloud, created=now, phase=RentalPhase.STARTING
                    )
                case Adopt(rental=name, instance=machine):
                    rentals[name] = replace(rentals[name], instance=machine.id, segments=machine.segments)
                case Refresh(after=listed):
                    rentals[listed.id] = listed
                case Terminate(instance=machine):
                    await m.terminate(machine.id)
                case MarkEnded(rental=name):
                    rentals[name] = replace(rentals[name], phase=RentalPhase.ENDED)
        if [rental.phase for rental in rentals.values()] == [RentalPhase.ENDED] * len(m.machines):
            return number
    raise AssertionError("an orphan is billed for ever")


async def test_instances_whose_rentals_are_gone_are_ended_within_a_few_surveys(aws: OpenAws) -> None:
    m = aws()
    await m.ask("one")
    await m.ask("two", "three", together=True)
    assert await surveys_until_settled(m) <= 10
    assert m.truth() == []


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param({}, id="launched by hand with the tags of the pool"),
        pytest.param({ORDER_TAG: "cnever"}, id="an order that was never on record"),
        pytest.param(gang_tags([order.token for order in orders("a", "b")]), id="half of a gang, without a name"),
    ],
)
async def test_an_instance_whose_rental_was_never_written_is_ended_too(aws: OpenAws, tags: dict[str, str]) -> None:
    m = aws()
    m.account.start_by_hand(TYPE, "subnet-a", OURS | tags)
    assert await surveys_until_settled(m) <= LAG_SECONDS / SURVEY_SECONDS + 4
    assert m.truth() == []


@pytest.mark.parametrize("fleet", [True, False], ids=["fleet", "group"])
async def test_a_machine_on_record_is_told_of_although_its_tags_are_gone(aws: OpenAws, *, fleet: bool) -> None:
    """Whoever removes tags removes no machine: it is billed, so that its rental stays."""
    m = aws() if fleet else aws(GROUP)
    await m.ask("one")
    m.account.clock.advance(2 * LAG_SECONDS)
    ((machine, _),) = (await m.held()).items()
    m.machines[0].tags.clear()
    known = {m.pool.id: [InstanceId(machine), InstanceId("i-00000000000000000")]}
    survey = (await m.provider.survey([m.pool], known))[m.pool.id]
    assert isinstance(survey, Survey)
    (listed,) = survey.instances
    assert (listed.id, listed.state) == (machine, InstanceState.RUNNING)
    with pytest.raises(InvalidRequest, match="is not tagged as of this cluster and pool"):
        await m.terminate(machine)
    m.account.end(machine)
    m.account.clock.advance(60.0)
    survey = (await m.provider.survey([m.pool], known))[m.pool.id]
    assert isinstance(survey, Survey)
    assert [each.state for each in survey.instances] == [InstanceState.ENDED]
