// The spectrum: one cell per action with its name, its value and its drawing.

import { GUTTER, Window, describe, drawDistribution, drawFrequencies, drawValue } from "./bars.js";
import { byId, element, fillTable, onWidth, safeColour, setHidden, setText } from "./dom.js";
import { compact, known, whole } from "./format.js";
import { SlowRange } from "./scale.js";
import { drawing, Surface } from "./surface.js";

const NOTES = {
  frequencies: "The value is the sum of output × weight. Ticks: the best action's bars.",
  weighted: "Output × weight, on a logarithmic scale. Ticks: the best action's bars.",
  distribution: "How probable each return is; the dashed line is the value that the agent reads out.",
  value: "The value of each action, on one scale. Ticks: the best action's value.",
};
/** Pictures without values leave the spectrum as it is; after this long (ms) it is shown as old. */
const OLD = 1500;
const BY = { agent: "chosen", chance: "chance", human: "you" };

export class Spectrum {
  constructor(run) {
    this.run = run;
    this.weighted = false;
    this.ranges = { outputs: new SlowRange(0.1), weighted: new SlowRange(1), probability: new SlowRange(0.02), value: new SlowRange(1e-3) };
    this.mark = null;
    this.markedAction = null;
    this.agent = null;
    // The newest message with values: numbers, marks and bars all come from it.
    this.kept = null;
    // The newest message of all.
    this.message = null;
    this.redraw = drawing(this.pace(), (now) => this.draw(now));
    this.fillTable = drawing(1000, () => this.table());
    this.holder = byId("bars");
    this.cells = run.actions.map((name, k) => this.cell(name, k));
    onWidth(this.holder, () => this.layout());
    this.layout();
    this.wire();
  }

  /** Milliseconds between two drawings: numbers that change more often can be neither read nor cheaply laid out. */
  pace() {
    return this.run.mode === "playing" ? 72 : 89;
  }

  cell(name, k) {
    const box = element("div", undefined, "cell");
    box.dataset.action = String(k);
    const head = box.appendChild(element("div", undefined, "name"));
    head.append(element("span", "▶", "pointer"));
    const title = head.appendChild(element("b", name));
    title.title = name;
    const tag = head.appendChild(element("span", "", "tag"));
    const value = box.appendChild(element("div", "", "value"));
    const decoded = value.appendChild(element("span", "–", "decoded"));
    const behind = value.appendChild(element("span", "", "behind"));
    behind.title = "Difference to the best action";
    const canvas = box.appendChild(element("canvas"));
    box.setAttribute("aria-hidden", "true");
    this.holder.append(box);
    const cell = { box, tag, decoded, behind, canvas, surface: null };
    cell.surface = new Surface(canvas, () => this.redraw());
    return cell;
  }

  /** How many columns: few actions below each other on one axis, many as a grid. */
  layout() {
    const count = this.cells.length;
    const width = this.holder.clientWidth;
    const room = Math.max(1, Math.floor(width / (count > 9 ? 165 : 230)));
    let columns = count <= 5 ? 1 : count <= 10 ? 2 : 3;
    columns = Math.min(columns, room);
    if (columns > 1 && this.kind() === "value") columns = Math.min(columns, 2);
    const rows = Math.ceil(count / columns);
    this.holder.style.setProperty("--columns", columns);
    this.holder.style.setProperty("--rows", rows);
    this.holder.classList.toggle("single", columns === 1 && width >= 560);
    this.cells.forEach((cell, k) => {
      cell.axis = k >= count - columns;
      cell.box.classList.toggle("axis", cell.axis);
    });
    this.holder.classList.toggle("dense", rows > 4);
    // Few actions leave room for the curves on the first screen.
    this.holder.classList.toggle("few", count <= 6);
    this.redraw();
  }

  kind() {
    return this.agent?.outputs?.kind ?? "value";
  }

