"""Sentences of the options that jobs have, or go to."""

from __future__ import annotations

from charterer.domain.money import ZERO
from charterer.domain.reasons import facts_of_options as of
from charterer.domain.reasons.phrases import format_duration, name
from charterer.domain.reasons.room import tell
from charterer.domain.time import format_minute


@tell.register
def _(job: of.UnknownSpeed) -> str:
    return (
        f"{name(job.option)}: {format_duration(job.seconds)} for {job.cost} if {format_duration(job.left)} of work are "
        "left; no speedup curve is known yet"
    )


@tell.register
def _(job: of.Chosen) -> str:
    faster = "" if job.faster is None else f"; {_faster(job.faster)}"
    fastest = "; nothing on its menu is faster" if job.fastest else ""
    return f"{name(job.option)}: {format_duration(job.seconds)} for {job.cost}{faster}{fastest}"


def _faster(way: of.Faster) -> str:
    return (
        f"{name(way.option)} would save {format_duration(way.saved)} for {way.more}, {way.hourly} per hour saved, "
        f"and the budget pays up to {way.pays}"
    )


@tell.register
def _(job: of.MovePays) -> str:
    if job.saved < 0:
        saves = f"save {-job.cost} for {format_duration(-job.saved)} more"
    else:
        dollars = f"and {-job.cost}" if job.cost < ZERO else f"for {job.cost}"
        saves = f"save {format_duration(job.saved)} {dollars}"
    pays = "any price" if job.pays is None else job.pays
    return (
        f"with {format_duration(job.left)} left on {name(job.here)}, {name(job.to)} {saves}, restart included; "
        f"the budget pays {pays} per hour saved"
    )


@tell.register
def _(job: of.MakesRoom) -> str:
    cost = f"{max(job.cost, -job.cost)} {'more' if job.cost > ZERO else 'less'}"
    return (
        f"{name(job.to)} instead of {name(job.here)}, to make room for jobs that wait: this job ends "
        f"{format_duration(job.later)} later for {cost}, and their time is worth more"
    )


@tell.register
def _(job: of.NodeEmptied) -> str:
    return (
        f"{name(job.option)}: from {job.here} to {job.to}, so that {job.here} can be given back, which saves "
        f"{job.saved}, restarts included"
    )


@tell.register
def _(job: of.SlowNode) -> str:
    return (
        f"{name(job.option)}: another node instead of {job.here}, on which pod {job.pod} computes {job.times:.2f} "
        f"times as long as the others; that saves {format_duration(job.seconds)} and {job.saved} in time and money, "
        "the restart included"
    )


@tell.register
def _(job: of.HadNow) -> str:
    when = f"{format_duration(abs(job.later))} {'later' if job.later >= 0.0 else 'earlier'}"
    cost = f"{max(job.more, -job.more)} {'more' if job.more > ZERO else 'less'}"
    return f"on {name(job.option)}, which it could have now, it would end {when} for {cost}"


@tell.register
def _(job: of.WholeNode) -> str:
    cost = f"{max(job.saved, -job.saved)} {'more' if job.saved > ZERO else 'less'}"
    when = f"{format_duration(abs(job.sooner))} {'later' if job.sooner >= 0.0 else 'sooner'}"
    return (
        f"nodes are paid for as a whole: with {name(job.instead)} those of all jobs in sight would cost {cost}, and "
        f"this job would end {when}"
    )


@tell.register
def _(job: of.RestartedAtOnce) -> str:
    return f"restarted at once on {name(job.option)}"


@tell.register
def _(job: of.RunsMeanwhile) -> str:
    return f"it runs on {name(job.option)} until the other nodes for {name(job.wanted)} are ready"


@tell.register
def _(job: of.TargetKept) -> str:
    return f"target {format_minute(job.target)}"


@tell.register
def _(job: of.TargetNotPaid) -> str:
    return (
        f"target {format_minute(job.target)} cannot be met with what is left of the budget: the fastest path "
        f"that it pays for ends {format_minute(job.end)}"
    )


@tell.register
def _(job: of.TargetOutOfReach) -> str:
    return (
        f"target {format_minute(job.target)} cannot be met, so the job is planned as one without a target: "
        f"the fastest path ends {format_minute(job.end)}"
    )


@tell.register
def _(job: of.TargetMissed) -> str:
    return f"target {format_minute(job.target)} cannot be met: the fastest path ends {format_minute(job.end)}"
