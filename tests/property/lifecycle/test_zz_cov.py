import collections
from tests.property.lifecycle import rented_world as rw
from tests.property.lifecycle import test_rentals_any_course as t
C=collections.Counter(); P=collections.Counter()
orig=rw.World.execute
def ex(self, step, dec):
    try:
        orig(self, step, dec); C[type(step).__name__]+=1
    except Exception as e:
        C[type(step).__name__+":"+type(e).__name__]+=1; raise
rw.World.execute=ex
o2=t.RentalsOnAnyCourse._nothing_is_left
def nl(self):
    o2(self); P["machines"]+=len(self.world.cloud.machines); P["episodes"]+=1; P["orphans"]+=sum("-o-" in k for k in self.world.adopted.values())
    P["history"]+=len(self.world.budget.balance.history)
t.RentalsOnAnyCourse._nothing_is_left=nl
def test_x():
    from hypothesis.stateful import run_state_machine_as_test
    from hypothesis import settings
    run_state_machine_as_test(t.RentalsOnAnyCourse, settings=settings(max_examples=300, stateful_step_count=60, deadline=None))
    print(C); print(P)
