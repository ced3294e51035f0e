"""proto"""
from __future__ import annotations
import csv, random, sys, time
from dataclasses import dataclass, replace
from functools import cache
from charterer.domain.ids import Rate, ClassId
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Money, Price
from charterer.domain.time import parse_instant
from charterer.incremental import Memo
from charterer.policy import planner
from charterer.simulate.knowledge.exact_knowledge import ExactKnowledge, exact_phases, exact_profile
from charterer.simulate.model.ground_truth import Application
from charterer.simulate.model.node_market import PoolModel
from charterer.simulate.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.simulate.model.workload import Submission
from charterer.simulate.simulation import Simulation
from demo.condense import data_dir
from tests.bench import _pollux

START = parse_instant("2026-06-01T00:00:00Z")
KINDS = {"good": 0.995, "fair": 0.96, "poor": 0.85}
MOST = 8 * 3600.0

@cache
def rows():
    with (data_dir() / "pollux" / "philly.csv").open(newline="") as lines:
        found = [(float(r["duration"]), int(r["num_gpus"])) for r in csv.DictReader(lines)]
    return [(d, g) for d, g in found if 300 <= d <= MOST and g in (1, 2, 4, 8, 16)]

def philly(seed, count, nodes, size, load, rigid):
    draw = random.Random(seed)
    gpus_all = nodes * size
    jobs = draw.sample(rows(), count)
    span = sum(d * g for d, g in jobs) / (gpus_all * load)
    apps, subs, terms = {}, [], {}
    for number, (d, g) in enumerate(jobs):
        kind = draw.choice(list(KINDS))
        p = KINDS[kind]
        widths = [w for w in (1, 2, 4, 8, 16, 32, 64) if w <= gpus_all]
        t = lambda k: (1 - p) + p / k
        name = f"{kind}-{number}"
        if draw.random() < rigid:
            terms[name] = JobTerms(Widths(g, g, g), ResizePolicy.NEVER)
        else:
            terms[name] = JobTerms(Widths(max(g // 2, 1), g, min(4 * g, gpus_all)), ResizePolicy.RESTART)
        apps[name] = Application(name, (1.0,), ({k: 1.0 / (d * t(k) / t(g)) for k in widths},))
        subs.append(Submission(name, draw.uniform(0, span), name, g))
    subs.sort(key=lambda s: s.at)
    return apps, subs, terms

class Known(ExactKnowledge):
    __slots__ = ()
    def expected_work(self, job):
        return job.application.seconds_left(0.0, 1)

def scenario_philly(seed, count, nodes, size, load, rigid, rate=None, amount=None, sizes=True, start=120.0):
    apps, subs, terms = philly(seed, count, nodes, size, load, rigid)
    pool = PoolModel("p", size, Price.parse(str(2*size)), "v100", start_seconds=start, max_nodes=nodes)
    kind_of = lambda n: n.split("-")[0]
    budget = new_budget(START, rate=Rate(rate / 3600)) if rate else new_budget(START, Money.parse(str(amount)))
    sc = Scenario(START, tuple(subs), apps, (pool,), budget, lambda s: terms[s.name],
                  restart_seconds=30.0, classes=lambda s, a: class_of(kind_of(a.name)))
    known = {}
    for kind in KINDS:
        app = next(a for n, a in apps.items() if kind_of(n) == kind)
        mean = [a.seconds_left(0.0, 1) for n, a in apps.items() if kind_of(n) == kind]
        prof = exact_profile(class_of(kind), exact_phases(app, "v100"), 30.0)
        known[class_of(kind)] = replace(prof, mean_work=sum(mean) / len(mean))
    return sc, (Known(known) if sizes else ExactKnowledge(known))

def scenario_pollux(number, load, rate=None, amount=None, start=120.0):
    subs = _pollux.workload(number); apps = _pollux.applications()
    asked = _pollux.ApplicationWidths(apps)
    demand = sum(asked.asked(s) * apps[s.application].seconds_left(0.0, asked.asked(s)) for s in subs)
    nodes = max(round(demand / (8 * 3600 * load) / 4), 2)
    pool = PoolModel("t4", 4, Price.parse("4"), start_seconds=start, max_nodes=nodes)
    budget = new_budget(START, rate=Rate(rate / 3600)) if rate else new_budget(START, Money.parse(str(amount)))
    sc = Scenario(START, subs, apps, (pool,), budget, asked, restart_seconds=30.0)
    by_class = {class_of(n): a for n, a in apps.items()}
    from charterer.simulate.knowledge.exact_knowledge import exact_profiles
    return sc, ExactKnowledge(exact_profiles(by_class, pool.gpu_type, 30.0)), nodes

def figures(res, apps):
    waits = [j.started - j.submitted for j in res.jobs if j.started is not None]
    total = sum(a for a in (apps[j.application].seconds_left(0.0, min(apps[j.application].widths)) for j in res.jobs if j.finished is not None))
    return dict(jct=res.mean_completion_seconds / 3600, wait=sum(waits) / len(waits) / 3600, held=res.used_gpu_hours, dollars=res.spent.dollars,
                eff=total / 3600 / res.used_gpu_hours, restarts=sum(j.restarts for j in res.jobs) / len(res.jobs), end=res.ended_at / 3600, n=sum(j.finished is not None for j in res.jobs))

def go(sc, kn, plan=planner.plan):
    memo = Memo(); t = time.time()
    res = Simulation(sc, lambda s: plan(s, memo), kn).run()
    f = figures(res, sc.applications); f["took"] = time.time() - t
    return " ".join(f"{k} {v:.3f}" for k, v in f.items())
