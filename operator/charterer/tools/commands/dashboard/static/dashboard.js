// The page: parts of the server's stream in, tables, charts and lanes out. Text is only ever set as text.

import { Chart, darkness, daysChart, dollars, frontierChart, palette, rateChart, seconds, spendChart, spentPoints, straightLine } from "./charts.js";
import { Lanes } from "./lanes.js";

const $ = (id) => document.getElementById(id);
const parts = {}, lanes = new Map(), charts = {};
let dirty = false, shown = 25, page = 0, broken = false, theme = 0, selected = null;
const PAGE = 50;
const CAUSES = [["job", "training"], ["starting", "starting"], ["idle", "idle"], ["ending", "ending"], ["incomplete_gang", "incomplete gang"]];

const el = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child != null));
  return made;
};
const duration = (value) => {
  if (value == null) return "–";
  if (value < 60) return `${Math.round(value)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  return value < 172800 ? `${(value / 3600).toFixed(1)} h` : `${(value / 86400).toFixed(1)} d`;
};
const clock = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false });
const when = (at) => at == null ? "–" : clock.format(at);
const byName = new Intl.Collator(undefined, { numeric: true });
const gpusOf = (lane) => lane.finished == null ? lane.runs.findLast((run) => run.until == null)?.gpus ?? 0 : 0;
const percent = (part) => `${(part * 100).toFixed(part < 0.1 ? 1 : 0)}%`;

// Columns are [heading, number?]; a row is a list of cells, of text or of elements. The first cell of a row heads it.
function table(caption, columns, rows, here = -1) {
  return el("table", {}, el("caption", { textContent: caption }),
    el("thead", {}, el("tr", {}, ...columns.map(([heading, number]) => el("th", { scope: "col", className: number ? "number" : "", textContent: heading })))),
    el("tbody", {}, ...rows.map((row, at) => el("tr", { className: at === here ? "here" : "" }, ...row.map((cell, index) =>
      el(index ? "td" : "th", { ...(index ? {} : { scope: "row" }), className: columns[index][1] ? "number" : "" }, cell))))));
}
// A table that is folded away is made when it is opened.
const folded = (id, made) => { if ($(id).parentElement.open) $(id).replaceChildren(made()); };
const chart = (id) => charts[id] ??= new Chart($(id));

// --- the stream ------------------------------------------------------------------------------------------------------

let source = null, resting = 0;
function connect() {
  source = new EventSource("parts");
  source.onmessage = (message) => {
    for (const [name, part] of Object.entries(JSON.parse(message.data))) {
      if (name.startsWith("lane:")) lanes.set(name, { ...part, id: name });
      else parts[name] = part;
    }
    if (broken) { broken = false; notices(); }
    changed();
  };
  source.onerror = () => {
    if (!broken) { broken = true; notices(); }
  };
}
function changed() {
  if (dirty) return;
  dirty = true;
  requestAnimationFrame(() => { dirty = false; render(); });
}
document.addEventListener("visibilitychange", () => { // a page that nobody looks at asks nothing of the cluster
  clearTimeout(resting);
  if (document.hidden) resting = setTimeout(() => { source.close(); source = null; }, 60_000);
  else if (!source) connect();
});

// --- what is shown ---------------------------------------------------------------------------------------------------

// One budget by its name; null while all are shown, which is so at first where there are several.
const chosenBudget = () => parts.budgets?.find((budget) => budget.name === $("budget").value) ?? (parts.budgets?.length === 1 ? parts.budgets[0] : null);
const period = (budget) => budget.period.toLowerCase();
const commonPeriod = (budgets) => new Set(budgets.map(period)).size === 1 ? period(budgets[0]) : "period";
const planOf = (name) => parts.plan?.budgets?.find((each) => each.name === name);
// The names of the chosen budget and of all below it, null for all. Budgets may name each other in a circle.
function shownNames() {
  const budget = chosenBudget();
  if (!budget) return null;
  const names = new Set([budget.name]);
  for (const name of names) for (const each of parts.plan?.budgets ?? []) if (each.parent === name) names.add(each.name);
  return names;
}
// Each shown budget with its depth, directly below the one above it.
function tree() {
  const names = shownNames(), shown = (parts.budgets ?? []).filter((budget) => !names || names.has(budget.name)), rows = [], placed = new Set();
  const place = (budget, depth) => {
    if (placed.has(budget.name)) return;
    placed.add(budget.name);
    rows.push([budget, depth]);
    for (const each of shown) if (planOf(each.name)?.parent === budget.name) place(each, depth + 1);
  };
  for (const budget of shown) if (!shown.some((each) => each.name === planOf(budget.name)?.parent)) place(budget, 0);
  for (const budget of shown) place(budget, 0);
  return rows;
}
const sum = (items, of) => items.reduce((total, item) => total + +(of(item) ?? 0), 0);
const verdictOf = () => {
  const namespace = parts.plan?.namespace;
  return new Map((parts.plan?.jobs ?? []).map((job) => [`${job.namespace ?? namespace}/${job.name}`, job]));
};
let verdicts = new Map();

function render() {
  if (!parts.reading || !parts.lanes.every((id) => lanes.has(id))) return notices(); // more is on its way
  const began = performance.now();
  const there = new Set(parts.lanes);
  for (const id of lanes.keys()) if (!there.has(id)) lanes.delete(id);
  verdicts = verdictOf();
  notices();
  choice();
  money();
  jobs();
  decisions();
  frontier();
  costs();
  performance.measure("charterer render", { start: began, end: performance.now() });
  performance.clearMeasures("charterer render");
}

function notices() {
  const reading = parts.reading;
  const said = [broken ? "The connection to charterer dashboard is lost. It is tried again; if the command was ended, start it anew." : null,
    parts.problem && `The cluster cannot be read now, and what is shown is older: ${parts.problem}`,
    reading?.nobodyActs, ...(reading?.warnings ?? []), parts.history?.problem].filter(Boolean);
  const box = $("notices");
  if (said.join("\n") !== [...box.children].map((line) => line.textContent).join("\n")) {
    box.replaceChildren(...said.map((textContent) => el("p", { textContent })));
  }
  if (reading) $("read-at").textContent = `as of ${when(Date.parse(reading.at))}:${reading.at.slice(17, 19)}`;
}

function choice() {
  const names = (parts.budgets ?? []).map((budget) => budget.name), select = $("budget"), values = names.length > 1 ? ["", ...names] : names;
  $("budget-choice").hidden = names.length < 2;
  if (values.join("\n") === [...select.options].map((option) => option.value).join("\n")) return;
  const before = select.value;
  select.replaceChildren(...values.map((value) => el("option", { value, textContent: value || "all" })));
  if (values.includes(before)) select.value = before;
}

function money() {
  const budget = chosenBudget(), rows = tree(), budgets = rows.map(([each]) => each), plans = budgets.map((each) => planOf(each.name)).filter(Boolean);
  $("money-section").hidden = $("costs-section").hidden = !budgets.length;
  const one = budgets.length === 1, own = budget && (one || budget.days.length || +(planOf(budget.name)?.spent ?? 0));
  $("frontier-section").hidden = $("money-pictures").hidden = !own; // a budget that leaves all to those below it has none
  if (!budgets.length) return;
  const plan = one ? plans[0] : null, now = seconds(parts.reading.at);
  $("money").textContent = !budget ? "All budgets" : one ? `Budget ${budget.name}` : `Budget ${budget.name} and those below it`;
  const word = commonPeriod(budgets);
  const spent = sum(plans, (each) => each.spent), aim = sum(budgets, (each) => each.aim);
  const passed = (now - seconds(budgets[0].start)) / (seconds(budgets[0].end) - seconds(budgets[0].start));
  const waste = sum(plans, (each) => sum(["starting", "idle", "ending", "incompleteGang"], (cause) => each.spentFor[cause]));
  const counted = spent - sum(budgets, (each) => each.opening), foreign = plan?.inCurrency;
  const forecast = plans.length && plans.every((each) => each.forecast != null) ? sum(plans, (each) => each.forecast) : null;
  const figures = [
    [`Spent this ${word}`, dollars(spent), `of ${dollars(aim)}, ${aim ? percent(spent / aim) : "–"}; ${percent(passed)} of the ${word} is over${foreign ? `; ${foreign.spent} of ${foreign.amount} ${foreign.currency}` : ""}`, spent > aim],
    [`Forecast for the ${word}`, forecast == null ? "–" : dollars(forecast), forecast == null ? "too few jobs were seen yet" : plan ? `9 of 10 times ${dollars(+plan.forecastLow)} to ${dollars(+plan.forecastHigh)}` : "the sum of what is expected of each", forecast > aim],
    ["Nodes cost now", `${dollars(sum(budgets, (each) => each.hourlyNow), 2)}/h`, plans.length ? `planned ${dollars(sum(plans, (each) => each.plannedPerHour), 2)}/h, allowed ${dollars(sum(plans, (each) => each.allowedPerHour), 2)}/h` : ""],
    ...(one ? [["Pays for an hour saved", plan?.paysPerHourSaved == null ? "–" : dollars(+plan.paysPerHourSaved), "the most for finishing a job an hour earlier"],
      ["Mean time of a job", duration(plan?.meanCompletionSeconds), "from submitting to completion, in the long run"]] : []),
    ["Not used by jobs", dollars(waste), counted ? `${percent(waste / counted)} of what nodes cost` : ""],
  ];
  $("figures").replaceChildren(...figures.map(([name, value, about, over]) => el("div", {}, el("dt", { textContent: name }),
    el("dd", {}, el("span", { textContent: value, className: over ? "over" : "" }), el("small", { textContent: about })))));
  $("budget-table").hidden = one;
  $("budget-table").replaceChildren(...(one ? [] : [table("Budgets, each with its own and, where others are below it, with theirs", [["Budget"], ["Mode"], ["Spent", 1], ["Of", 1], ["With those below", 1], ["Of", 1], ["Now, $/h", 1], ["Forecast", 1]],
    rows.map(([each, depth]) => {
      const its = planOf(each.name), family = its?.withDescendants;
      return ["\u2003".repeat(depth) + each.name, its?.mode ?? "–", dollars(+(its?.spent ?? 0)), dollars(+each.aim), family ? dollars(+family.spent) : "–", family ? dollars(+family.amount) : "–",
        dollars(+each.hourlyNow, 2), its?.forecast == null ? "–" : dollars(+its.forecast)];
    }))]));
  if (own) pictures(budget, planOf(budget.name), now);
  $("spend-caption").textContent = `Spent this ${word}${one ? "" : ` for ${budget?.name}'s own namespaces`}, against the straight line and the forecast`;
}

// The pictures of one budget: what its own namespaces spent, and what rates were.
function pictures(budget, plan, now) {
  const spent = +(plan?.spent ?? 0);
  const history = parts.history?.budgets?.[budget.name];
  const points = spentPoints(budget, spent, now, history?.spent), key = `${theme} ${budget.name}`;
  if (plan) spendChart(chart("spend-chart"), points, budget, plan, key);
  const line = straightLine(budget);
  folded("spend-table", () => table("Spent, and the straight line", [["Until"], ["Spent", 1], ["Straight line", 1]],
    points.slice(-62).map(([at, sum]) => [when(at * 1000), dollars(sum), dollars(line(at))]).reverse()));
  const causes = CAUSES.filter(([cause]) => budget.days.some((day) => +day.spentFor[cause]));
  $("past-caption").textContent = budget.days.length ? "Dollars a day, by what they were for" : "Dollars a day: no day is on record yet";
  if (budget.days.length) daysChart(chart("past-chart"), budget.days, causes, `${key} ${causes.map(([cause]) => cause)}`);
  else chart("past-chart").clear();
  folded("past-table", () => table("Dollars by day and cause", [["Day"], ...causes.map(([, label]) => [label, 1])],
    budget.days.map((day) => [new Date(Date.parse(day.start)).toLocaleDateString(undefined, { timeZone: budget.timeZone }), ...causes.map(([cause]) => dollars(+(day.spentFor[cause] ?? 0)))]).reverse()));
  const rates = [["nodes, $/h", history?.hourly], ["$ per job-hour saved", history?.paysPerHourSaved]].filter(([, points]) => points?.length);
  $("rates").hidden = !rates.length;
  if (rates.length) {
    rateChart(chart("rate-chart"), rates, `${key} ${rates.length}`);
    const known = rates.map(([, points]) => new Map(points)), times = [...new Set(rates.flatMap(([, points]) => points.map(([at]) => at)))].sort((a, b) => b - a);
    folded("rate-table", () => table("Rates by hour, the latest 100", [["Time"], ...rates.map(([label]) => [label, 1])],
      times.slice(0, 100).map((at) => [when(at * 1000), ...known.map((series) => dollars(series.get(at) ?? null))])));
  }
}

// --- jobs ------------------------------------------------------------------------------------------------------------

const about = (lane) => {
  const gpus = gpusOf(lane);
  return [lane.state, gpus ? `${gpus} GPU${gpus > 1 ? "s" : ""}` : null, lane.cost == null ? null : dollars(+lane.cost), lane.namespace].filter(Boolean).join(" · ");
};
const view = new Lanes({ axis: $("axis"), box: $("lane-box"), space: $("lane-space"), canvas: $("lane-canvas"), names: $("lane-names"), tip: $("tip"), told }, choose, about);

function told(lane, run) {
  const until = run.until ?? Date.parse(parts.reading.at);
  const why = run.why ?? (run.until == null ? verdicts.get(`${lane.namespace}/${lane.name}`)?.message : null);
  return [`${lane.namespace}/${lane.name}, run ${run.run}: ${run.slice ?? `${run.gpus} GPUs`} of ${run.pool}`,
    `${when(run.since)} for ${duration((until - run.since) / 1000)}${run.cost == null ? "" : `, ${dollars(+run.cost)}`}${run.outcome ? `, ${run.outcome}` : ""}`, why, run.message && `It ended: ${run.message}`].filter(Boolean).join("\n");
}

function wanted() {
  const names = shownNames(), find = $("find").value.trim().toLowerCase(), which = $("which").value;
  const rows = parts.lanes.map((id) => lanes.get(id)).filter((lane) => lane
    && (names == null || lane.budget == null || names.has(lane.budget))
    && (which === "all" || (which === "ended") === (lane.finished != null) && (which !== "waiting" || !gpusOf(lane)))
    && (!find || `${lane.namespace}/${lane.name} ${lane.state} ${lane.user ?? ""}`.toLowerCase().includes(find)));
  const orders = { gpus: (lane) => -gpusOf(lane), cost: (lane) => -(lane.cost ?? 0), created: () => 0 };
  const order = $("order").value;
  if (order === "name") return rows.sort((a, b) => byName.compare(`${a.namespace}/${a.name}`, `${b.namespace}/${b.name}`));
  return rows.map((lane) => [orders[order](lane), lane]).sort((a, b) => a[0] - b[0]).map(([, lane]) => lane);
}

function jobs() {
  const rows = wanted(), all = parts.lanes.length;
  $("job-count").value = `${rows.length} of ${all} job${all === 1 ? "" : "s"}`;
  $("no-jobs").hidden = rows.length > 0;
  $("no-jobs").textContent = all ? "No job is like that." : "There is no TrainingJob.";
  const pools = new Set();
  for (const id of [...parts.lanes].reverse()) for (const run of lanes.get(id)?.runs ?? []) pools.add(run.pool);
  const colours = palette().pools;
  for (const pool of [...pools].sort()) view.colourOf(pool);
  const legend = [...pools].sort().map((pool) => [pool, colours[view.colourOf(pool)]]);
  const known = JSON.stringify(legend);
  if ($("pools").dataset.known !== known) {
    $("pools").dataset.known = known;
    $("pools").replaceChildren(...legend.map(([pool, colour]) => {
      const square = el("i");
      square.style.background = colour;
      return el("li", {}, square, pool);
    }), ...(legend.length ? [el("li", { textContent: "height: GPUs, one step for each doubling · ▼ a move · ✕ it failed or was interrupted · ✓ complete" })] : []));
  }
  view.show(rows, Date.parse(parts.reading.at), Number($("span").value));
  if ($("job-list").open) list(rows);
  if (selected) details(lanes.get(selected));
}

function list(rows) {
  const pages = Math.max(Math.ceil(rows.length / PAGE), 1);
  page = Math.min(Math.max(page, 0), pages - 1);
  $("previous").disabled = page === 0;
  $("next").disabled = page === pages - 1;
  $("page-of").value = `page ${page + 1} of ${pages}`;
  $("job-table").replaceChildren(table("Jobs", [["Job"], ["State"], ["GPUs", 1], ["Pool"], ["Submitted"], ["Ended"], ["Runs", 1], ["Cost", 1], ["Why"]],
    rows.slice(page * PAGE, page * PAGE + PAGE).map((lane) => {
      const run = lane.runs.at(-1);
      return [`${lane.namespace}/${lane.name}`, lane.state, String(gpusOf(lane) || "–"), run?.until == null ? run?.pool ?? "–" : "–", when(lane.created), when(lane.finished),
        String(lane.runs.length), dollars(lane.cost == null ? null : +lane.cost), lane.finish ?? verdicts.get(`${lane.namespace}/${lane.name}`)?.message ?? ""];
    })));
}

function choose(lane) {
  selected = lane?.id ?? null;
  details(lane);
}

function details(lane) {
  $("job").hidden = !lane;
  if (!lane) { selected = null; return; }
  const verdict = verdicts.get(`${lane.namespace}/${lane.name}`), title = `${lane.namespace}/${lane.name}: ${lane.state}`;
  if ($("job-title").textContent !== title) $("job-title").textContent = title;
  const ends = verdict?.endsAbout ?? verdict?.eta, why = lane.finish ?? verdict?.message;
  $("job-body").replaceChildren(
    el("p", { textContent: [`submitted ${when(lane.created)}`, lane.finished ? `ended ${when(lane.finished)}` : ends ? `ends about ${when(Date.parse(ends))}` : null,
      lane.cost == null ? null : `${dollars(+lane.cost)} ${lane.finished ? "in all" : "so far"}`, lane.budget ? `paid by ${lane.budget}` : null, lane.user ? `by ${lane.user}` : null].filter(Boolean).join(" · ") }),
    ...(why ? [el("p", { textContent: why })] : []),
    ...(lane.inPlace.length ? [el("p", { textContent: `Before resizes in place it also had ${lane.inPlace.map((each) => `${each.gpus} GPUs of ${each.pool} for ${duration(each.seconds)}`).join(", ")}.` })] : []),
    el("p", {}, "More: ", el("code", { textContent: `charterer explain tj/${lane.name} -n ${lane.namespace}` })),
    table("Runs, the latest first", [["Run"], ["From"], ["Lasted", 1], ["GPUs", 1], ["Pool"], ["Cost", 1], ["Why it had them"], ["How it ended"]],
      [...lane.runs].reverse().map((run) => [String(run.run), when(run.since), duration(((run.until ?? Date.parse(parts.reading.at)) - run.since) / 1000), run.slice ?? String(run.gpus), run.pool,
        dollars(run.cost == null ? null : +run.cost), run.why ?? "–", [run.outcome, run.message].filter(Boolean).join(": ") || "it runs"])));
}

// --- decisions, frontier, costs --------------------------------------------------------------------------------------

// A heading and the first sentences of a list that `charterer plan` shows whole; nothing where it is empty.
function few(heading, items, sentence) {
  if (!items.length) return [];
  const more = items.length > 5 ? [el("li", {}, `and ${items.length - 5} more: `, el("code", { textContent: "charterer plan" }))] : [];
  return [el("h3", { textContent: heading }), el("ul", {}, ...items.slice(0, 5).map((each) => el("li", { textContent: sentence(each) })), ...more)];
}

function decisions() {
  const names = shownNames(), only = $("only-warnings").checked;
  const known = new Map([...lanes.values()].map((lane) => [`${lane.namespace}/${lane.name}`, lane]));
  const actions = parts.plan?.actions ?? [], problems = parts.plan?.problems ?? [];
  $("actions").replaceChildren(
    ...few("Objects that cannot be used as they are", problems, (each) => `${each.kind} ${each.namespace ? `${each.namespace}/` : ""}${each.name}: ${each.field}: ${each.message}`),
    ...few("To be done now", actions, (each) => `${each.action} ${each.subject} ${each.how}: ${each.why}${each.onlyObserved ? " (only observed)" : ""}`));
  const rows = (parts.decisions ?? []).filter((each) => {
    const of = each.kind === "TrainingJob" ? known.get(`${each.namespace}/${each.name}`)?.budget : null;
    return (!only || each.warning) && (names == null || of == null || names.has(of));
  });
  const key = JSON.stringify([rows.slice(0, shown), rows.length, shown]);
  if ($("decision-list").dataset.key === key) return;
  $("decision-list").dataset.key = key;
  const focused = document.activeElement?.closest?.("#decision-list li")?.dataset.of;
  $("decision-list").replaceChildren(...(rows.length ? [] : [el("li", { textContent: "None is on record." })]), ...rows.slice(0, shown).map((each) => {
    const lane = each.kind === "TrainingJob" ? known.get(`${each.namespace}/${each.name}`) : null;
    const name = `${each.namespace && each.kind === "TrainingJob" ? `${each.namespace}/` : ""}${each.name}`;
    const extra = [each.count > 1 ? `${each.count} times` : null, each.dollars == null ? null : dollars(+each.dollars), each.seconds == null ? null : duration(each.seconds)].filter(Boolean).join(", ");
    const item = el("li", { className: each.warning ? "warning" : "" }, el("time", { dateTime: each.at, textContent: when(Date.parse(each.at)) }), " ",
      el("strong", { textContent: each.reason }), " ",
      lane ? el("button", { type: "button", textContent: name, onclick: () => { view.choose(lane); $("job").scrollIntoView({ block: "nearest" }); } }) : `${each.kind} ${name}`,
      ` ${each.message}`, ...(extra ? [el("span", { className: "extra", textContent: ` (${extra})` })] : []));
    item.dataset.of = `${each.at} ${each.reason} ${name}`;
    return item;
  }));
  if (focused) [...$("decision-list").children].find((item) => item.dataset.of === focused)?.querySelector("button")?.focus({ preventScroll: true });
  $("more").hidden = rows.length <= shown;
}

function frontier() {
  const budget = chosenBudget(), plan = planOf(budget?.name), points = plan?.moreOrLess?.amounts;
  if (!budget) return;
  $("frontier-note").textContent = points ? `You are here: ${dollars(+plan.amount, 0)} a ${period(budget)}. The least that is enough for all jobs is ${dollars(+plan.moreOrLess.smallestSufficient, 0)}; above ${dollars(+plan.moreOrLess.largestUseful, 0)} nothing gets faster.`
    : plan?.arrivals.basis === "Assumed" && plan.arrivals.batches ? "There is no history yet: what more or less money would buy is not known."
    : "There is no job, and none is expected: nothing tells yet what money would buy.";
  if (!points) { chart("frontier-chart").clear(); $("frontier-table").replaceChildren(); return; }
  frontierChart(chart("frontier-chart"), points, period(budget), `${theme} ${budget.name}`);
  $("frontier-table").replaceChildren(table(`What the amount of a ${period(budget)} buys, in the long run`, [[`A ${period(budget)}`], ["Spends", 1], ["Mean time", 1], ["Pays per hour saved", 1], ["Load served", 1]],
    points.map((point) => [`${dollars(+point.amount, 0)}${point.times === 1 ? " (you are here)" : ""}`, dollars(+point.spends, 0),
      point.meanCompletionSeconds == null ? "jobs queue" : duration(point.meanCompletionSeconds), point.paysPerHourSaved == null ? "–" : dollars(+point.paysPerHourSaved), percent(point.partOfLoadServed)]),
    points.findIndex((point) => point.times === 1)));
}

function costs() {
  const found = parts.costs, names = new Set(tree().map(([budget]) => budget.name)), keys = names.size > 1 ? ["budget", ...(found?.by ?? []).filter((key) => key !== "budget")] : found?.by ?? [];
  if (!names.size) return;
  const byPurpose = ["purpose", "cause"].some((key) => found?.by.includes(key));
  const rows = (found?.costs ?? []).filter((row) => names.has(row.budget) && (row.purpose == null || row.purpose === "job" || byPurpose));
  const most = Math.max(...rows.map((row) => +row.dollars), 0.01);
  const bar = (amount) => {
    const made = el("div", { className: "bar" });
    made.style.width = `${Math.max(amount / most * 100, 0)}%`;
    return made;
  };
  $("costs-note").textContent = !found ? "The costs cannot be shown." : found.record ? `In ${found.month}, from the record of costs at ${found.record}.` : `In ${found.month}, from the status of ${names.size > 1 ? "budgets" : "the budget"}.`;
  const words = { job: "training", training: "training", starting: "nodes that start", idle: "idle GPUs", ending: "nodes that end", incompleteGang: "incomplete gangs", opening: "spent before (openingSpend)", uncounted: "not sorted yet" };
  const plans = [...names].map(planOf).filter(Boolean), causes = new Set(plans.flatMap((plan) => Object.keys(plan.spentFor)));
  const spent = [...causes].map((cause) => [cause, sum(plans, (plan) => plan.spentFor[cause])]).filter(([, amount]) => amount);
  const whole = sum(spent, ([, amount]) => amount), asked = byPurpose ? whole : sum(spent.filter(([cause]) => words[cause] === "training"), ([, amount]) => amount);
  const monthly = tree().every(([budget]) => budget.period === "Month"); // costs are of a calendar month
  const later = found && monthly ? asked - sum(rows, (row) => row.dollars) : 0; // a record of costs is read again after minutes
  if (later >= 0.005) rows.push({ [keys[0]]: "since this was counted", dollars: later });
  $("costs-table").replaceChildren(table(`By ${keys.join(" and ")}`, [...keys.map((key) => [key]), ["Dollars", 1], ...(found?.record ? [["GPU-hours", 1]] : []), ["Compared"]],
    rows.map((row) => [...keys.map((key) => row[key] == null ? "–" : String(row[key])), dollars(+row.dollars), ...(found.record ? [row.gpuHours == null ? "–" : row.gpuHours.toFixed(1)] : []), bar(+row.dollars)])));
  $("waste-table").replaceChildren(table(`This ${commonPeriod(tree().map(([budget]) => budget))}, by what a node's time was paid for`, [["For"], ["Dollars", 1], ["Share", 1]],
    spent.map(([cause, amount]) => [words[cause] ?? cause, dollars(amount), percent(amount / whole)])));
  lost(tree().map(([budget]) => budget.losses));
}

