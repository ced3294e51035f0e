"""The table of ``charterer plan`` that says what a new job of each class is given."""

from __future__ import annotations

from collections.abc import Sequence

from charterer.cli.shared import formatting
from charterer.cli.shared.plan_report import ClassRow
from charterer.domain.job import SpotPolicy
from charterer.domain.reasons.phrases import as_variant, format_money
from charterer.policy.options.menu_key import MenuKey
from charterer.report.document import Block, DocumentTable, Heading, TableColumn, row
from charterer.sentences import count


def class_blocks(classes: Sequence[ClassRow]) -> list[Block]:
    """The table with its heading; nothing where there is no class."""
    if not classes:
        return []
    columns = (
        TableColumn("BUDGET", optional=True),
        TableColumn("CLASS"),
        TableColumn("JOBS/H", right=True),
        TableColumn("JOB TAKES", right=True),
        TableColumn("JOB COSTS", right=True),
        TableColumn("GIVEN", elastic=True),
    )
    rows = tuple(
        row(
            job_class.budget,
            _name(job_class, classes),
            f"{job_class.arrivals_per_hour:.3g}",
            formatting.duration(job_class.seconds),
            format_money(job_class.dollars),
            formatting.mixed(job_class.paths),
        )
        for job_class in classes
    )
    return [Heading("What a new job of each class is given"), DocumentTable(columns, rows)]


def _name(job_class: ClassRow, classes: Sequence[ClassRow]) -> str:
    """The class, its weight, and, where it has several rows, the terms in which they differ.

    A job that follows no profile is a class of its own: jobs of the same terms have one row, which names one of them.
    """
    name = _profile(job_class)
    if not name and job_class.jobs:
        first, *others = job_class.jobs
        return f"{first} and {len(others)} like it" if others else first
    alike = [other for other in classes if (other.budget, _profile(other)) == (job_class.budget, name)]
    terms = [f"weight {job_class.weight:g}"] if job_class.weight != 1.0 else []
    for words in (_widths, _asked, _gpu_types, _slices, _shared, _spot, _resize, _failed, _variants):
        if len({words(other.menu) for other in alike}) > 1:
            terms.append(words(job_class.menu))
    if not name:
        terms.insert(0, "no profile")
    return " ".join(filter(None, [name, f"({', '.join(terms)})" if terms else ""]))


def _profile(job_class: ClassRow) -> str:
    return str(job_class.class_id) if job_class.class_id.has_profile else ""


def _widths(menu: MenuKey) -> str:
    return f"{menu.least} to {menu.most} GPUs" if menu.least < menu.most else count(menu.least, "GPU")


def _asked(menu: MenuKey) -> str:
    return f"asks for {menu.preferred}"


def _gpu_types(menu: MenuKey) -> str:
    return f"on {' or '.join(menu.gpu_types)}" if menu.gpu_types else "any GPU type"


def _slices(menu: MenuKey) -> str:
    return f"or a slice of {' or '.join(menu.slices)}" if menu.slices else "no slices"


def _shared(menu: MenuKey) -> str:
    return f"or a shared GPU with {menu.shared_mib:,} MiB" if menu.shared_mib else "no shared GPU"


def _spot(menu: MenuKey) -> str:
    return "spot allowed" if menu.spot is SpotPolicy.ALLOWED else "no spot"


def _resize(menu: MenuKey) -> str:
    return "resized in place" if menu.fewest_pods else "restarted to resize"


def _variants(menu: MenuKey) -> str:
    tries = ", one of which it may try" if menu.tries else ""
    return f"variants {', '.join(variant.name for variant in menu.variants)}{tries}" if menu.variants else "no variants"


def _failed(menu: MenuKey) -> str:
    widths = sorted(f"{gpus} on {pool}{as_variant(variant)}" for pool, gpus, variant in menu.failed)
    return f"failed on {', '.join(widths)}" if widths else "never failed"
