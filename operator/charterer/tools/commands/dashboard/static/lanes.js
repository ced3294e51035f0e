// The lanes of jobs: each job's GPUs over time. Only rows in view are drawn, and only they have buttons.

import { palette } from "./charts.js";

const ROW = 34, BAR = 26, LEFT = 236, RIGHT = 14;
const BAD = new Set(["Failed", "Interrupted", "NotStarted", "Stalled"]);

export class Lanes {
  // `chosen(lane)`: a job was chosen; `described(lane)`: what its row says below its name.
  constructor(page, chosen, described) {
    Object.assign(this, { ...page, chosen, described, rows: [], current: 0, pressed: null, poolColours: new Map(), buttons: [] });
    this.context = this.canvas.getContext("2d");
    this.axisContext = this.axis.getContext("2d");
    this.box.addEventListener("scroll", () => this.later());
    new ResizeObserver(() => this.later()).observe(this.box);
    this.names.addEventListener("click", (event) => this.press(event.target.closest("button")));
    this.names.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("click", (event) => {
      const row = this.rows[Math.floor((event.offsetY + this.box.scrollTop) / ROW)];
      if (row) this.choose(row);
    });
  }

  // Pools keep their colour, in the order in which they were first seen.
  colourOf(pool) {
    if (!this.poolColours.has(pool)) this.poolColours.set(pool, this.poolColours.size % 8);
    return this.poolColours.get(pool);
  }