  wire() {
    for (const button of byId("view").querySelectorAll("button")) {
      button.addEventListener("click", () => {
        this.weighted = button.dataset.view === "weighted";
        for (const other of byId("view").querySelectorAll("button")) {
          other.setAttribute("aria-pressed", String(other === button));
        }
        this.setNote();
        this.redraw();
      });
    }
    this.holder.addEventListener("pointermove", (event) => {
      const cell = this.cells.find((one) => one.box.contains(event.target));
      const outputs = cell && this.kept?.outputs?.[this.cells.indexOf(cell)];
      if (!cell || event.target !== cell.canvas || !outputs?.length) return this.setMark(null, null);
      const bars = this.kind() === "frequencies";
      const [left, right] = bars ? [GUTTER, 2] : [6, 6];
      const share = (event.offsetX - left) / (cell.surface.width - left - right);
      const place = bars ? Math.floor(share * outputs.length) : Math.round(this.window.low + share * (this.window.high - this.window.low));
      this.setMark(Math.min(outputs.length - 1, Math.max(0, place)), this.cells.indexOf(cell));
    });
    this.holder.addEventListener("pointerleave", () => this.setMark(null, null));
    this.holder.addEventListener("blur", () => this.setMark(null, null));
    this.holder.addEventListener("keydown", (event) => {
      const length = this.kept?.outputs?.[0]?.length ?? 0;
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      const move = moves[event.key];
      if (!move || event.target !== this.holder || this.message?.controls?.human || length === 0) return;
      event.preventDefault();
      byId("bars-readout").setAttribute("aria-live", "polite");
      const action = this.markedAction ?? this.best ?? 0;
      const place = this.mark ?? -move[0];
      this.setMark(
        (place + move[0] + length) % length,
        (action + move[1] + this.cells.length) % this.cells.length,
      );
    });
  }

  setMark(mark, action) {
    if (mark === this.mark && action === this.markedAction) return;
    this.mark = mark;
    this.markedAction = action;
    if (mark === null) byId("bars-readout").setAttribute("aria-live", "off");
    this.redraw();
  }

  setNote() {
    const kind = this.kind();
    setHidden(byId("view"), kind !== "frequencies");
    setText(byId("spectrum-title"), kind === "frequencies" ? "Spectrum" : kind === "distribution" ? "Distribution" : "Values");
    setText(byId("spectrum-note"), NOTES[kind === "frequencies" && this.weighted ? "weighted" : kind] ?? "");
    this.holder.dataset.kind = kind;
  }

  show(message) {
    const agent = this.run.agents[message.agent];
    if (!agent) return;
    this.message = message;
    if (agent !== this.agent) {
      this.agent = agent;
      this.kept = null;
      this.window = new Window();
      for (const range of Object.values(this.ranges)) range.reset();
      this.setMark(null, null);
      this.setNote();
      this.layout();
    }
    if (Array.isArray(message.values) && Array.isArray(message.outputs)) {
      this.kept = message;
      this.keptAt = performance.now();
      this.holder.classList.remove("stale");
      this.fillTable();
    } else if (this.kept) {
      this.holder.classList.toggle("stale", performance.now() - this.keptAt > OLD);
      return;
    }
    this.redraw();
  }

  /** Empties the spectrum: there is nothing of this agent to see. */
  forget(agent) {
    this.agent = this.run.agents[agent] ?? null;
    this.kept = this.message = null;
    this.window = new Window();
    this.setNote();
    this.layout();
  }

  /** Ranges that all actions share. */
  measure(message, now) {
    const kind = this.kind();
    let [low, high] = [0, 0];
    const take = (v) => {
      if (!known(v)) return;
      if (v < low) low = v;
      if (v > high) high = v;
    };
    if (kind === "value") message.values.forEach(take);
    else if (kind === "frequencies" && this.weighted) {
      const weights = this.agent.outputs.weights ?? [];
      for (const list of message.outputs) list.forEach((v, k) => take(v * (weights[k] ?? 1)));
    } else for (const list of message.outputs) list.forEach(take);
    const name = kind === "value" ? "value" : kind === "distribution" ? "probability" : this.weighted ? "weighted" : "outputs";
    this.ranges[name].take(low, high, now);
    if (kind === "distribution") this.window.take(message.outputs, this.agent.outputs.support?.length ?? 1, now);
    return this.ranges[name];
  }

