"""What ``charterer explain`` says of an interactive job's sessions."""

from __future__ import annotations

from charterer.domain.interactive import Interactive, Usage
from charterer.domain.money import Money
from charterer.domain.reports import Progress
from charterer.tools.commands.explain.document import sessions_sentence
from tests.factory import allocation, at, job


def test_it_says_for_how_long_cells_ran_and_what_that_and_the_rest_cost() -> None:
    told = Interactive(asks=2, served=2, busy_cost=Money.parse("9.90"), idle_cost=Money.parse("3.3"))
    progress = Progress(1, None, None, None, at(5), busy=True, usage=Usage(2, None, 1800.0, 600.0, 31.0))
    assert sessions_sentence(job(allocation=allocation(), interactive=told, progress=progress)) == (
        "On its GPUs cells ran for 30 min ($9.90) and none for 10 min ($3.30), at $19.80 an hour. "
        "Its worker starts in 31 s."
    )


def test_of_other_jobs_and_before_the_first_report_it_says_nothing() -> None:
    assert sessions_sentence(job()) == ""
    assert sessions_sentence(job(interactive=Interactive(asks=1))) == ""
