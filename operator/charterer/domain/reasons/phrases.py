"""Parts of sentences, such as durations, dollars and options."""

from __future__ import annotations

from charterer.domain.budget import GPU_HOUR
from charterer.domain.ids import BudgetId
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.gpu_types import is_shared
from charterer.sentences import count


def format_duration(duration: float) -> str:
    """A duration in seconds, for people: ``45 s``, ``20 min``, ``1.8 h``, ``2.5 d``."""
    if duration < 100:
        return f"{duration:.0f} s"
    if duration < 6000:
        return f"{duration / 60:.0f} min"
    return f"{duration / 3600:.1f} h" if duration < 172_800 else f"{duration / 86_400:.1f} d"


def format_money(amount: float) -> str:
    """Dollars for people, to the cent."""
    return str(Money.of(amount))


def name(option: Option) -> str:
    """``8 GPUs on a100``, ``a 1g.10gb slice on small``, ``a shared GPU on a100-mps``, ``1 GPU on a100 (outofcore)``."""
    what = part(option.slice) if option.slice else count(option.gpus, "GPU")
    return f"{what} on {option.pool}{as_variant(option.variant)}"


def part(profile: str) -> str:
    """``a 1g.10gb slice``, ``a shared GPU``."""
    return "a shared GPU" if is_shared(profile) else f"a {profile} slice"


def parts(profile: str) -> str:
    """The parts of a GPU at the beginning of a sentence: ``1g.10gb slices``, ``Shared GPUs``."""
    return "Shared GPUs" if is_shared(profile) else f"{profile} slices"


def as_variant(variant: str) -> str:
    """The variant of a job in parentheses; empty for the plain template."""
    return f" ({variant})" if variant else ""


def all_nodes(nodes: int, because: str) -> str:
    """The most nodes of a pool, with the cause: ``all 4 nodes that spec.maxNodes allows``."""
    whole = "the only node" if nodes == 1 else f"all {nodes} nodes"
    return f"{whole} that {because}"


def in_hours(gpu_micros: int) -> str:
    """GPU-microseconds as GPU-hours, to a tenth, such as ``1,204.5``."""
    return f"{gpu_micros / GPU_HOUR:,.1f}"


def of_parent(parent: BudgetId | None) -> str:
    """The budget that owns a limit, if it is an ancestor; otherwise empty."""
    return "" if parent is None else f" of GPUBudget {parent}"


def after_colon(words: str) -> str:
    """Words from a cloud or a cluster, at the end of a sentence; empty without words."""
    return f": {words}" if words else ""


_BYTES = ("memory", "ephemeral-storage", "hugepages-")
"""Prefixes of resources that are counted in bytes."""


def amount(resource: str, thousandths: int) -> str:
    """An amount of a resource as people write it: ``12``, ``0.5``, ``64Gi``."""
    if not resource.startswith(_BYTES):
        return f"{thousandths / 1000:g}"
    size, units = thousandths / 1000, ["", "Ki", "Mi", "Gi", "Ti"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.4g}{units[0]}"