// What was lost this month: a number, and each cause with what to do.
function lost(losses) {
  const all = sum(losses, (each) => each.spent), unknown = sum(losses, (each) => each.notReported), names = new Map();
  for (const found of losses.flatMap((each) => each.causes)) names.set(found.cause, [...(names.get(found.cause) ?? []), found]);
  const causes = [...names.values()].map((found) => [found[0], sum(found, (each) => each.dollars)]).sort(([, one], [, other]) => other - one);
  $("lost-note").textContent = !all ? "" : `Lost this month: ${dollars(sum(losses, (each) => each.lost))}, ${percent(sum(losses, (each) => each.lost) / all)} of the ${dollars(all)} that machines cost.${unknown ? ` Of ${dollars(unknown)} it is not known: these jobs report nothing.` : ""}`;
  $("lost-table").replaceChildren(...(causes.length ? [table("Lost this month, by cause", [["Cause"], ["Dollars", 1], ["Known"], ["To do"]],
    causes.map(([found, amount]) => [found.cause, dollars(amount), found.known, found.toDo]))] : []));
}

// --- controls --------------------------------------------------------------------------------------------------------

for (const id of ["find", "which", "order", "span", "budget", "only-warnings"]) $(id).addEventListener("input", () => { page = 0; changed(); });
for (const form of document.forms) form.addEventListener("submit", (event) => event.preventDefault());
$("more").addEventListener("click", () => { shown += 100; changed(); });
$("previous").addEventListener("click", () => { page -= 1; changed(); });
$("next").addEventListener("click", () => { page += 1; changed(); });
for (const fold of document.querySelectorAll("details")) fold.addEventListener("toggle", changed);
$("job-close").addEventListener("click", () => { view.choose(null); view.names.querySelector("button[tabindex='0']")?.focus(); });
darkness.addEventListener("change", () => { theme += 1; changed(); });
connect();
