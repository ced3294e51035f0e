"""Variants in the spec and the status of a TrainingJob."""

from __future__ import annotations

from dataclasses import replace

from charterer.api import decode
from charterer.api.models.base import dump
from charterer.api.models.trainingjob_status import OptionStatus
from charterer.domain.ids import ClassId
from charterer.domain.job import Variant
from tests.unit.api import values


def test_a_variant_has_a_class_of_its_own_and_the_jobs_widths_unless_it_says_others() -> None:
    one = {"name": "one", "gpus": {"min": 1, "max": 2}, "profileName": "gnn-ooc"}
    job = decode.training_job(values.raw_job(profileName="gnn", variants=[{"name": "plain"}, one])).job
    assert job.variants == (
        Variant("plain", ClassId("research", "gnn.plain"), 1, 1, 8),
        Variant("one", ClassId("research", "gnn-ooc"), 1, 1, 2),
    )
    assert [way.name for way in job.ways] == ["", "plain", "one"]
    assert job.classes[0] == ClassId("research", "gnn")


def test_the_variant_of_an_option_is_read_as_it_was_recorded() -> None:
    option = replace(values.option(), variant="one")
    assert OptionStatus.from_domain(option).to_domain() == option
    assert "variant" not in dump(OptionStatus.from_domain(values.option()))
