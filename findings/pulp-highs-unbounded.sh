#!/bin/sh
# PuLP 3.3.2 with its CBC, with HiGHS 1.16.0 (highspy), and SciPy 1.17.1, Python 3.11 or newer.
#
# An integer program without a limit ("as many nodes as you like, each earns something": a forgotten budget row) is Unbounded, and all three
# interfaces have a word for that: LpStatusUnbounded in PuLP, status 3 in SciPy. HiGHS's presolve says of such a program only "unbounded or
# infeasible". PuLP turns that into Infeasible, the one of the two that is wrong here, and SciPy into 4, "other":
#
#     PuLP, CBC: Unbounded
#     PuLP, HiGHS: Infeasible
#     scipy.optimize.milp: 4
#     scipy.optimize.linprog, the same without integers: 3
#
# PuLP's page on statuses calls Infeasible "no feasible solutions". The program has them: PuLP with HiGHS finds one as soon as the
# objective is taken out. A planner that answers Infeasible by dropping jobs drops them for a missing row. Before believing Infeasible
# of HiGHS, solve without an objective.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pulp==3.3.2 highspy==1.16.0 scipy==1.17.1
cd "$folder"
venv/bin/python - <<'PYTHON'
import pulp
from scipy.optimize import Bounds, linprog, milp


def status(solver: pulp.LpSolver, earns: float = 1.0) -> str:
    program = pulp.LpProblem("nodes", pulp.LpMaximize)
    nodes = pulp.LpVariable("nodes", lowBound=0, cat=pulp.LpInteger)
    program += earns * nodes
    program += nodes >= 2
    program.solve(solver)
    return pulp.LpStatus[program.status]


quiet = dict(msg=False)
found = {
    "PuLP, CBC": status(pulp.PULP_CBC_CMD(**quiet)),
    "PuLP, HiGHS": status(pulp.HiGHS(**quiet)),
    "scipy.optimize.milp": milp([-1.0], integrality=[1], bounds=Bounds(2)).status,
    "scipy.optimize.linprog, the same without integers": linprog([-1.0], bounds=[(2, None)]).status,
}
for interface, said in found.items():
    print(f"{interface}: {said}")
assert list(found.values()) == ["Unbounded", "Infeasible", 4, 3], "changed: the answers agree"
without = status(pulp.HiGHS(**quiet), earns=0.0)
print(f"PuLP, HiGHS, without an objective: {without}")
assert without == "Optimal", "changed: no solution is found without an objective"
print("PuLP 3.3.2: HiGHS's 'unbounded or infeasible' is called Infeasible")
PYTHON
