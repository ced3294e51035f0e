"""The adapter of Karpenter: what it asks for, reads, gives up and ends, whatever Karpenter and the API server do."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from charterer.clouds.karpenter import NodeClaims
from charterer.domain.ids import InstanceId, OrderToken
from charterer.domain.node_demands import NodeTaint
from charterer.domain.order import RefusalKind, Scope
from charterer.domain.pool import InstanceState, Partition
from charterer.domain.time import after, format_instant, parse_instant
from charterer.providers.errors import (
    Busy,
    CloudOutcomeUnknown,
    CloudUnauthorized,
    InvalidRequest,
    NotFoundInCloud,
    WouldTerminate,
)
from charterer.providers.karpenter.claims import Claim
from charterer.providers.objects import CallFailure
from charterer.providers.provider import Drained
from tests import factory as make
from tests.unit.providers.claims_world import CLASSES, CLOUD, World

EMPTY = Drained(None, make.T0)


class TestAsking:
    async def test_each_order_gets_a_claim_for_one_offer_at_one_price(self) -> None:
        taint = NodeTaint("nvidia.com/gpu", "present", "NoSchedule")
        w = World(cloud=replace(CLOUD, taints=(taint,), abandon_seconds=86_400))
        await w.ask("c1", "c2")
        assert w.cluster.claims() == ["c1", "c2"]
        claim = w.cluster.claim("c1")
        assert claim["metadata"]["labels"] == {
            "charterer.dev/pool": "a100",
            "charterer.dev/order": "c1",
            "charterer.dev/rental": "pool-c1",
        }
        wanted = {item["key"]: item["values"] for item in claim["spec"]["requirements"]}
        assert wanted == {
            "node.kubernetes.io/instance-type": ["p5.48xlarge"],
            "topology.kubernetes.io/zone": ["us-east-1a"],
            "karpenter.sh/capacity-type": ["on-demand"],
        }
        assert claim["spec"]["resources"] == {"requests": {"nvidia.com/gpu": "8"}}
        assert claim["spec"]["expireAfter"] == "86400s"
        assert claim["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]

    async def test_no_resource_is_asked_for_by_a_name_that_nodes_with_cut_gpus_do_not_show(self) -> None:
        w = World()
        w.pool = replace(w.pool, partition=Partition("1g.10gb"))
        await w.ask("c1")
        assert "resources" not in w.cluster.claim("c1")["spec"]

    @pytest.mark.parametrize(
        ("span", "seconds"),
        [
            ("86400s", 86_400.0),
            ("24h0m0s", 86_400.0),
            ("0s", 0.0),
            (f"{'9' * 400}h", inf),
            ("Never", None),
            ("", None),
            (".h", None),
            ("soon", None),
        ],
    )
    def test_a_claim_says_when_its_machine_expires(self, span: str, seconds: float | None) -> None:
        made = "2026-06-01T00:00:00Z"
        claim = Claim.of(
            {
                "metadata": {"name": "c1", "uid": "u1", "resourceVersion": "1", "creationTimestamp": made},
                "spec": {"expireAfter": span},
                "status": {"providerID": "aws:///a/i-1"},
            }
        )
        expected = None if seconds is None else after(parse_instant(made), seconds)
        assert claim.instance(CLOUD, parse_instant(made)).ends == expected

    async def test_the_same_orders_again_make_nothing_new(self) -> None:
        w = World()
        await w.ask("c1")
        await w.ask("c1", "c2")
        assert w.cluster.claims() == ["c1", "c2"]

    async def test_a_lost_answer_is_told_and_the_next_ask_finds_what_it_did(self) -> None:
        w = World()
        w.cluster.after_effect = True
        w.cluster.failures["create"] = [CallFailure.UNKNOWN]
        with pytest.raises(CloudOutcomeUnknown):
            await w.ask("c1")
        await w.ask("c1")
        assert w.cluster.calls == ["create pool-c1-c1"]

    async def test_a_claim_of_that_name_that_is_somebody_elses_refuses_the_order(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.claim("c1")["metadata"]["labels"]["charterer.dev/order"] = "other"
        refusal = (await w.ask("c1")).refused[OrderToken("c1")]
        assert (refusal.kind, refusal.code) == (RefusalKind.INVALID_REQUEST, "NameTaken")

    async def test_an_order_that_was_refused_is_a_new_attempt_when_it_is_asked_for_again(self) -> None:
        w = World()
        await w.ask("c1")
        before = w.cluster.claim("c1")["metadata"]["uid"]
        w.cluster.dropped("c1", "with fleet error(s), UnfulfillableCapacity: none")
        await w.ask("c1")
        assert w.cluster.claim("c1")["metadata"]["uid"] != before

    @pytest.mark.parametrize(
        ("cloud", "told"),
        [
            (replace(CLOUD, class_name="typo"), "EC2NodeClass 'typo' does not exist"),
            (replace(CLOUD, class_kind="Other"), "the cluster has no kind Other.karpenter.k8s.aws"),
            (replace(CLOUD, class_group="other.cloud"), "the cluster has no kind EC2NodeClass.other.cloud"),
        ],
    )
    async def test_nothing_is_asked_of_a_node_class_that_is_not_there(self, cloud: NodeClaims, told: str) -> None:
        w = World(cloud=cloud)
        refusal = (await w.ask("c1")).refused[OrderToken("c1")]
        assert (refusal.kind, refusal.code) == (RefusalKind.INVALID_REQUEST, "NodeClassNotReady")
        assert told in refusal.message
        assert w.cluster.calls == []

    async def test_nothing_is_asked_of_a_node_class_that_is_not_ready(self) -> None:
        w = World()
        status = {"type": "Ready", "status": "False", "reason": "SubnetsNotFound", "message": "no subnet matches"}
        w.cluster.objects[f"{CLASSES}/gpu"] = {"status": {"conditions": [status]}}
        refusal = (await w.ask("c1")).refused[OrderToken("c1")]
        assert "SubnetsNotFound: no subnet matches" in refusal.message
        assert w.cluster.calls == []

    async def test_without_the_right_to_create_claims_the_chart_value_is_named(self) -> None:
        w = World()
        w.cluster.failures["create"] = [CallFailure.FORBIDDEN]
        with pytest.raises(CloudUnauthorized, match=r"karpenter\.enabled"):
            await w.ask("c1")


class TestSurveys:
    async def test_a_claim_is_an_order_until_it_has_a_machine(self) -> None:
        w = World()
        await w.ask("c1", "c2", "c3")
        w.cluster.seen("c2")
        w.cluster.launched("c3")
        survey = await w.survey()
        assert survey.ordered == {"c1", "c2"}
        (machine,) = survey.instances
        assert (machine.order, machine.state, machine.node) == ("c3", InstanceState.RUNNING, "node-c3")
        assert (machine.provider_id, machine.launched, machine.ended) == ("aws:///c3", make.T0, None)
        assert survey.refusals == ()

    async def test_a_machine_is_billed_from_its_claim_to_when_the_cloud_was_told_to_end_it(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.launched("c1")
        ended = w.pass_time(3600)
        w.cluster.ended("c1")
        w.pass_time(60)
        (machine,) = (await w.survey()).instances
        assert (machine.state, machine.launched, machine.ended) == (InstanceState.ENDED, make.T0, ended)

    @pytest.mark.parametrize("ahead", [900, -900])
    async def test_an_end_is_neither_in_the_future_nor_before_the_deletion(self, ahead: int) -> None:
        """Karpenter's clock goes wrong."""
        w = World()
        await w.ask("c1")
        w.cluster.launched("c1")
        now = w.pass_time(3600)
        w.cluster.now = after(now, ahead)
        w.cluster.condition("c1", "InstanceTerminating", "True", "InstanceTerminating")
        w.cluster.now = now
        w.cluster.dropped("c1")
        (machine,) = (await w.survey()).instances
        assert machine.ended == now

    async def test_a_machine_that_is_being_ended_is_still_billed(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.launched("c1")
        await w.karpenter.terminate(w.pool, InstanceId(w.cluster.claim("c1")["metadata"]["name"]), EMPTY)
        (machine,) = (await w.survey()).instances
        assert (machine.state, machine.ended) == (InstanceState.STOPPING, None)

    async def test_a_claim_is_shown_after_its_end_until_that_can_be_on_record(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.launched("c1")
        w.cluster.ended("c1")
        assert len((await w.survey()).instances) == 1
        w.pass_time(4)
        assert len((await w.survey()).instances) == 1
        w.pass_time(2)
        w.cluster.failures["patch"] = [CallFailure.NOT_DONE]
        assert len((await w.survey()).instances) == 1
        assert len((await w.survey()).instances) == 1
        assert (await w.survey()).instances == ()
        assert w.cluster.claims() == []

    async def test_what_karpenter_could_not_get_is_refused_in_the_clouds_words(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.dropped("c1", "with fleet error(s), InsufficientInstanceCapacity: none left")
        survey = await w.survey()
        (refusal,) = survey.refusals
        assert (refusal.order, refusal.kind, refusal.scope) == ("c1", RefusalKind.STOCK_OUT, Scope.ZONE)
        assert (refusal.where, refusal.code) == ("p5.48xlarge OnDemand us-east-1a", "InsufficientInstanceCapacity")
        assert refusal.message == "with fleet error(s), InsufficientInstanceCapacity: none left"
        assert (survey.ordered, survey.instances) == (frozenset(), ())

    async def test_an_event_may_come_later_than_the_deletion(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.dropped("c1")
        survey = await w.survey()
        assert survey.ordered == {"c1"}
        assert survey.refusals == ()
        w.pass_time(9)
        w.cluster.dropped("c1", "with fleet error(s), VcpuLimitExceeded: too many")
        assert (await w.survey()).refusals[0].kind is RefusalKind.QUOTA_EXCEEDED

    async def test_a_claim_that_goes_without_a_word_is_refused_after_a_while(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.dropped("c1")
        await w.survey()
        w.pass_time(11)
        (refusal,) = (await w.survey()).refusals
        assert (refusal.kind, refusal.code) == (RefusalKind.LAUNCH_FAILED, "NodeClaimDeleted")

    async def test_a_claim_that_goes_because_of_its_node_class_says_what_to_correct(self) -> None:
        """Karpenter 1.15 sends no Event for that."""
        w = World()
        await w.ask("c1")
        w.cluster.dropped("c1")
        del w.cluster.objects[f"{CLASSES}/gpu"]
        (refusal,) = (await w.survey()).refusals
        assert refusal.kind is RefusalKind.INVALID_REQUEST
        assert "EC2NodeClass 'gpu' does not exist" in refusal.message

    async def test_a_launch_that_fails_is_refused_while_karpenter_still_tries(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.seen("c1")
        w.cluster.condition("c1", "Launched", "Unknown", "AMINotFound", "no such image")
        survey = await w.survey()
        (refusal,) = survey.refusals
        assert (refusal.kind, refusal.code, refusal.message) == (
            RefusalKind.INVALID_REQUEST,
            "AMINotFound",
            "no such image",
        )
        assert survey.ordered == {"c1"}

    async def test_a_failure_that_passes_by_itself_is_no_refusal(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.seen("c1")
        w.cluster.condition("c1", "Launched", "Unknown", "RequestLimitExceeded", "slow down")
        assert (await w.survey()).refusals == ()
        w.cluster.dropped("c1")
        assert (await w.survey()).refusals[0].kind is RefusalKind.LAUNCH_FAILED

    async def test_a_machine_says_when_it_expires(self) -> None:
        w = World(cloud=replace(CLOUD, abandon_seconds=3600))
        await w.ask("c1")
        w.cluster.launched("c1")
        assert [instance.ends for instance in (await w.survey()).instances] == [after(make.T0, 3600)]

    async def test_a_claim_that_somebody_deletes_says_so_while_karpenter_waits_for_its_pods(self) -> None:
        """Training pods may not be disrupted: their job has to leave by itself."""
        w = World()
        await w.ask("c1")
        w.cluster.launched("c1")
        w.cluster.change(w.cluster.path("c1"), deletionTimestamp=format_instant(w.pass_time(60)))
        (notice,) = (await w.survey()).notices
        assert (notice.instance, notice.at) == ("pool-c1-c1", after(make.T0, 660))

    async def test_a_claim_of_another_pool_is_not_shown(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.claim("c1")["metadata"]["labels"]["charterer.dev/pool"] = "other"
        assert (await w.survey()).ordered == frozenset()

    async def test_without_karpenter_the_survey_says_so(self) -> None:
        w = World()
        w.cluster.failures["list"] = [CallFailure.ABSENT]
        error = await w.answer()
        assert isinstance(error, NotFoundInCloud)
        assert "is Karpenter installed" in str(error)


class TestGivingUp:
    async def test_a_claim_that_karpenter_has_not_seen_goes(self) -> None:
        w = World()
        await w.ask("c1", "c2")
        await w.withdraw("c1")
        assert w.cluster.claims() == ["c2"]

    async def test_a_claim_that_is_being_launched_is_waited_for(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.seen("c1")
        with pytest.raises(Busy, match="may still get a machine"):
            await w.withdraw("c1")
        assert "deletionTimestamp" not in w.cluster.claim("c1")["metadata"]

    async def test_a_claim_whose_launch_fails_is_deleted_and_goes_when_karpenter_lets_go(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.seen("c1")
        w.cluster.condition("c1", "Launched", "Unknown", "LaunchFailed", "no")
        with pytest.raises(Busy):
            await w.withdraw("c1")
        assert "deletionTimestamp" in w.cluster.claim("c1")["metadata"]
        w.cluster.dropped("c1")
        await w.withdraw("c1")
        assert w.cluster.claims() == []

    async def test_a_claim_that_has_a_machine_is_not_touched(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.launched("c1")
        with pytest.raises(WouldTerminate):
            await w.withdraw("c1")
        assert w.cluster.claims() == ["c1"]

    async def test_an_order_without_a_claim_is_given_up_already(self) -> None:
        w = World()
        await w.withdraw("c1")
        assert w.cluster.calls == []

    async def test_a_claim_that_karpenter_sees_in_that_moment_is_not_deleted(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.before_delete = lambda: w.cluster.seen("c1")
        with pytest.raises(Busy):
            await w.withdraw("c1")
        assert "deletionTimestamp" not in w.cluster.claim("c1")["metadata"]


class TestEnding:
    async def test_the_claim_is_deleted_once(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.launched("c1")
        for _ in range(2):
            await w.karpenter.terminate(w.pool, InstanceId("pool-c1-c1"), EMPTY)
        assert w.cluster.calls == ["create pool-c1-c1", "delete pool-c1-c1"]

    async def test_a_claim_that_is_gone_has_ended(self) -> None:
        await World().karpenter.terminate(World().pool, InstanceId("gone"), EMPTY)

    async def test_a_claim_of_another_pool_is_not_deleted(self) -> None:
        w = World()
        await w.ask("c1")
        w.cluster.claim("c1")["metadata"]["labels"]["charterer.dev/pool"] = "other"
        with pytest.raises(InvalidRequest, match="is not for this pool"):
            await w.karpenter.terminate(w.pool, InstanceId("pool-c1-c1"), EMPTY)
        assert w.cluster.calls == ["create pool-c1-c1"]