  show(rows, now, span) {
    this.rows = rows;
    this.now = now;
    let first = now - 60_000, last = 0, widest = 1; // span 0: from the first job on; without one three days at most
    for (const lane of rows) {
      last = Math.max(last, lane.finished ?? now);
      first = Math.min(first, lane.created);
      for (const run of lane.runs) widest = Math.max(widest, run.gpus);
    }
    this.until = last || now;
    this.from = span > 0 ? this.until - span * 1000 : span === 0 ? first : Math.max(first, this.until - 3 * 86_400_000);
    this.widest = widest;
    this.current = Math.min(this.current, Math.max(rows.length - 1, 0));
    this.space.style.height = `${rows.length * ROW}px`;
    this.draw();
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  x(at) { return LEFT + (at - this.from) / Math.max(this.until - this.from, 1) * (this.wide - LEFT - RIGHT); }

  height(gpus) { return Math.max(3, BAR * (1 + Math.log2(Math.max(gpus, 1))) / (1 + Math.log2(this.widest))); }

  draw() {
    const began = performance.now();
    const colours = palette(), ratio = devicePixelRatio || 1;
    this.wide = this.box.clientWidth;
    const tall = Math.min(this.box.clientHeight, this.rows.length * ROW);
    this.sized(this.canvas, tall, ratio);
    this.sized(this.axis, 20, ratio);
    this.drawAxis(colours);
    const top = this.box.scrollTop, first = Math.floor(top / ROW);
    const last = Math.min(this.rows.length, Math.ceil((top + tall) / ROW));
    const c = this.context;
    c.clearRect(0, 0, this.wide, tall);
    for (const { at } of this.ticks) {
      c.fillStyle = colours.grid;
      c.fillRect(Math.round(this.x(at)), 0, 1, tall);
    }
    for (let index = first; index < last; index++) this.drawRow(c, this.rows[index], index * ROW - top, colours);
    this.label(first, last);
    performance.measure("charterer lanes", { start: began, end: performance.now() });
    performance.clearMeasures("charterer lanes");
  }

  sized(canvas, tall, ratio) {
    const width = Math.round(this.wide * ratio), height = Math.round(tall * ratio);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
      canvas.style.height = `${tall}px`;
    }
    canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  drawAxis(colours) {
    const c = this.axisContext, seconds = Math.max(this.until - this.from, 60_000) / 1000;
    const steps = [10, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000];
    const most = Math.max((this.wide - LEFT) / 110, 2);
    const step = (steps.find((each) => seconds / each <= most) ?? 2592000 * Math.ceil(seconds / 2592000 / most)) * 1000;
    const shift = new Date(this.until).getTimezoneOffset() * 60_000;
    const form = step >= 86_400_000 ? { month: "short", day: "numeric" } : step >= 10_800_000
      ? { weekday: "short", hour: "2-digit", minute: "2-digit", hour12: false }
      : { hour: "2-digit", minute: "2-digit", ...(step < 60_000 ? { second: "2-digit" } : {}), hour12: false };
    const words = new Intl.DateTimeFormat(undefined, form);
    this.ticks = [];
    for (let at = Math.ceil((this.from - shift) / step) * step + shift; at <= this.until; at += step) this.ticks.push({ at, text: words.format(at) });
    c.clearRect(0, 0, this.wide, 20);
    c.font = "11px system-ui, sans-serif";
    c.fillStyle = colours.faint;
    c.textAlign = "center";
    for (const { at, text } of this.ticks) {
      const x = this.x(at);
      if (x < this.wide - 26) c.fillText(text, x, 14);
    }
    c.textAlign = "left";
  }

  drawRow(c, lane, top, colours) {
    const middle = top + ROW / 2, base = top + ROW - 4;
    const left = Math.max(this.x(lane.created), LEFT), right = Math.min(this.x(lane.finished ?? this.now), this.wide - RIGHT);
    c.fillStyle = colours.line;
    c.fillRect(LEFT, top + ROW - 1, this.wide - LEFT, 1);
    if (right > left) c.fillRect(left, base - 1, right - left, 1); // it waits, or waited
    if (this.pressed === lane.id) {
      c.fillStyle = colours.band;
      c.fillRect(LEFT, top, this.wide - LEFT, ROW - 1);
    }
    lane.runs.forEach((run, index) => {
      const start = this.x(run.since), end = this.x(run.until ?? this.now);
      const x = Math.max(start, LEFT), width = Math.max(Math.min(end, this.wide - RIGHT) - x, 1);
      if (end < LEFT) return;
      const tall = this.height(run.gpus);
      c.fillStyle = colours.pools[this.colourOf(run.pool)];
      if (run.widthFrom) { // its earlier widths are not on record
        const known = Math.max(this.x(run.widthFrom), LEFT);
        c.fillRect(x, base - 3, Math.max(known - x, 0), 3);
        c.fillRect(known, base - tall, Math.max(x + width - known, 1), tall);
      } else c.fillRect(x, base - tall, width, tall);
      if (width > 26 && tall > 10) {
        c.fillStyle = colours.onColour;
        c.font = `${tall > 12 ? 11 : 10}px system-ui, sans-serif`;
        c.fillText(run.slice ?? String(run.gpus), x + 7, base - Math.max(tall / 2 - 4, 3));
      }
      if (index && start >= LEFT) this.mark(c, start, top + 3, colours.ink);
      if (run.outcome && BAD.has(run.outcome) && end >= LEFT) this.cross(c, end, middle, colours.bad);
      if (run.outcome === "Complete" && end >= LEFT) this.tick(c, end + 4, middle, colours.good);
    });
  }

  mark(c, x, y, colour) { // a move: where a run took another's place
    c.fillStyle = colour;
    c.beginPath();
    c.moveTo(x - 4, y);
    c.lineTo(x + 4, y);
    c.lineTo(x, y + 6);
    c.fill();
    c.fillRect(x - 0.5, y, 1, ROW - 7);
  }

  stroke(c, colour, ...points) {
    c.strokeStyle = colour;
    c.lineWidth = 2;
    c.beginPath();
    points.forEach(([x, y], index) => index % 3 ? c.lineTo(x, y) : c.moveTo(x, y));
    c.stroke();
  }

  cross(c, x, y, colour) {
    this.stroke(c, colour, [x - 4, y - 4], [x + 4, y + 4], [x + 4, y + 4]);
    this.stroke(c, colour, [x - 4, y + 4], [x + 4, y - 4], [x + 4, y - 4]);
  }

  tick(c, x, y, colour) { this.stroke(c, colour, [x - 4, y], [x - 1, y + 4], [x + 5, y - 5]); }

  // One button for each row in view, in order; they are used again while rows scroll by.
  label(first, last) {
    const rows = Math.max(last - first, 0);
    while (this.buttons.length < rows) {
      const item = document.createElement("li"), button = document.createElement("button");
      button.type = "button";
      button.append(document.createElement("b"), document.createElement("span"));
      item.append(button);
      this.names.append(item);
      this.buttons.push(button);
    }
    const focused = document.activeElement?.closest?.("#lane-names button");
    const inTabOrder = this.current >= first && this.current < last ? this.current : first;
    this.buttons.forEach((button, offset) => {
      const index = first + offset, lane = this.rows[index], item = button.parentElement;
      item.hidden = offset >= rows;
      if (item.hidden) return;
      item.style.top = `${index * ROW}px`;
      item.setAttribute("aria-setsize", this.rows.length);
      item.setAttribute("aria-posinset", index + 1);
      button.dataset.index = index;
      button.tabIndex = index === inTabOrder ? 0 : -1;
      button.setAttribute("aria-pressed", this.pressed === lane.id);
      const [name, about] = button.children, said = this.described(lane);
      if (name.textContent !== lane.name) name.textContent = lane.name;
      if (about.textContent !== said) about.textContent = said;
      button.title = `${lane.namespace}/${lane.name}`;
    });
    if (focused && this.current >= first && this.current < last) this.buttons[this.current - first].focus({ preventScroll: true });
  }

  key(event) {
    const page = Math.max(Math.floor(this.box.clientHeight / ROW) - 1, 1);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const from = Number(event.target.closest("button")?.dataset.index ?? this.current);
    this.current = Math.min(Math.max(from + by, 0), this.rows.length - 1);
    const top = this.current * ROW;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + ROW > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + ROW - this.box.clientHeight;
    this.draw();
  }

  press(button) {
    if (!button) return;
    this.current = Number(button.dataset.index);
    const lane = this.rows[this.current];
    if (lane) this.choose(lane);
  }

  choose(lane) {
    this.pressed = lane?.id ?? null;
    this.draw();
    this.chosen(lane);
  }

  hover(event) {
    const row = this.rows[Math.floor((event.offsetY + this.box.scrollTop) / ROW)];
    const at = this.from + (event.offsetX - LEFT) / Math.max(this.wide - LEFT - RIGHT, 1) * (this.until - this.from);
    const run = event.offsetX < LEFT ? null : row?.runs.findLast((each) => each.since <= at && at <= (each.until ?? this.now));
    this.tip.hidden = !run;
    if (!run) return;
    this.tip.textContent = this.told(row, run);
    const where = this.tip.parentElement.getBoundingClientRect();
    const x = Math.min(event.clientX - where.left + 14, where.width - this.tip.offsetWidth - 4);
    this.tip.style.left = `${Math.max(x, 0)}px`;
    this.tip.style.top = `${event.clientY - where.top + 16}px`;
  }
}
