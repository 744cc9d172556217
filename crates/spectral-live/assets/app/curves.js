// Scores of all agents and seeds as they grow: a thin line per seed, a thick one per agent.

import { byId, element, fillTable, safeColour, safeDash, setText } from "./dom.js";
import { compact, known, short, whole } from "./format.js";
import { symlog, symlogTicks, ticks } from "./scale.js";
import { drawing, label, line, Surface } from "./surface.js";
import { theme } from "./theme.js";

/** Scores that span more orders of magnitude are shown on the symlog axis, until a reader chooses. */
const ORDERS = 3;
const EDGE = { left: 46, right: 20, top: 10, bottom: 32 };

export class Curves {
  constructor(run, series, choose) {
    this.run = run;
    this.series = series;
    this.choose = choose;
    this.chosen = 0;
    this.stopped = run.agents.map(() => false);
    this.at = null;
    // The reader's choice: "linear" or "symlog".
    this.scale = null;
    this.place = (value) => value;
    [this.low, this.high, this.bottom] = [0, 1, 0];
    this.references = ["best", "random"].map((name) => ({ name, value: run.references?.[name] })).filter((one) => known(one.value));
    this.redraw = drawing(500, () => this.draw());
    this.surface = new Surface(byId("curves-canvas"), () => this.soon());
    this.soon = drawing(30, () => this.draw());
    this.table = drawing(1000, () => this.fill());
    this.buildLegend();
    this.wire();
  }

  buildLegend() {
    this.buttons = this.series.names.map((name) => {
      const first = this.run.agents.findIndex((one) => one.agent === name);
      const button = element("button");
      button.type = "button";
      button.dataset.agent = name;
      const swatch = button.appendChild(element("i"));
      swatch.style.setProperty("--agent", safeColour(this.run.agents[first].colour));
      if (safeDash(this.run.agents[first].dash).length > 0) swatch.className = "dashed";
      button.append(element("span", name));
      button.addEventListener("click", () => {
        // The same seed of the other agent, if it has it.
        const seed = this.run.agents[this.chosen]?.seed;
        const same = this.run.agents.findIndex((one) => one.agent === name && one.seed === seed);
        this.choose(same >= 0 ? same : first);
      });
      return button;
    });
    byId("legend").replaceChildren(...this.buttons);
  }

