"""Learners to which measured applications reported, for benches that hold a class out."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from charterer.domain.ids import ClassId
from charterer.domain.profile import BatchTerms
from charterer.domain.time import Instant
from charterer.estimate.learner import Learner
from charterer.estimate.observation import Observation
from charterer.tools.simulator.model.ground_truth import GPU_TYPE, Application
from charterer.tools.simulator.model.scenario import class_of
from tests.bench._models import model_of
from tests.bench.learning import setting

STEP_SCATTER, GRADIENT_SCATTER = 0.05, 0.1
KNOWN = ("nothing", "others", "models")
"""What is known beside a class's own reports: nothing; classes of other programs ran; and all say what they are."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Widths from each of which so many reports came, in the first part of a job's life."""

    widths: Sequence[int]
    reports: int
    life: float
    seed: int = 0


def terms(application: Application) -> BatchTerms:
    """What would be declared of the application."""
    measured = application.measurements[GPU_TYPE]
    return BatchTerms(measured.own_batch, measured.largest_batch, measured.largest_local, measured.smallest_local)


def tell(learner: Learner, application: Application, node_gpus: int, runs: Runs) -> None:
    """Reports of an application's class to a learner."""
    class_id, measured = class_of(application.name), application.measurements[GPU_TYPE]
    draw = random.Random(f"{class_id}/{runs}")
    for gpus in runs.widths:
        for at in range(runs.reports):
            done = runs.life * at / runs.reports
            batch = learner.batch(class_id, GPU_TYPE, gpus, done)
            found = measured.measurement(application.epoch(done), gpus, batch)
            if found is None:
                continue
            off = [math.exp(draw.gauss(0.0, scatter)) for scatter in (STEP_SCATTER, *2 * (GRADIENT_SCATTER,))]
            times = -(-gpus // node_gpus), gpus, found.batch, found.step_seconds * off[0], done, Instant(0)
            learner.report(Observation(class_id, GPU_TYPE, *times, found.grad_sqr * off[1], found.grad_var * off[2]))


def up_to_four_nodes(application: Application, node_gpus: int) -> Sequence[int]:
    """The widths of one, two and four nodes, and those below a node."""
    return [gpus for gpus in application.widths if gpus <= node_gpus or gpus in (2 * node_gpus, 4 * node_gpus)]


@cache
def taught(name: str, known: str) -> Learner:
    """A learner to which every application of the setting reported from all widths, or (``nothing``) none."""
    chosen = setting(name)
    classes = {class_of(each): terms(application) for each, application in chosen.applications.items()}
    learner = Learner(classes, {GPU_TYPE: chosen.node_gpus}, 0.1)
    for each, application in chosen.applications.items():
        if known == "models":
            learner.describe(class_of(each), model_of(each))
        if known != "nothing":
            widths = up_to_four_nodes(application, chosen.node_gpus)
            tell(learner, application, chosen.node_gpus, Runs(widths, 15, 1.0))
            learner.profile(class_of(each), widths)
    return learner


def held_out(name: str, application: str, known: str) -> tuple[Learner, ClassId]:
    """The same without the programs of the application's family, and its class, of which nothing was reported."""
    learner, class_id = copy.deepcopy(taught(name, known)), class_of(application)
    for other in setting(name).applications:
        if model_of(other).family == model_of(application).family:
            learner.forget(class_of(other))
    learner.declare(class_id, terms(setting(name).applications[application]))
    if known == "models":
        learner.describe(class_id, model_of(application))
    return learner, class_id
