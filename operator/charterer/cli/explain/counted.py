"""The quantities that an option's figures count, and how each of them is known."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from charterer.cli.explain.explanation import Explanation
from charterer.domain.pool import CapacityType
from charterer.domain.reasons.phrases import format_duration
from charterer.policy.explain.alternatives import Alternative
from charterer.policy.outlook.node_source import NodeSource
from charterer.report.document import Block, DocumentTable, Heading, TableColumn, row
from charterer.sentences import count

_ASSUMED = "assumed"
_EXPECTED = "expected"
_MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Counted:
    """One thing that an option's time and cost count: ``what``, how much of it, and how that is ``known``."""

    what: str
    much: str
    known: str


def counted(option: Alternative, explanation: Explanation) -> list[Counted]:
    """Everything that the option's figures count, in the order in which it is put together."""
    chosen, solution = option.option, explanation.solution
    lost = chosen.interruptions
    reports = f", {count(option.reports, 'report')}" if option.reports else ""
    speed = chosen.speed if lost is None else chosen.speed / lost.kept
    found = [Counted("speed", f"{speed:.3g} times the class's reference option", f"{option.basis}{reports}")]
    pool = explanation.report.snapshot.pools.get(chosen.pool)
    if pool is not None and pool.offering is not None:
        kind = "spot" if pool.capacity_type is CapacityType.SPOT else "on-demand"
        nodes = f"{kind} nodes of {count(pool.offering.gpus_per_node, 'GPU')} ({pool.offering.gpu_type})"
        source = "-" if pool.quote is None else pool.quote.source
        found.insert(0, Counted("price", f"{chosen.price}, its share of {nodes}", source))
        if option.nodes not in (NodeSource.HERE, NodeSource.READY):
            starts = pool.known_launches.starts
            declared = f"declared ({format_duration(pool.start_seconds)})"
            known = f"{_MEASURED}, {count(ceil(starts), 'start')}, and {declared}" if starts else "declared"
            start = f"{format_duration(pool.likely_start_seconds)} until a new node is ready"
            found.append(Counted("start", start, known))
    if lost is not None:
        text = (
            f"{lost.per_hour:.2g} an hour, which leave {lost.kept:.0%} of the speed with a checkpoint every "
            f"{format_duration(lost.interval)}"
        )
        found.append(Counted("interruptions", text, _MEASURED if lost.measured else _ASSUMED))
    if option.launch_delay:
        wait = f"{format_duration(option.launch_delay)} until the cloud gives a node"
        late = explanation.report.late_pools.get(chosen.pool)
        found.append(Counted("wait", wait, _MEASURED if late is not None and late.expected.measured else _ASSUMED))
    if option.room_wait:
        found.append(
            Counted("wait", f"{format_duration(option.room_wait)} until jobs that have its GPUs end", _EXPECTED)
        )
    if solution is not None:
        text = f"nodes that start and empty GPUs add {solution.calibration.overhead - 1.0:.0%} to what jobs' GPUs cost"
        known = _MEASURED if solution.calibration.overhead_measured else _ASSUMED
        found.append(Counted("idle GPUs", text, known))
    return found


def counted_blocks(option: Alternative, explanation: Explanation) -> list[Block]:
    """The same as a table."""
    columns = (TableColumn("WHAT"), TableColumn("HOW MUCH", elastic=True), TableColumn("KNOWN"))
    rows = tuple(row(figure.what, figure.much, figure.known) for figure in counted(option, explanation))
    return [Heading("What the chosen option's figures count"), DocumentTable(columns, rows)]
