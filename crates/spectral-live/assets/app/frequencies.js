// Activity, spread and share of the loss by frequency, for the chosen agent.

import { frequencyAxis } from "./bars.js";
import { byId, fillTable, setHidden, setText } from "./dom.js";
import { compact, known, percent, short, whole } from "./format.js";
import { niceAbove, ticks } from "./scale.js";
import { drawing, label, line, Surface } from "./surface.js";
import { frequencyColour, theme } from "./theme.js";

const EDGE = { left: 54, right: 6, top: 8, bottom: 30 };
const CHARTS = [
  { id: "activity", name: "activity", log: true, low: 1e-6, high: 1, tick: percent },
  { id: "sigma", name: "sigma", log: true, low: 0.01, high: 10, tick: short },
  { id: "loss-share", name: "loss_share", log: false, low: 0, high: 1, tick: percent },
];

export class Frequencies {
  constructor(run) {
    this.run = run;
    this.row = null;
    this.mark = null;
    this.redraw = drawing(500, () => this.draw());
    this.soon = drawing(30, () => this.draw());
    this.table = drawing(1000, () => this.fill());
    this.charts = CHARTS.map((chart) => ({ ...chart, surface: new Surface(byId(chart.id), () => this.soon()) }));
    this.wire();
  }

  wire() {
    const trio = byId("trio");
    for (const { id, surface } of this.charts) {
      byId(id).addEventListener("pointermove", (event) => {
        const count = this.count();
        const place = Math.floor(((event.offsetX - EDGE.left) / (surface.width - EDGE.left - EDGE.right)) * count);
        this.mark = place >= 0 && place < count ? place : null;
        this.soon();
      });
    }
    const clear = () => {
      this.mark = null;
      this.soon();
    };
    trio.addEventListener("pointerleave", clear);
    trio.addEventListener("blur", clear);
    trio.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return clear();
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight" || this.count() === 0) return;
      event.preventDefault();
      const step = event.key === "ArrowLeft" ? -1 : 1;
      this.mark = this.mark === null ? 0 : (this.mark + step + this.count()) % this.count();
      this.soon();
    });
  }

  count() {
    return this.row?.activity?.length ?? 0;
  }

  setChosen(agent) {
    this.chosen = agent;
    this.row = null;
    const outputs = this.run.agents[agent]?.outputs;
    this.weights = outputs?.weights ?? [];
    setHidden(byId("frequencies"), outputs?.kind !== "frequencies");
    setText(byId("frequencies-note"), "No row yet.");
    this.soon();
  }

  take(event) {
    if (event.agent !== this.chosen) return;
    this.row = event;
    setText(byId("frequencies-note"), `At frame ${whole(event.frame)}. Below each frequency: its weight in the value.`);
    this.redraw();
    this.table();
  }

  draw() {
    for (const chart of this.charts) this.drawOne(chart);
    const node = byId("frequencies-readout");
    if (this.mark === null || !this.row) return setText(node, "\u00a0");
    const k = this.mark;
    const { activity, sigma, loss_share: share, target_mean: mean } = this.row;
    setText(node, `Frequency ${k}, weight ${compact(this.weights[k])}: activity ${percent(activity[k])}, ` +
      `σ ${compact(sigma?.[k])}, share of the loss ${percent(share?.[k])}, mean target ${compact(mean?.[k])}.`);
  }

  drawOne({ surface, name, log, low, high, tick }) {
    const c = surface.start();
    if (!c) return;
    const values = this.row?.[name] ?? [];
    const count = Math.max(values.length, this.weights.length);
    const bottom = surface.height - EDGE.bottom;
    const right = surface.width - EDGE.right;
    const present = values.filter((v) => known(v) && v > 0);
    if (log) {
      // Whole decades around what there is, within reason.
      const floor = present.length > 0 ? Math.floor(Math.log10(Math.min(...present)) + 1e-9) : 0;
      low = Math.max(low, Math.min(10 ** floor, high / 1000));
      const top = present.length > 0 ? Math.max(...present) : 1;
      if (top > high) high = 10 ** Math.ceil(Math.log10(top));
    } else high = Math.min(1, niceAbove(Math.max(0.05, ...present)));
    const place = log ? (v) => Math.log(Math.max(v, low) / low) / Math.log(high / low) : (v) => v / high;
    const y = (v) => bottom - Math.min(1, Math.max(0, place(v))) * (bottom - EDGE.top);

    const marks = [];
    if (log) {
      const decades = Math.round(Math.log10(high / low));
      const every = Math.max(1, Math.ceil(decades / 4));
      for (let d = 0; d <= decades; d += every) marks.push(high / 10 ** d);
    } else marks.push(...ticks(0, high, 4));
    for (const mark of marks) {
      const height = Math.round(y(mark)) + 0.5;
      line(c, EDGE.left, height, right, height, theme.grid);
      label(c, tick(mark), EDGE.left - 6, height, "right");
    }
    const wide = count > 0 ? (right - EDGE.left) / count : 0;
    const gap = wide > 9 ? 2 : 1;
    values.forEach((value, k) => {
      const x = EDGE.left + k * wide;
      if (k === this.mark) {
        c.fillStyle = theme.grid;
        c.fillRect(x, EDGE.top, wide, bottom - EDGE.top);
      }
      if (!known(value) || value <= 0) return;
      c.fillStyle = frequencyColour(k, count);
      const top = Math.min(y(value), bottom - 1);
      c.fillRect(x + gap / 2, top, wide - gap, bottom - top);
    });
    line(c, EDGE.left, bottom + 0.5, right, bottom + 0.5, theme.muted);
    if (count > 0) frequencyAxis(c, EDGE.left, wide, bottom, this.weights);
  }

  fill() {
    if (!this.row) return;
    const { activity, sigma, loss_share: share } = this.row;
    const rows = activity.map((value, k) => [String(k), percent(value), compact(sigma?.[k]), percent(share?.[k])]);
    fillTable(byId("frequencies-table"), "By frequency", ["Frequency", "Activity", "σ", "Share of the loss"], rows);
  }
}
