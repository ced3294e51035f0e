// Charts by uPlot, in the colours of the page; each keeps the width of its place.

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const names = { ink: "--ink", faint: "--faint", line: "--line", grid: "--grid", bad: "--bad", good: "--good", band: "--band", onColour: "--on-colour" };
let colours = null;
export function palette() {
  return colours ??= { ...Object.fromEntries(Object.entries(names).map(([name, variable]) => [name, css(variable)])),
    pools: [0, 1, 2, 3, 4, 5, 6, 7].map((index) => css(`--c${index}`)) };
}
export const darkness = matchMedia("(prefers-color-scheme: dark)");
darkness.addEventListener("change", () => { colours = null; });

const axes = (colours, x, y) => [x, y].map((more) => ({
  stroke: colours.faint, grid: { stroke: colours.grid, width: 1 }, ticks: { stroke: colours.line, width: 1 },
  font: "12px system-ui, sans-serif", ...more,
}));

export const dollars = (value, digits = Math.abs(value) < 100 ? 2 : 0) => value == null || Number.isNaN(value) ? "–"
  : new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
const short = (value) => value >= 1e6 ? `$${+(value / 1e6).toFixed(2)}M` : value >= 1e4 ? `$${+(value / 1e3).toFixed(1)}k` : `$${+value.toFixed(2)}`;

// A chart in a place of the page. `options(colours)` is asked again when the colours change.
export class Chart {
  constructor(place, height = 230) {
    this.place = place;
    this.height = height;
    this.kind = "";
    new ResizeObserver(() => this.plot?.setSize({ width: this.width(), height: this.height })).observe(place);
  }

  width() { return Math.max(this.place.clientWidth, 120); }

  // `kind` names what the options depend on beside the colours: the chart is made anew when it is another.
  show(kind, options, data) {
    if (this.plot && this.kind === kind) {
      this.plot.setData(data);
      return;
    }
    this.plot?.destroy();
    this.kind = kind;
    const height = this.height;
    this.plot = new uPlot({ width: this.width(), height, cursor: { drag: { x: false, y: false } }, ...options(palette()) }, data, this.place);
  }

  clear() {
    this.plot?.destroy();
    this.plot = null;
  }
}

export const seconds = (text) => Date.parse(text) / 1000;
const y = { size: 62, values: (_, ticks) => ticks.map(short) };
const value = (_, number) => number == null ? "–" : dollars(number);

// Points of the period: [seconds, spent], oldest first, from the budget's days, or finer from Prometheus. A status keeps
// 62 days: what was spent before them in a longer period is where the first of them begins.
export function spentPoints(budget, spent, now, history) {
  const start = seconds(budget.start);
  const points = [[start, +budget.opening]];
  const finer = (history ?? []).filter(([at]) => at > start && at < now);
  if (finer.length) return [...points, ...finer, [now, spent]];
  const ofDay = (day) => Object.values(day.spentFor).reduce((all, amount) => all + +amount, 0);
  const kept = budget.days.filter((day) => seconds(day.start) >= start).reduce((all, day) => all + ofDay(day), 0);
  let sum = budget.days.length < 62 ? +budget.opening : Math.max(spent - kept, +budget.opening);
  for (const day of budget.days) {
    const from = seconds(day.start);
    if (from < start || from >= now) continue;
    if (from > start) points.push([from, sum]);
    sum += ofDay(day);
    points.push([from + 86400, sum]);
  }
  return [...points.filter(([at]) => at < now), [now, spent]];
}

// The dollars by a time at which the budget would be on course: even from when it began in the period, or was made.
export function straightLine(budget) {
  const [since, end, opening] = [seconds(budget.since), seconds(budget.end), +budget.opening];
  return (at) => at < since ? null : opening + (+budget.aim - opening) * (at - since) / (end - since);
}

