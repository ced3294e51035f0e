"""A profile as it was declared, with what was learned of its class."""

from __future__ import annotations

from dataclasses import replace

from charterer.api.models.learned import LearnedStatus
from charterer.domain.profile import Phase, Profile, SpeedCurve, ThroughputTable


def learned_profile(
    declared: Profile, status: LearnedStatus, restart_seconds: float | None = None, resize_seconds: float | None = None
) -> Profile:
    """The profile with the learned phases, where there are any, and its mean work in seconds of their reference.

    ``restart_seconds`` and ``resize_seconds``: those that the spec declares; None where it leaves them to be learned.
    """
    first = _reference(declared.declared)
    phases = status.to_domain(first)
    if not phases:
        return declared
    mean = _restated(declared.mean_work, first, phases)
    if declared.mean_work is None and status.mean_steps is not None:
        mean = status.mean_steps / _points(phases[0].curves[0])[0][1]
    failed = tuple(width.to_domain() for width in status.failed)
    return replace(
        declared,
        phases=phases,
        reports=status.reports,
        mean_work=mean,
        failed=failed,
        samples=float(status.batch.own),
        pairs=tuple([pair.to_domain() for pair in status.pairs]),
        checkpoint_seconds=declared.checkpoint_seconds or status.checkpoint_seconds,
        restart_seconds=_first_known(restart_seconds, status.restart_seconds, declared.restart_seconds),
        resize_seconds=_first_known(resize_seconds, status.resize_seconds, declared.resize_seconds),
    )


def _first_known(declared: float | None, learned: float | None, otherwise: float) -> float:
    if declared is not None:
        return declared
    return otherwise if learned is None else learned


def _reference(curves: tuple[SpeedCurve, ...]) -> tuple[str, int] | None:
    """GPU type and width on which declared work is measured."""
    if not curves:
        return None
    form = curves[0].form
    return curves[0].gpu_type, form.points[0][0] if isinstance(form, ThroughputTable) else 1


def _points(curve: SpeedCurve) -> tuple[tuple[int, float], ...]:
    assert isinstance(curve.form, ThroughputTable)
    return curve.form.points


def _restated(mean: float | None, declared: tuple[str, int] | None, phases: tuple[Phase, ...]) -> float | None:
    """Declared mean work, which is seconds on the declared reference over a whole life, on the learned reference.

    Unchanged where the declared reference is on no learned curve: the first width of the first one is taken for it.
    """
    if mean is None or declared is None:
        return mean
    reference = _points(phases[0].curves[0])[0][1]
    life, begin = 0.0, 0.0
    for phase in phases:
        points = next((_points(curve) for curve in phase.curves if curve.gpu_type == declared[0]), ())
        goodput = dict(points).get(declared[1])
        if goodput is None:
            return mean
        life += (phase.until - begin) * reference / goodput
        begin = phase.until
    return mean / life