  wire() {
    const figure = byId("curves-figure");
    const canvas = byId("curves-canvas");
    for (const button of byId("scale").querySelectorAll("button")) {
      button.addEventListener("click", () => {
        this.scale = button.dataset.scale;
        this.soon();
      });
    }
    canvas.addEventListener("pointermove", (event) => {
      this.pointer = [event.offsetX, event.offsetY];
      this.at = this.frameAt(event.offsetX);
      this.soon();
    });
    canvas.addEventListener("pointerleave", () => this.clear());
    canvas.addEventListener("click", (event) => {
      const near = this.nearest(event.offsetX, event.offsetY);
      if (near !== null) this.choose(near);
    });
    figure.addEventListener("blur", () => this.clear());
    figure.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return this.clear();
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      this.pointer = null;
      const step = (this.far || 1) / 50;
      const last = this.last || this.far || 0;
      this.at = Math.min(last, Math.max(0, this.at === null ? last : this.at + (event.key === "ArrowLeft" ? -step : step)));
      this.soon();
    });
  }

  clear() {
    this.at = null;
    this.pointer = null;
    this.soon();
  }

  setChosen(agent) {
    this.chosen = agent;
    const name = this.run.agents[agent]?.agent;
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.agent === name));
    this.soon();
  }

  update() {
    this.redraw();
    this.table();
  }

  /** All lines, thinned again only if rows came. */
  lines() {
    if (this.version === this.series.version && this.cacheStopped === String(this.stopped)) return this.cache;
    this.version = this.series.version;
    this.cacheStopped = String(this.stopped);
    const seeds = this.run.agents.map((one, k) => ({
      agent: k, colour: safeColour(one.colour), dash: safeDash(one.dash), points: this.series.line(k, "score"),
    }));
    const means = this.series.names.map((name) => {
      const one = this.run.agents.find((other) => other.agent === name);
      return { name, colour: safeColour(one.colour), dash: safeDash(one.dash), ...this.series.mean(name, this.stopped) };
    });
    let [low, high, last] = [Infinity, -Infinity, 0];
    let [least, most] = [Infinity, 0];
    for (const { points } of seeds) {
      for (const [frame, value] of points) {
        if (value < low) low = value;
        if (value > high) high = value;
        if (frame > last) last = frame;
        // Below 1 the symlog axis is linear: smaller scores are no further orders.
        const size = Math.max(1, Math.abs(value));
        if (size < least && value !== 0) least = size;
        if (size > most) most = size;
      }
    }
    this.last = last;
    this.far = Math.max(this.run.frames || 0, last);
    if (low < 0 && high > 0) least = 1;
    this.cache = { seeds, means, low, high, wide: most > least * 10 ** ORDERS };
    return this.cache;
  }

  x(frame) {
    return EDGE.left + (frame / (this.far || 1)) * (this.surface.width - EDGE.left - EDGE.right);
  }

  y(value) {
    return this.bottom - ((this.place(value) - this.low) / (this.high - this.low || 1)) * (this.bottom - EDGE.top);
  }

  frameAt(x) {
    const share = (x - EDGE.left) / (this.surface.width - EDGE.left - EDGE.right);
    return Math.min(1, Math.max(0, share)) * (this.far || 0);
  }

  nearest(x, y) {
    let [found, least] = [null, 14];
    for (const { agent, points } of this.lines().seeds) {
      const point = closest(points, this.frameAt(x));
      if (!point) continue;
      const away = Math.hypot(Math.max(0, Math.abs(this.x(point[0]) - x) - 8), this.y(point[1]) - y);
      if (away < least) [found, least] = [agent, away];
    }
    return found;
  }

  draw() {
    const lines = this.lines();
    const c = this.surface.start();
    if (!c) return;
    const { width } = this.surface;
    this.bottom = this.surface.height - EDGE.bottom;
    const empty = lines.low > lines.high;
    this.setRange(lines);
    const rows = Math.floor((this.bottom - EDGE.top) / 40);
    for (const tick of this.ticks(rows)) {
      const y = Math.round(this.y(tick)) + 0.5;
      line(c, EDGE.left, y, width - EDGE.right, y, tick === 0 ? theme.rule : theme.grid);
      label(c, short(tick), EDGE.left - 7, y, "right");
    }
    const names = this.drawReferences(c);
    for (const tick of ticks(0, this.far || 1, Math.floor(width / 90))) {
      const x = Math.round(this.x(tick)) + 0.5;
      line(c, x, this.bottom, x, this.bottom + 4, theme.muted);
      label(c, short(tick), x, this.bottom + 12, "center");
    }
    line(c, EDGE.left, this.bottom + 0.5, width - EDGE.right, this.bottom + 0.5, theme.muted);
    label(c, "frames", width - EDGE.right, this.bottom + 25, "right");
    if (empty) label(c, "No episode has ended yet.", (EDGE.left + width) / 2, this.bottom / 2, "center");

    c.lineJoin = "round";
    const several = lines.means.map((mean) => mean.seeds > 1);
    for (const seed of lines.seeds) {
      const chosen = seed.agent === this.chosen;
      const alone = !several[this.series.names.indexOf(this.run.agents[seed.agent].agent)];
      if (alone && !chosen) continue;
      c.globalAlpha = chosen ? 0.9 : 0.38;
      this.stroke(c, seed, chosen ? 1.4 : 1);
    }
    c.globalAlpha = 1;
    for (const mean of lines.means) this.stroke(c, mean, 2.4);
    c.setLineDash([]);
    // The chosen seed's end, so that one sees which line the game belongs to.
    const own = lines.seeds[this.chosen]?.points;
    if (own?.length) {
      const [frame, value] = own[own.length - 1];
      c.beginPath();
      c.arc(this.x(frame), this.y(value), 4, 0, 7);
      c.fillStyle = lines.seeds[this.chosen].colour;
      c.strokeStyle = theme.surface;
      c.lineWidth = 1.5;
      c.fill();
      c.stroke();
    }
    this.nameReferences(c, names);
    this.readout(c, lines);
    const root = document.documentElement.dataset;
    root.curves = String(Number(root.curves ?? 0) + 1);
  }

  /** What of the scores is shown, on which axis. */
  setRange(lines) {
    const empty = lines.low > lines.high;
    const scale = this.scale ?? (lines.wide ? "symlog" : "linear");
    this.place = scale === "symlog" ? symlog : (value) => value;
    for (const button of byId("scale").querySelectorAll("button")) {
      const pressed = String(button.dataset.scale === scale);
      if (button.getAttribute("aria-pressed") !== pressed) button.setAttribute("aria-pressed", pressed);
    }
    let [low, high] = empty ? [Infinity, -Infinity] : [this.place(lines.low), this.place(lines.high)];
    const span = high - low;
    for (const { value } of this.references) {
      const at = this.place(value);
      // A reference far off would press the curves flat: its label then stands at the edge.
      if (!empty && scale === "linear" && Math.max(high, at) - Math.min(low, at) > 5 * Math.max(span, 1e-9)) continue;
      [low, high] = [Math.min(low, at), Math.max(high, at)];
    }
    if (low > high) [low, high] = [0, 1];
    const pad = (high - low || Math.abs(high) || 1) * 0.06;
    [this.low, this.high] = [low - pad, high + pad];
  }

  ticks(rows) {
    if (this.place !== symlog) return ticks(this.low, this.high, rows);
    const back = (at) => Math.sign(at) * (10 ** Math.abs(at) - 1);
    const [low, high] = [back(this.low), back(this.high)];
    const room = Math.max(2, Math.floor((rows * Math.max(Math.abs(this.low), Math.abs(this.high))) / (this.high - this.low)));
    const marks = symlogTicks(low, high, room).filter((tick) => tick >= low && tick <= high);
    // Within one decade there may be no power of ten.
    const found = marks.length > 1 ? marks : ticks(low, high, rows);
    const written = [];
    return found.filter((tick) => {
      const free = written.every((other) => Math.abs(other - this.y(tick)) >= 13);
      if (free) written.push(this.y(tick));
      return free;
    });
  }

  /** Dotted lines for the scores of random and of best play. */
  drawReferences(c) {
    const right = this.surface.width - EDGE.right;
    const used = [];
    const texts = [];
    for (const { name, value } of this.references) {
      const at = this.place(value);
      const [above, below] = [at > this.high, at < this.low];
      const y = Math.round(above ? EDGE.top : below ? this.bottom : this.y(value)) + 0.5;
      if (!above && !below) {
        c.setLineDash([1.5, 3.5]);
        line(c, EDGE.left, y, right, y, theme.muted, 1.5);
        c.setLineDash([]);
      }
      const text = `${name} play ${short(value)}${above ? " ↑" : below ? " ↓" : ""}`;
      let height = y - 8 < EDGE.top ? y + 9 : y - 8;
      if (used.some((other) => Math.abs(other - height) < 12)) height = y + 9;
      used.push(height);
      texts.push([text, height]);
    }
    const names = this.references.map(({ name, value }) => `${name} ${value}`).join(", ");
    if (byId("curves-figure").dataset.references !== names) byId("curves-figure").dataset.references = names;
    return texts;
  }

  /** Labels of the references, over the curves. */
  nameReferences(c, texts) {
    const right = this.surface.width - EDGE.right - 4;
    for (const [text, y] of texts) {
      const wide = c.measureText(text).width;
      c.globalAlpha = 0.8;
      c.fillStyle = theme.surface;
      c.fillRect(right - wide - 3, y - 6.5, wide + 6, 13);
      c.globalAlpha = 1;
      label(c, text, right, y, "right");
    }
  }

  stroke(c, { points, colour, dash }, width) {
    if (points.length === 0) return;
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.setLineDash(dash);
    c.beginPath();
    for (const [frame, value] of points) c.lineTo(this.x(frame), this.y(value));
    c.stroke();
  }

  readout(c, lines) {
    const node = byId("curves-readout");
    if (this.at === null) {
      setText(node, "\u00a0");
      byId("curves-canvas").classList.remove("points");
      return;
    }
    line(c, this.x(this.at), EDGE.top, this.x(this.at), this.bottom, theme.muted);
    const found = [];
    for (const mean of lines.means) {
      const point = closest(mean.points, this.at);
      if (!point) continue;
      found.push([mean.name, point[1], mean.colour]);
      c.beginPath();
      c.arc(this.x(point[0]), this.y(point[1]), 3.2, 0, 7);
      c.fillStyle = mean.colour;
      c.fill();
    }
    found.sort((a, b) => b[1] - a[1]);
    const text = whole(Math.round(this.at)) + " frames: " + found.map(([name, value]) => name + " " + compact(value)).join(", ");
    const near = this.pointer ? this.nearest(...this.pointer) : null;
    const canvas = byId("curves-canvas");
    canvas.classList.toggle("points", near !== null);
    const one = this.run.agents[near];
    const title = one ? `Click to see ${one.agent}, seed ${one.seed}` : "";
    if (canvas.title !== title) canvas.title = title;
    setText(node, text + ".");
  }

  fill() {
    const rows = this.lines().means.map(({ name, points, seeds }) => {
      const end = points[points.length - 1];
      return [name, String(seeds), end ? whole(end[0]) : "–", end ? compact(end[1]) : "–"];
    });
    for (const { name, value } of this.references) rows.push([name + " play", "–", "–", compact(value)]);
    fillTable(byId("curves-table"), "Newest mean score of each agent", ["Agent", "Seeds", "Frames", "Score"], rows);
  }
}

/** The point whose frame is nearest, or nothing if the line does not reach there. */
export function closest(points, frame) {
  if (points.length === 0) return null;
  let [low, high] = [0, points.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < frame) low = middle;
    else high = middle;
  }
  const best = Math.abs(points[low][0] - frame) <= Math.abs(points[high][0] - frame) ? low : high;
  const step = points.length > 1 ? points[high][0] - points[low][0] : Infinity;
  return Math.abs(points[best][0] - frame) <= step * 1.01 ? points[best] : null;
}