export function spendChart(chart, points, budget, plan, key) {
  const [start, end, now] = [seconds(budget.start), seconds(budget.end), points.at(-1)[0]];
  const spent = points.at(-1)[1];
  const known = new Map(points);
  const xs = [...new Set([start, seconds(budget.since), ...points.map(([at]) => at), end])].sort((a, b) => a - b);
  const ahead = (last) => xs.map((x) => last == null ? null : x === now ? spent : x === end ? +last : null);
  const data = [xs, xs.map((x) => known.get(x) ?? null), xs.map(straightLine(budget)),
    ahead(plan.forecast), ahead(plan.forecastLow), ahead(plan.forecastHigh)];
  chart.show(key, (colours) => ({
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high * 1.05, 1)] } },
    axes: axes(colours, {}, y),
    series: [{},
      { label: "spent", stroke: colours.pools[0], width: 2, fill: colours.band, spanGaps: true, value, points: { show: false } },
      { label: "straight line", stroke: colours.faint, width: 1, dash: [4, 4], value, points: { show: false } },
      { label: "forecast", stroke: colours.pools[1], width: 2, dash: [8, 4], spanGaps: true, value, points: { show: false } },
      { label: "low", stroke: colours.pools[1], width: 1, dash: [2, 3], spanGaps: true, value, points: { show: false } },
      { label: "high", stroke: colours.pools[1], width: 1, dash: [2, 3], spanGaps: true, value, points: { show: false } }],
  }), data);
}

// Bars of dollars a day, stacked by cause. `days`: those of the budget's status.
export function daysChart(chart, days, causes, key) {
  const xs = days.map((day) => seconds(day.start) + 43200);
  const amounts = causes.map(([cause]) => days.map((day) => +(day.spentFor[cause] ?? 0)));
  const stacked = amounts.map((_, top) => xs.map((_, at) => amounts.slice(0, top + 1).reduce((sum, series) => sum + series[at], 0)));
  chart.amounts = amounts;
  chart.range = [Math.min(xs[0], xs.at(-1) - 13 * 86400) - 43200, xs.at(-1) + 43200]; // two weeks at least
  chart.show(key, (colours) => ({
    scales: { x: { time: true, range: () => chart.range }, y: { range: (_, low, high) => [0, Math.max(high * 1.05, 1)] } },
    axes: axes(colours, {}, y),
    series: [{}, ...causes.map(([, label], index) => ({
      label, stroke: colours.pools[index], fill: colours.pools[index], width: 0, points: { show: false },
      paths: uPlot.paths.bars({ size: [0.8, 40] }),
      value: (_, number, series, at) => at == null ? "–" : dollars(chart.amounts[causes.length - series][at]),
    })).reverse()],
  }), [xs, ...stacked.reverse()]);
}

export function rateChart(chart, series, key) {
  const xs = [...new Set(series.flatMap(([, points]) => points.map(([at]) => at)))].sort((a, b) => a - b);
  chart.show(key, (colours) => ({
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high * 1.05, 1)] } },
    axes: axes(colours, {}, y),
    series: [{}, ...series.map(([label], index) => ({ label, stroke: colours.pools[index], width: 2, spanGaps: true, value, points: { show: false } }))],
  }), [xs, ...series.map(([, points]) => { const known = new Map(points); return xs.map((x) => known.get(x) ?? null); })]);
}

const unitOf = (seconds) => seconds >= 172800 ? [86400, "d"] : seconds >= 5400 ? [3600, "h"] : seconds >= 90 ? [60, "min"] : [1, "s"];

// Mean time of a job for amounts of money.
export function frontierChart(chart, points, period, key) {
  const xs = points.map((point) => +point.amount);
  const [unit, word] = unitOf(Math.max(...points.map((point) => point.meanCompletionSeconds ?? 0)));
  const values = points.map((point) => point.meanCompletionSeconds == null ? null : point.meanCompletionSeconds / unit);
  const told = (_, number) => number == null ? "–" : `${number.toFixed(1)} ${word}`;
  const here = points.map((point, index) => point.times === 1 ? values[index] : null);
  chart.show(`${key} ${period} ${word}`, (colours) => ({
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(high * 1.1, 0.1)] } },
    axes: axes(colours, { values: (_, ticks) => ticks.map(short), space: 60 }, { size: 52, values: (_, ticks) => ticks.map((tick) => `${+tick.toFixed(2)} ${word}`) }),
    series: [{ label: `a ${period}`, value: (_, number) => number == null ? "–" : dollars(number, 0) },
      { label: "mean time", stroke: colours.pools[0], width: 2, value: told, points: { show: true, size: 6 } },
      { label: "you are here", stroke: colours.pools[1], width: 0, value: told, points: { show: true, size: 14, fill: colours.pools[1] } }],
  }), [xs, values, here]);
}
