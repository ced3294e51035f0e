"""The names of runs and of their Kubernetes objects."""

from __future__ import annotations

RUN_LABEL_PREFIX = "run.charterer.dev/"
"""Node labels ``run.charterer.dev/<first 8 of the job's uid>: r<run>`` carry out a placement (``Job.run_label``)."""


def run_name(job_name: str, run: int) -> str:
    """The name of a run and of its Kubernetes object; its pods are ``<run name>-<index>``."""
    return f"{job_name}-r{run}"


def job_of_run(name: str, run: int) -> str:
    """The name of the TrainingJob whose run of that number has this name."""
    return name.removesuffix(f"-r{run}")


def run_number(name: str, job_name: str | None = None) -> int | None:
    """The number of the run of this name (of the job ``job_name``, if given); None where it is no run's name."""
    job, separator, digits = name.rpartition("-r")
    if not separator or not (digits.isascii() and digits.isdecimal()) or len(digits) > 9:
        return None
    number = int(digits)
    return number if run_name(job if job_name is None else job_name, number) == name else None
