"""The planner and the life cycles in one small world, without a network: what a plan decides is written at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from charterer.domain.ids import StepKind
from charterer.domain.plan import Allocate, Command, Plan, Release, Rent
from charterer.domain.rental import RentalPhase
from charterer.lifecycle import next_steps
from charterer.policy import plan
from tests.property.lifecycle.rented_cloud import Refused
from tests.property.lifecycle.rented_world import Stale, World

_STEPS_OF_A_TURN = 50


@dataclass
class PlannedWorld(World):
    """A world whose operator plans. Runs are not played: a job that is given GPUs holds them."""

    def turns(self, seconds: int, pause: int) -> None:
        """For so long the operator plans, and takes every step there is, every ``pause`` seconds."""
        for _ in range(0, seconds, pause):
            self.turn()
            self.cloud.advance(pause)

    def turn(self) -> Plan:
        """One look, one plan, and steps until there are none."""
        self.look()
        made = plan(self.snapshot())
        for command in made.commands:
            self._write_intent(command)
        for _ in range(_STEPS_OF_A_TURN):
            snapshot = self.snapshot()
            steps = [step for key, step in next_steps(snapshot)[0].items() if key.kind is not StepKind.JOB]
            if not steps:
                break
            for step in steps:
                try:
                    self.execute(step, snapshot)
                except (Stale, Refused):
                    continue
            self.look()
        return made

    def _write_intent(self, command: Command) -> None:
        match command:
            case Rent():
                self.create_rental(command.rental, pool=command.pool, gang=command.gang)
            case Release():
                why = command.reason.code.value
                self.write(
                    self.rentals[command.rental],
                    phase=RentalPhase.DRAINING,
                    released_because=why,
                    released=self.now(),
                )
            case Allocate():
                job = self.jobs[command.job]
                last = job.last_run if command.allocation is None else command.allocation.run
                self.jobs[job.id] = replace(job, allocation=command.allocation, last_run=last)
