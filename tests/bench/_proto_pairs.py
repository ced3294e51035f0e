import argparse, sys, os, json
from functools import partial
from itertools import combinations_with_replacement
from time import process_time
from scipy.optimize import linprog
from charterer.incremental import Memo
from charterer.policy import plan
from charterer.policy.outlook import placer as P
from charterer.simulate.knowledge.exact_knowledge import ExactKnowledge, exact_profiles
from charterer.simulate.model.scenario import class_of
from charterer.simulate.simulation import Simulation
from tests.bench import sharing as S
C = S.DOLLARS

PAIRS = []
def lp(kinds, rate, ok=lambda a, b: True):
    names = list(kinds.hours); row = {k: i for i, k in enumerate(names)}
    cols, costs, what = [], [], []
    for k in names:
        for w, s in kinds.speeds[k].items():
            cols.append({row[k]: s}); costs.append(rate + C * w); what.append((k,))
    for a, b in combinations_with_replacement(names, 2):
        if not ok(a, b): continue
        r = {row[a]: kinds.kept[a, b]}; r[row[b]] = r.get(row[b], 0.0) + kinds.kept[b, a]
        cols.append(r); costs.append(2 * rate + C); what.append((a, b))
    A = [[c.get(i, 0.0) for c in cols] for i in range(len(names))]
    f = linprog(costs, A_eq=A, b_eq=[kinds.hours[k] for k in names], method="highs")
    v = {k: f.eqlin.marginals[i] for k, i in row.items()}
    q = dict.fromkeys(names, 0.0)
    for x, w, c in zip(f.x, what, cols):
        if len(w) == 2:
            for k in set(w): q[k] += x * c[row[k]] / kinds.hours[k]
    PAIRS[:] = [(x, w) for x, w in zip(f.x, what) if len(w) == 2 and x > 1e-9]
    return v, q, f.fun

class Oracle:
    def __init__(self, kinds, rate, f=0.6, least=0.5, save=0.02, start=0.0, mean=False):
        self.k, self.rate, self.save, self.start, self.least = kinds, rate, save, start, least
        self.solo = S._best_alone(kinds, rate)
        self.v, self.q, _ = lp(kinds, rate, self.each_gains)
        self.f = f; self.pairs = list(PAIRS); self.mean = mean
        self.mix = {k: (1 - f * self.q[k]) * self.solo[k] + f * self.q[k] * self.v[k] for k in kinds.hours}
    def each_gains(self, a, b):
        ka, kb = self.k.kept[a, b], self.k.kept[b, a]
        return min(ka, kb) >= self.least and all((self.rate + C * k / (ka + kb)) / k < self.solo[n] for n, k in ((a, ka), (b, kb)))
    def rank(self, own, others):
        if not others: return 0.0
        if len(others) > 1: return None
        a, xa = own; _, b, xb = others[0]
        if not self.each_gains(a, b): return None
        ka, kb = self.k.kept[a, b], self.k.kept[b, a]
        t = min(xa / ka, xb / kb) / 3600.0
        va, vb = self.mix[a], self.mix[b]
        g = (va * ka + vb * kb - 2 * self.rate - C) * t + self.start * (self.rate + C)
        if g <= self.save * (va * ka + vb * kb) * t: return None
        return g
    def place(self, k):
        if self.mean:
            ok = [b for b in self.k.hours if self.each_gains(k, b)]
            if not ok: return 0.5
            pairs = [(x, w) for x, w in self.pairs if k in w]
            if self.q[k] <= .01: return sum(self.k.kept[k, b] for b in ok) / len(ok)
            tot = sum(x for x, w in pairs)
            return sum(x * self.k.kept[k, w[1] if w[0] == k else w[0]] for x, w in pairs) / tot
        if self.q[k] <= 0.01:
            if abs(self.solo[k]-(self.rate+C))<1e-9 and any(self.each_gains(k,b) for b in self.k.hours): return (self.rate + C / 2) / (self.solo[k]*.9999)
            return 0.3
        return max((self.rate + C / 2) / self.v[k], (self.rate + C / 2) / (self.rate + C) if abs(self.solo[k]-(self.rate+C))<1e-9 else 0) * 1.0001

def main():
    p = argparse.ArgumentParser()
    p.add_argument("--kinds", nargs="+", default=["usual"]); p.add_argument("--rates", nargs="+", type=float, default=[.3, .6, 1.])
    p.add_argument("--load", type=float, default=20.); p.add_argument("--number", type=int, default=400); p.add_argument("--seed", type=int, default=1)
    p.add_argument("--f", type=float, default=.6); p.add_argument("--start", type=float, default=0.); p.add_argument("--mean", action="store_true"); p.add_argument("--verbose", action="store_true")
    t = p.parse_args()
    base_file = "/tmp/h/pairs_base.json"
    base = json.load(open(base_file)) if os.path.exists(base_file) else {}
    for name in t.kinds:
        kinds = S.kinds_of(name)
        for rate in t.rates:
            o = Oracle(kinds, rate, t.f, start=t.start, mean=t.mean)
            if t.verbose:
                for k in kinds.hours: print(f"   {k:30} h {kinds.hours[k]:.2f} solo {o.solo[k]:.2f} alone1 {rate+C:.2f} v {o.v[k]:.2f} q {o.q[k]:.2f} place {o.place(k):.3f}", {b[:8]: round(kinds.kept[k,b],2) for b in kinds.hours}, "".join(str(int(o.each_gains(k, b))) for b in kinds.hours))
            def run(shared):
                world = S.scenario(kinds, t.number, t.load, rate, t.seed, shared=shared)
                classes = {class_of(n): a for n, a in world.applications.items()}
                P.ORACLE = o if shared else None
                seen = {c: S._as_seen(a, o.place(a.name)) for c, a in classes.items()}
                return Simulation(world, partial(plan, memo=Memo()), ExactKnowledge(exact_profiles(seen, S.RESTART_SECONDS))).run()
            key = f"{name} {rate} {t.load} {t.number} {t.seed}"
            if key not in base:
                r = run(False); base[key] = (S.cost(r, rate), r.spent.dollars, r.mean_completion_seconds)
                json.dump(base, open(base_file, "w"))
            b = base[key]; t0 = process_time(); r = run(True)
            places = sum(bool(j.gpu_types) and j.gpu_types[-1][1] == S.PLACE for j in r.jobs) / len(r.jobs)
            print(f"{name} load {t.load:g} th/c {rate/C:.2f} seed {t.seed} f {t.f} start {t.start}: cost {S.cost(r, rate)/b[0]:.3f} dollars {r.spent.dollars/b[1]:.3f} time {r.mean_completion_seconds/b[2]:.2f} places {places:.0%} restarts {r.restarts/len(r.jobs):.2f} ({process_time()-t0:.0f}s) lp", *("%.3f" % x for x in (lp(kinds, rate)[2] / sum(h*o.solo[k] for k, h in kinds.hours.items()), lp(kinds, rate, o.each_gains)[2] / sum(h*o.solo[k] for k, h in kinds.hours.items()))), flush=True)
main()
