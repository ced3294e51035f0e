"""The answer of ``charterer predict``, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from charterer.cli.predict.prediction import ClassPrediction, StartPrediction
from charterer.cli.shared.output import JsonValue
from charterer.domain.profile import CurveSource
from charterer.report.document import Block, Document, DocumentTable, Heading, Paragraph, TableColumn, Tone, row

_STEPS = (
    TableColumn("CLASS"),
    TableColumn("GPUS", right=True),
    TableColumn("GPU TYPE"),
    TableColumn("BATCH", right=True),
    TableColumn("STEP", right=True),
    TableColumn("IN 9 OF 10 CASES", right=True),
    TableColumn("SAMPLES/S", right=True),
    TableColumn("SOURCE"),
)
_TIMES = (TableColumn("OF"), TableColumn("SECONDS", right=True), TableColumn("BASIS"))


def predict_document(classes: Sequence[ClassPrediction], starts: Sequence[StartPrediction]) -> Document:
    """Tables of steps, checkpoints and start-ups, and what to declare where nothing can be said."""
    blocks: list[Block] = [Heading("Seconds of a training step")]
    rows = [
        row(
            str(found.class_id),
            str(step.gpus),
            step.gpu_type,
            "-" if step.batch is None else str(step.batch),
            _seconds(step.seconds),
            f"{_seconds(step.low)} to {_seconds(step.high)}",
            f"{step.samples_per_second:,.3g}",
            step.source.value,
        )
        for found in classes
        for step in found.steps
    ]
    if rows:
        blocks.append(DocumentTable(_STEPS, tuple(rows)))
    blocks += [Paragraph(sentence, tone) for sentence, tone in _sentences(classes)]
    blocks.append(Heading("Seconds of a checkpoint"))
    checkpoints = [
        row(str(found.class_id), f"{found.checkpoint_seconds:.3g}", found.checkpoint_basis.value) for found in classes
    ]
    blocks.append(DocumentTable(_TIMES, tuple(checkpoints)))
    if starts:
        blocks.append(Heading("Seconds until a new node is ready"))
        blocks.append(
            DocumentTable(_TIMES, tuple(row(start.pool, f"{start.seconds:.0f}", start.basis) for start in starts))
        )
    return Document("charterer predict", tuple(blocks))


def _sentences(classes: Sequence[ClassPrediction]) -> list[tuple[str, Tone]]:
    found = []
    for each in classes:
        if each.missing:
            text = f"{each.class_id}: no job of it has run; {each.missing} would say what to expect."
            found.append((text, Tone.FAINT))
        elif not each.steps:
            found.append((f"{each.class_id}: the data sheet of no GPU type here is known.", Tone.FAINT))
        elif any(step.source is CurveSource.PRIOR for step in each.steps):
            others = f"{each.alike or 'no'} other {'class' if each.alike == 1 else 'classes'} with one ran here"
            text = f"{each.class_id}: by its spec.model; {others}. The first report outweighs this."
            found.append((text, Tone.PLAIN))
    return found


def predict_json(classes: Sequence[ClassPrediction], starts: Sequence[StartPrediction]) -> dict[str, JsonValue]:
    """The same for programs."""
    return {
        "classes": [
            {
                "namespace": found.class_id.namespace,
                "name": found.class_id.name,
                "steps": [
                    {
                        "gpuType": step.gpu_type,
                        "gpus": step.gpus,
                        "batch": step.batch,
                        "seconds": step.seconds,
                        "low": step.low,
                        "high": step.high,
                        "samplesPerSecond": step.samples_per_second,
                        "source": step.source.value,
                    }
                    for step in found.steps
                ],
                "checkpointSeconds": found.checkpoint_seconds,
                "checkpointBasis": found.checkpoint_basis.value,
                "classesAlike": found.alike,
                "missing": found.missing or None,
            }
            for found in classes
        ],
        "pools": [
            {"name": start.pool, "startSeconds": start.seconds, "seen": start.seen, "declaredSeconds": start.declared}
            for start in starts
        ],
    }


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1.0 else f"{1000.0 * value:.3g} ms"
