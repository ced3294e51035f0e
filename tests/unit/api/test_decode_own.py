"""Reading Charterer's own kinds: what means what, and what an error says."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from charterer.api import decode
from charterer.api.models.base import Condition, ConditionStatus
from charterer.domain.budget import EVERYTHING, Currency, JobShare, Mode, MoveLimits, Selector
from charterer.domain.errors import InvalidObject, Problem
from charterer.domain.ids import ClassId, JobId
from charterer.domain.job import ResizePolicy, SpotPolicy, Widths
from charterer.domain.money import Money, Price
from charterer.domain.profile import Amdahl, PowerLaw, SpeedCurve, ThroughputTable
from charterer.domain.target import ToldReady
from charterer.domain.time import Instant, QuietHours, Weekday, parse_instant
from tests.unit.api import values


def _problem(raw: dict[str, Any], read: Any) -> Problem:
    with pytest.raises(InvalidObject) as caught:
        read(raw)
    return caught.value.problem


def _gpus(count: object) -> dict[str, Any]:
    return {"name": "c", "resources": {"limits": {"nvidia.com/gpu": count}}}


class TestTrainingJob:
    def test_a_smallest_job_has_the_documented_defaults(self) -> None:
        job = decode.training_job(values.raw_job()).job
        assert (job.namespace, job.name, job.id, job.generation) == ("research", "sft", values.UID, 3)
        assert (job.resize, job.spot, job.suspend) == (ResizePolicy.NEVER, SpotPolicy.NEVER, False)
        assert (job.backoff_limit, job.max_restarts, job.ready_timeout_seconds, job.grace_seconds) == (3, 100, 600, 30)
        assert job.ttl_seconds_after_finished is None
        assert job.told_ready is None
        assert job.created == parse_instant(values.CREATED)
        assert not job.invalid

    def test_of_an_adopted_object_its_own_status_says_since_when_its_pods_are_ready(self) -> None:
        raw = values.raw_job()
        at = "2026-11-26T19:00:00Z"
        raw["status"] = {"conditions": [{"type": "PodsReady", "status": "False", "lastTransitionTime": at}]}
        assert decode.training_job(raw).job.told_ready is None
        raw["spec"]["targetRef"] = {"apiVersion": "batch/v1", "kind": "Job", "name": "sft", "uid": "u"}
        assert decode.training_job(raw).job.told_ready == ToldReady(ready=False, since=parse_instant(at))

    def test_without_a_range_it_is_rigid_at_the_gpus_of_the_first_container(self) -> None:
        job = decode.training_job(values.raw_job(gpus=None, containers=[_gpus("4")])).job
        assert (job.widths, job.pod_gpus) == (Widths(4, 4, 4), 4)

    def test_preferred_is_the_minimum_where_it_is_absent(self) -> None:
        assert decode.training_job(values.raw_job(gpus={"min": 2, "max": 16})).job.widths == Widths(2, 2, 16)

    def test_the_class_of_a_job_is_its_profile_or_itself(self) -> None:
        assert decode.training_job(values.raw_job(profileName="sft-7b")).job.class_id == ClassId("research", "sft-7b")
        assert decode.training_job(values.raw_job()).job.class_id == ClassId.of_job(JobId(values.UID))

    def test_names_that_only_a_join_can_resolve_come_beside_it(self) -> None:
        decoded = decode.training_job(values.raw_job(profileName="sft-7b", priorityClassName="high"))
        assert (decoded.profile_name, decoded.priority_class) == ("sft-7b", "high")

    def test_the_checkpoint_grace_is_the_pods(self) -> None:
        template = {"spec": {"terminationGracePeriodSeconds": 120, "containers": [{"name": "trainer"}]}}
        assert decode.training_job(values.raw_job(template=template)).job.grace_seconds == 120

    def test_the_most_it_may_cost_and_when_it_should_be_done_are_read(self) -> None:
        plain = decode.training_job(values.raw_job()).job
        assert (plain.max_cost, plain.target_completion) == (None, None)
        raw = values.raw_job(maxCost="120.50", targetCompletionTime="2026-06-30T18:00:00+02:00")
        job = decode.training_job(raw).job
        assert (job.max_cost, job.target_completion) == (Money(120_500_000), parse_instant("2026-06-30T16:00:00Z"))

    @pytest.mark.parametrize(
        ("containers", "says"),
        [
            ([{"name": "trainer"}], "no GPUs: set spec.gpus"),
            ([_gpus(0)], "no GPUs: set spec.gpus"),
            ([_gpus("some")], "containers[0].resources: nvidia.com/gpu is 'some'; it must be a whole number of GPUs"),
            ([_gpus("1e99999999999")], "it must be a whole number of GPUs"),
            ([_gpus("1e999999999")], "it must be a whole number of GPUs"),
            ([_gpus(-1)], "nvidia.com/gpu is -1; it must be a whole number of GPUs from 0 to 100000"),
            ([_gpus("1" + "0" * 30)], "it must be a whole number of GPUs"),
            ([_gpus(1), _gpus(1)], "containers[1] asks for 1 nvidia.com/gpu; only the first container"),
        ],
    )
    def test_a_template_that_cannot_run_makes_it_invalid_but_keeps_it_in_sight(
        self, containers: list[dict[str, Any]], says: str
    ) -> None:
        job = decode.training_job(values.raw_job({"lastRun": 7}, gpus=None, containers=containers)).job
        assert says in job.invalid
        assert job.last_run == 7

    def test_a_job_whose_number_of_gpus_cannot_be_read_still_has_a_width(self) -> None:
        assert decode.training_job(values.raw_job(gpus=None, containers=[_gpus("some")])).job.widths == Widths(1, 1, 1)

    @pytest.mark.parametrize("amount", ["1000000000", "-1", "1e3", "0.0000001"])
    def test_an_amount_from_a_billion_dollars_on_is_a_problem(self, amount: str) -> None:
        assert _problem(values.raw_job(maxCost=amount), decode.training_job).field == "spec.maxCost"

    def test_a_template_of_more_than_a_quarter_of_a_mebibyte_makes_it_invalid_before_anything_is_rented(self) -> None:
        def invalid(script: str) -> str:
            template = {"spec": {"containers": [{"name": "trainer", "args": [script]}]}}
            return decode.training_job(values.raw_job(template=template)).job.invalid

        assert invalid("x" * 262_000) == ""
        assert "spec.template takes 262,2" in invalid("x" * 262_200)
        assert "at most 262,144 can be used" in invalid("\x00" * 50_000)

    def test_fields_of_a_later_version_are_ignored(self) -> None:
        assert decode.training_job(values.raw_job(inventedLater="100")) == decode.training_job(values.raw_job())

    def test_a_value_that_is_not_understood_is_named_with_its_field(self) -> None:
        problem = _problem(values.raw_job(gpus={"min": "few", "max": 8}), decode.training_job)
        assert (problem.kind, problem.namespace, problem.name) == ("TrainingJob", "research", "sft")
        assert (problem.field, problem.reason) == ("spec.gpus.min", "InvalidSpec")

    def test_a_status_that_is_not_understood_is_named_with_its_field(self) -> None:
        problem = _problem(values.raw_job({"runs": [{"number": 1}]}), decode.training_job)
        assert (problem.field, problem.reason) == ("status.runs[0].outcome", "InvalidStatus")


class TestSpeedupProfile:
    @staticmethod
    def _raw(**curve: Any) -> dict[str, Any]:
        return values.raw("SpeedupProfile", {"curves": [{"gpuType": "A100", **curve}]}, name="sft-7b")

    def test_each_form_of_curve_is_read(self) -> None:
        points = [{"gpus": 16, "value": 718}, {"gpus": 8, "value": 410.5}]
        curves = [
            {"gpuType": "A100", "throughput": points},
            {"gpuType": "H100", "amdahl": {"parallelFraction": 0.95, "value": 70}},
            {"gpuType": "T4", "power": {"exponent": 0.8, "value": 9}},
        ]
        profile = decode.profile(values.raw("SpeedupProfile", {"curves": curves}, name="sft-7b"))
        assert profile.id == ClassId("research", "sft-7b")
        assert profile.phases[0].curves == (
            SpeedCurve("A100", ThroughputTable(((8, 410.5), (16, 718.0)))),
            SpeedCurve("H100", Amdahl(0.95, 70.0)),
            SpeedCurve("T4", PowerLaw(0.8, 9.0)),
        )
        assert (profile.mean_work, profile.arrivals_per_hour, profile.restart_seconds) == (None, None, 30.0)

    def test_a_curve_that_falls_is_a_problem_with_its_numbers(self) -> None:
        points = [{"gpus": 8, "value": 410}, {"gpus": 16, "value": 400.5}]
        problem = _problem(self._raw(throughput=points), decode.profile)
        assert (problem.field, problem.reason) == ("spec.curves[0].throughput", "CurveNotIncreasing")
        assert problem.message == "throughput falls from 410 on 8 GPUs to 400.5 on 16; leave the slower one out"

    def test_a_curve_that_stays_level_is_none(self) -> None:
        points = [{"gpus": 8, "value": 410}, {"gpus": 16, "value": 410}]
        assert decode.profile(self._raw(throughput=points)).phases[0].curves[0].form == ThroughputTable(
            ((8, 410.0), (16, 410.0))
        )

    def test_a_curve_without_a_form_is_a_problem(self) -> None:
        assert _problem(self._raw(), decode.profile).field == "spec.curves[0]"

    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            ({"curves": [{"gpuType": "A", "power": {"exponent": 5e-324, "value": 1}}]}, "curves[0].power.exponent"),
            ({"curves": [{"gpuType": "A", "power": {"exponent": 0.8, "value": 5e-324}}]}, "curves[0].power.value"),
            (
                {"curves": [{"gpuType": "A", "amdahl": {"parallelFraction": 1, "value": 1e16}}]},
                "curves[0].amdahl.value",
            ),
            (
                {"curves": [{"gpuType": "A", "throughput": [{"gpus": 1, "value": 1e-12}]}]},
                "curves[0].throughput[0].value",
            ),
            ({"meanWork": 1e-300}, "meanWork"),
            ({"meanWork": 1e13}, "meanWork"),
            ({"arrivalsPerHour": 1e-300}, "arrivalsPerHour"),
            ({"arrivalsPerHour": 1e10}, "arrivalsPerHour"),
            ({"restartSeconds": 1e6}, "restartSeconds"),
        ],
    )
    def test_a_number_with_which_nothing_can_be_computed_is_a_problem(self, spec: dict[str, Any], field: str) -> None:
        assert _problem(values.raw("SpeedupProfile", spec), decode.profile).field == f"spec.{field}"

    def test_curves_in_different_units_are_a_problem(self) -> None:
        curves = [
            {"gpuType": "A100", "throughput": [{"gpus": 8, "value": 410}]},
            {"gpuType": "H100", "power": {"exponent": 0.8, "value": 1e13}},
        ]
        problem = _problem(values.raw("SpeedupProfile", {"curves": curves}), decode.profile)
        assert (problem.field, problem.reason) == ("spec.curves[1]", "CurvesNotComparable")
        assert problem.message == (
            "a throughput of 1e+13 is more than 1e+09 times as much or as little as the reference's 410; "
            "give all curves in one unit"
        )

    def test_two_gpu_types_that_differ_as_no_hardware_does_are_a_problem(self) -> None:
        curves = [
            {"gpuType": "NVIDIA-A100-SXM4-40GB", "throughput": [{"gpus": 1, "value": 410}, {"gpus": 2, "value": 800}]},
            {"gpuType": "Tesla-T4", "throughput": [{"gpus": 2, "value": 12000}]},
        ]
        problem = _problem(values.raw("SpeedupProfile", {"curves": curves}), decode.profile)
        assert (problem.field, problem.reason) == ("spec.curves[1]", "CurvesNotComparable")
        assert problem.message == (
            "2 GPUs of Tesla-T4 are 15 times as fast as 2 of NVIDIA-A100-SXM4-40GB (12000 and 800); by their data "
            "sheets that lies between 0.039 and 4: give all curves in one unit, such as samples a second, or leave one "
            "out to have it learned"
        )

    def test_one_gpu_and_a_large_ratio_are_told_as_a_person_would(self) -> None:
        falling = _problem(self._raw(throughput=[{"gpus": 1, "value": 10}, {"gpus": 8, "value": 5}]), decode.profile)
        assert falling.message.startswith("throughput falls from 10 on 1 GPU to 5 on 8;")
        curves = [
            {"gpuType": "NVIDIA-H100-80GB-HBM3", "throughput": [{"gpus": 1, "value": 0.4}]},
            {"gpuType": "NVIDIA-A100-SXM4-40GB", "throughput": [{"gpus": 1, "value": 410}]},
        ]
        problem = _problem(values.raw("SpeedupProfile", {"curves": curves}), decode.profile)
        told = "1 GPU of NVIDIA-A100-SXM4-40GB is 1,020 times as fast as 1 of NVIDIA-H100-80GB-HBM3 (410 and 0.4)"
        assert problem.message.startswith(told)

    @pytest.mark.parametrize("value", [35.0, 410.0, 800.0])
    def test_a_gpu_type_may_be_as_slow_or_fast_as_programs_make_it(self, value: float) -> None:
        curves = [
            {"gpuType": "NVIDIA-A100-SXM4-40GB", "throughput": [{"gpus": 1, "value": 410}]},
            {"gpuType": "Tesla-T4", "throughput": [{"gpus": 1, "value": value}]},
        ]
        assert len(decode.profile(values.raw("SpeedupProfile", {"curves": curves})).declared) == 2

    def test_a_number_of_gpus_given_twice_is_a_problem(self) -> None:
        points = [{"gpus": 8, "value": 410}, {"gpus": 8, "value": 420}]
        assert _problem(self._raw(throughput=points), decode.profile).reason == "DuplicatePoint"


class TestGPUBudget:
    def test_a_smallest_budget_has_the_documented_defaults(self) -> None:
        budget = decode.budget(values.raw_budget())
        assert (budget.id, budget.amount, budget.calendar.time_zone) == ("sft", Money(60_000_000_000), "Etc/UTC")
        assert (budget.mode, budget.hard_limit, budget.max_hourly_rate) == (Mode.ENFORCE, None, None)
        assert (budget.opening_spend, budget.weights, budget.balance) == (None, (), None)
        assert (budget.selector, budget.deleting, budget.guarded) == (Selector((), ()), False, False)

    def test_all_that_may_be_said_is_read(self) -> None:
        selector = {
            "matchLabels": {"team": "research", "env": "prod"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["1", "2"]}],
        }
        raw = values.raw_budget(
            namespaceSelector=selector,
            hardLimit="66000",
            maxHourlyRate="120.5",
            openingSpend="0.000001",
            weights=[{"priorityClassName": "high", "weight": 2}],
            mode="Observe",
        )
        raw["metadata"] |= {"finalizers": ["charterer.dev/in-use"], "deletionTimestamp": values.CREATED}
        budget = decode.budget(raw)
        assert budget.selector == Selector((("env", "prod"), ("team", "research")), (("tier", "In", ("1", "2")),))
        assert (budget.hard_limit, budget.max_hourly_rate) == (Money(66_000_000_000), Price(120_500_000))
        assert (budget.opening_spend, budget.weights, budget.mode) == (Money(1), (("high", 2.0),), Mode.OBSERVE)
        assert (budget.deleting, budget.guarded) == (True, True)

    def test_a_parent_is_read_and_without_a_selector_no_namespace_is_paid(self) -> None:
        plain, raw = decode.budget(values.raw_budget()), values.raw_budget(parent="company")
        del raw["spec"]["namespaceSelector"]
        below = decode.budget(raw)
        assert (plain.parent, below.parent) == (None, "company")
        assert plain.selector.matches({})
        assert not below.selector.matches({"team": "research"})

    def test_pools_are_selected_by_their_labels_and_all_of_them_without_a_selector(self) -> None:
        assert decode.budget(values.raw_budget()).pool_selector == EVERYTHING
        chosen = decode.budget(values.raw_budget(poolSelector={"matchLabels": {"example.com/gpu": "a100"}}))
        assert chosen.pool_selector == Selector((("example.com/gpu", "a100"),))
        raw = values.raw_pool()
        raw["metadata"]["labels"] = {"example.com/gpu": "a100"}
        assert chosen.pool_selector.matches(decode.pool(raw).labels)
        assert not chosen.pool_selector.matches(decode.pool(values.raw_pool()).labels)

    @pytest.mark.parametrize(
        ("selector", "field", "said"),
        [
            ({"matchLabels": {"a b": "c"}}, "matchLabels", "'a b' is no key of a label"),
            ({"matchLabels": {"a": "c d"}}, "matchLabels", "'c d' is no value of a label"),
            ({"matchExpressions": [{"key": "-a", "operator": "Exists"}]}, "matchExpressions[0].key", "'-a' is no key"),
            ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["é"]}]}, None, "'é' is no value"),
            ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "matchExpressions[0]", "needs values"),
            (
                {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
                "matchExpressions[0]",
                "operator Exists of key 'a' takes no values",
            ),
            (
                {"matchExpressions": [{"key": "a", "operator": "Like"}]},
                "matchExpressions[0].operator",
                "Input should be 'In', 'NotIn', 'Exists' or 'DoesNotExist'",
            ),
        ],
    )
    def test_an_invalid_selector_names_field_and_value(self, selector: Any, field: str | None, said: str) -> None:
        problem = _problem(values.raw_budget(poolSelector=selector), decode.budget)
        assert (problem.kind, problem.name) == ("GPUBudget", "sft")
        assert problem.field == f"spec.poolSelector.{field or 'matchExpressions[0].values[0]'}"
        assert said in problem.message

    def test_carry_over_exploration_and_limits_on_moves_are_read(self) -> None:
        plain = decode.budget(values.raw_budget())
        assert (plain.carry_over_percent, plain.exploration_percent, plain.moves) == (0, 2, MoveLimits())
        hours = {"start": "08:30", "end": "24:00", "days": ["Monday", "Sunday"]}
        moves = {"maxPerJobPerDay": 2, "quietHours": [hours, {"start": "22:00", "end": "06:00"}]}
        budget = decode.budget(values.raw_budget(carryOverPercent=50, explorationPercent=0, moves=moves))
        assert (budget.carry_over_percent, budget.exploration_percent) == (50, 0)
        work = QuietHours(510, 1440, frozenset({Weekday.MONDAY, Weekday.SUNDAY}))
        assert budget.moves == MoveLimits(2, (work, QuietHours(1320, 360)))

    def test_amounts_in_another_currency_are_dollars_at_the_rate_of_its_owner(self) -> None:
        rate = {"perDollar": "0.92", "asOf": "2026-11-01"}
        raw = values.raw_budget(
            amount="18400", hardLimit="23000", maxHourlyRate="9.20", maxPaysPerHourSaved="4.60", openingSpend="920",
            currency="EUR", currencyRate=rate, jobDefaults={"maxCost": "46"},
        )  # fmt: skip
        budget = decode.budget(raw)
        assert budget.job_max_cost == Money.parse("50")
        assert (budget.amount, budget.hard_limit) == (Money.parse("20000"), Money.parse("25000"))
        assert (budget.max_hourly_rate, budget.opening_spend) == (Price.parse("10"), Money.parse("1000"))
        assert budget.rate_ceiling == pytest.approx(5 / 3600)
        assert budget.currency == Currency("EUR", 920_000, date(2026, 11, 1))

    @pytest.mark.parametrize(
        ("spec", "told"),
        [
            ({"currency": "EUR"}, "currency is EUR: spec.currencyRate says what a dollar costs"),
            ({"currencyRate": {"perDollar": "1", "asOf": "2026-11-01"}}, "currency is USD"),
            (
                {"currency": "EUR", "currencyRate": {"perDollar": "0.01", "asOf": "2026-11-01"}},
                "'0.01' is not from 0.1",
            ),
            ({"currency": "EUR", "currencyRate": {"perDollar": "1", "asOf": "soon"}}, "soon"),
        ],
    )
    def test_a_currency_without_what_a_dollar_costs_is_refused(self, spec: dict[str, Any], told: str) -> None:
        assert told in _problem(values.raw_budget(**spec), decode.budget).message

    def test_shares_are_parts_of_the_amount_in_their_order(self) -> None:
        shares = [
            {"name": "ann", "user": "=cmd|Zoë@example.com", "percent": 30},
            {"name": "thesis", "label": {"key": "example.com/project", "value": "thesis"}, "amount": "6000"},
            {"name": "demo", "namespace": "demo", "label": {"key": "kind", "value": ""}, "percent": 60},
        ]
        assert decode.budget(values.raw_budget(amount="60000", shares=shares)).job_shares == (
            JobShare("ann", 0.3, user="=cmd|Zoë@example.com"),
            JobShare("thesis", 0.1, label=("example.com/project", "thesis")),
            JobShare("demo", 0.6, namespace="demo", label=("kind", "")),
        )

    @pytest.mark.parametrize(
        ("share", "told"),
        [
            ({"user": "ann", "percent": 120}, "less than or equal to 100"),
            ({"user": "ann", "percent": 0}, "greater than or equal to 1"),
            ({"user": "ann"}, "share x: say either percent or amount"),
            ({"user": "ann", "percent": 10, "amount": "5"}, "share x: say either percent or amount"),
            ({"percent": 10}, "share x: say whose jobs they are: user, namespace, label"),
            ({"label": {"key": "no key", "value": "v"}, "percent": 10}, "'no key' is no key of a label"),
            ({"user": "ann", "percent": 60}, "add up to 110.0% of amount (first 50.0%, x 60.0%): make some smaller"),
            ({"user": "ann", "amount": "40000"}, "add up to 116.7% of amount (first 50.0%, x 66.7%)"),
        ],
    )
    def test_a_share_that_cannot_be_is_refused_with_one_sentence(self, share: dict[str, Any], told: str) -> None:
        shares = [{"name": "first", "user": "bob", "percent": 50}, {"name": "x", **share}]
        assert told in _problem(values.raw_budget(amount="60000", shares=shares), decode.budget).message

    def test_no_share_is_an_amount_of_nothing(self) -> None:
        shares = [{"name": "x", "user": "ann", "amount": "5"}]
        assert "amount is 0" in _problem(values.raw_budget(amount="0", shares=shares), decode.budget).message

    def test_money_that_cannot_be_read_names_field_and_value(self) -> None:
        problem = _problem(values.raw_budget(amount="60k"), decode.budget)
        assert problem.field == "spec.amount"
        assert problem.message.startswith("'60k' is no amount of money; write dollars")

    def test_a_number_where_a_decimal_string_is_meant_is_a_problem(self) -> None:
        problem = _problem(values.raw_budget(amount=60000), decode.budget)
        assert problem.message == "60000 is not a string: put it in quotes"

    @pytest.mark.parametrize("zone", ["Europe/Atlantis", "Local", "Etc"])
    def test_an_unknown_time_zone_is_a_problem(self, zone: str) -> None:
        problem = _problem(values.raw_budget(timeZone=zone), decode.budget)
        assert (problem.field, problem.reason) == ("spec.timeZone", "UnknownTimeZone")
        assert zone in problem.message


def test_conditions_are_read_back_with_the_time_of_their_last_transition() -> None:
    condition = {
        "type": "Admitted",
        "status": "False",
        "reason": "NoBudget",
        "message": "no budget selects it",
        "lastTransitionTime": "1970-01-01T00:00:01Z",
    }
    expected = Condition(
        type="Admitted",
        status=ConditionStatus.FALSE,
        reason="NoBudget",
        message="no budget selects it",
        last_transition_time=Instant(1_000_000),
    )
    assert decode.conditions({"conditions": [condition]}) == (expected,)
    assert decode.conditions({}) == decode.conditions({"conditions": [{"type": 1}]}) == ()