  draw(now) {
    const { kept } = this;
    // Before the first values there is still an action to mark.
    const shown = kept ?? this.message;
    const legal = Array.isArray(shown?.legal) ? new Set(shown.legal) : null;
    this.best = kept ? bestOf(kept, legal) : null;
    const range = kept ? this.measure(kept, now) : null;
    this.cells.forEach((cell, k) => {
      this.marks(cell, k, shown, legal);
      this.drawCell(cell, k, range);
    });
    this.holder.dataset.sequence = String(kept?.sequence ?? "");
    if (this.run.mode === "training") setText(byId("weights-age"), kept ? ageOf(kept) : "");
    this.readout();
  }

  /** What a cell says about its action: chosen and by whom, best, illegal. */
  marks(cell, k, shown, legal) {
    const { best } = this;
    const chosen = shown?.action === k;
    const illegal = legal !== null && !legal.has(k);
    cell.box.classList.toggle("best", best === k);
    cell.box.classList.toggle("chosen", chosen);
    cell.box.classList.toggle("illegal", illegal);
    cell.illegal = illegal;
    const by = chosen ? shown.chosen_by : "";
    if (cell.box.dataset.by !== by) cell.box.dataset.by = by;
    // The agent plays what is best by its own weights; the values shown may be of older ones.
    const newer = by === "agent" && best !== null && best !== k && this.run.mode === "training" && shown.weights_frame !== shown.frame;
    // In a narrow cell the pointer has to say that it is the chosen one.
    const older = this.holder.classList.contains("single") ? "chosen by newer weights" : "by newer weights";
    const words = [chosen ? (newer ? older : BY[by] ?? "") : "", best === k ? "best" : "", illegal ? "illegal" : ""];
    const text = words.filter((word) => word).join(" · ");
    setText(cell.tag, text);
    const title = newer ? "The values shown are of older weights than those that chose." : text;
    if (cell.tag.title !== title) cell.tag.title = title;
  }

  drawCell(cell, k, range) {
    if (!this.kept) {
      setText(cell.decoded, "–");
      setText(cell.behind, "");
      cell.surface.start();
      return;
    }
    const { values, outputs } = this.kept;
    const { best, agent } = this;
    setText(cell.decoded, compact(values[k]));
    setText(cell.behind, best === null || k === best || cell.illegal ? "" : "Δ " + compact(values[k] - values[best]));
    const at = {
      outputs: outputs[k] ?? [], best: best === null ? null : outputs[best],
      value: values[k], bestValue: best === null ? null : values[best],
      range, isBest: best === k, axis: cell.axis, weighted: this.weighted,
      weights: agent.outputs.weights ?? [], support: agent.outputs.support ?? [],
      colour: safeColour(agent.colour), mark: this.mark, window: this.window,
    };
    const kind = this.kind();
    if (kind === "frequencies") drawFrequencies(cell.surface, at);
    else if (kind === "distribution" && at.support.length > 1) drawDistribution(cell.surface, at);
    else drawValue(cell.surface, at);
  }

  readout() {
    const node = byId("bars-readout");
    const outputs = this.kept?.outputs?.[this.markedAction];
    if (this.mark === null || !outputs || outputs[this.mark] === undefined) return setText(node, "\u00a0");
    setText(node, this.run.actions[this.markedAction] + ", " + describe(this.kind(), outputs, this.mark, this.agent.outputs));
  }

  table() {
    const { kept } = this;
    if (!kept) return;
    const legal = Array.isArray(kept.legal) ? new Set(kept.legal) : null;
    const best = bestOf(kept, legal);
    const rows = this.run.actions.map((name, k) => [
      name, compact(kept.values[k]),
      [kept.action === k ? "chosen by " + kept.chosen_by : "", best === k ? "best" : ""].filter((w) => w).join(", "),
      (kept.outputs[k] ?? []).length <= 24 ? (kept.outputs[k] ?? []).map(compact).join(" ") : "",
    ]);
    fillTable(byId("bars-table"), "Values of the actions", ["Action", "Value", "Mark", "Outputs"], rows);
  }
}

/** The best legal action; of several that are equal, the one that is played. */
function bestOf({ values, action }, legal) {
  let best = null;
  values.forEach((value, k) => {
    if (!known(value) || (legal && !legal.has(k))) return;
    if (best === null || value > values[best] || (value === values[best] && k === action)) best = k;
  });
  return best;
}

function ageOf({ frame, weights_frame: weights }) {
  if (!known(weights)) return "";
  return weights === frame ? "Values of the weights that play." : `Values of the weights of frame ${whole(weights)}.`;
}
