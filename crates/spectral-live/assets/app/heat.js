// TD error of the chosen agent: a map of player's score by frames, or a curve if errors are not kept by score.

import { closest } from "./curves.js";
import { byId, fillTable, safeColour, setText } from "./dom.js";
import { compact, short, whole } from "./format.js";
import { ticks } from "./scale.js";
import { drawing, label, line, Surface } from "./surface.js";
import { heatColour, theme } from "./theme.js";

const EDGE = { left: 46, right: 20, top: 10, bottom: 32 };
const BINS = 120;
const KEY = 30;

export class Heat {
  constructor(run, series) {
    this.run = run;
    this.series = series;
    this.byScore = run.max_player_score > 0;
    this.rows = [];
    this.chosen = 0;
    this.at = null;
    this.redraw = drawing(500, () => this.draw());
    this.soon = drawing(30, () => this.draw());
    this.table = drawing(1000, () => this.fill());
    this.surface = new Surface(byId("td-canvas"), () => this.soon());
    byId("td").dataset.kind = this.byScore ? "map" : "curve";
    setText(byId("td-note"), this.byScore
      ? "By the player's score; error as a share of the target."
      : "Mean absolute TD error of the chosen agent.");
    this.wire();
  }

  wire() {
    const figure = byId("td-figure");
    const canvas = byId("td-canvas");
    canvas.addEventListener("pointermove", (event) => {
      const share = Math.min(1, Math.max(0, (event.offsetX - EDGE.left) / (this.surface.width - EDGE.left - EDGE.right)));
      const up = (this.bottom() - event.offsetY) / (this.bottom() - EDGE.top);
      this.at = [share, Math.min(this.run.max_player_score, Math.max(0, Math.floor(up * (this.run.max_player_score + 1))))];
      this.soon();
    });
    const clear = () => {
      this.at = null;
      this.soon();
    };
    canvas.addEventListener("pointerleave", clear);
    figure.addEventListener("blur", clear);
    figure.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      const move = moves[event.key];
      if (event.key === "Escape") return clear();
      if (!move) return;
      event.preventDefault();
      const end = this.far() > 0 ? this.last() / this.far() : 1;
      const [share, score] = this.at ?? [end - move[0] / 60, 0];
      this.at = [
        Math.min(end, Math.max(0, share + move[0] / 60)),
        Math.min(this.run.max_player_score, Math.max(0, score + move[1])),
      ];
      this.soon();
    });
  }

  setChosen(agent) {
    this.chosen = agent;
    this.rows = [];
    this.update();
  }

  take(event) {
    if (event.agent !== this.chosen) return;
    if (event.reset) this.rows = [];
    event.frame.forEach((frame, k) => {
      const error = event.error[k];
      if (error !== null && error > 0) this.rows.push([frame, event.score[k], error]);
    });
    this.update();
  }

  update() {
    this.redraw();
    this.table();
  }

  last() {
    if (!this.byScore) {
      const frames = this.series.rows[this.chosen]?.frame ?? [];
      return frames[frames.length - 1] ?? 0;
    }
    return this.rows.reduce((most, row) => Math.max(most, row[0]), 0);
  }

  far() {
    return Math.max(this.run.frames || 0, this.last());
  }

  bottom() {
    return this.surface.height - EDGE.bottom - (this.byScore ? KEY : 0);
  }

  /** Mean errors in a grid of frames by score, and the limits of the colours. */
  grid(far) {
    const scores = this.run.max_player_score + 1;
    const frames = new Set(this.rows.map((row) => row[0]));
    // As many columns as there are rows for the whole run, so that columns touch.
    const spacing = frames.size > 0 ? this.last() / frames.size : far;
    const columns = Math.max(1, Math.min(BINS, Math.round(far / (spacing || 1))));
    const sum = new Float64Array(columns * scores);
    const count = new Uint32Array(columns * scores);
    for (const [frame, score, error] of this.rows) {
      if (!(score >= 0 && score < scores)) continue;
      const column = Math.min(columns - 1, Math.max(0, Math.ceil((frame / far) * columns - 1e-9) - 1));
      sum[column * scores + score] += error;
      count[column * scores + score]++;
    }
    const means = [];
    for (let k = 0; k < sum.length; k++) if (count[k] > 0) means.push(sum[k] / count[k]);
    means.sort((a, b) => a - b);
    const near = (share) => means[Math.floor(share * (means.length - 1))] ?? 1;
    let bottom = 10 ** (Math.floor(Math.log10(near(0.03)) * 2) / 2);
    let top = 10 ** (Math.ceil(Math.log10(near(0.97)) * 2) / 2);
    if (top / bottom < 9.9) [bottom, top] = [bottom / 3.162, top * 3.162];
    return { scores, columns, sum, count, bottom, top };
  }

  draw() {
    const c = this.surface.start();
    if (!c) return;
    if (this.byScore) this.drawMap(c);
    else this.drawCurve(c);
    const root = document.documentElement.dataset;
    root.heat = String(Number(root.heat ?? 0) + 1);
  }

  frameAxis(c, far, bottom) {
    const { width } = this.surface;
    const x = (frame) => EDGE.left + (frame / (far || 1)) * (width - EDGE.left - EDGE.right);
    for (const tick of ticks(0, far || 1, Math.floor(width / 90))) {
      line(c, Math.round(x(tick)) + 0.5, bottom, Math.round(x(tick)) + 0.5, bottom + 4, theme.muted);
      label(c, short(tick), x(tick), bottom + 12, "center");
    }
    line(c, EDGE.left, bottom + 0.5, width - EDGE.right, bottom + 0.5, theme.muted);
    label(c, "frames", width - EDGE.right, bottom + 25, "right");
    return x;
  }

  drawMap(c) {
    const { width } = this.surface;
    const far = this.far();
    const bottom = this.bottom();
    const grid = this.grid(far);
    c.fillStyle = theme.panel;
    c.fillRect(EDGE.left, EDGE.top, width - EDGE.left - EDGE.right, bottom - EDGE.top);
    const wide = (width - EDGE.left - EDGE.right) / grid.columns;
    const tall = (bottom - EDGE.top) / grid.scores;
    const scale = Math.log(grid.top / grid.bottom);
    const share = (error) => Math.log(error / grid.bottom) / scale;
    // Edges lie between the screen's pixels, or seams would show.
    const { ratio } = this.surface;
    const snap = (place) => Math.round(place * ratio) / ratio;
    for (let column = 0; column < grid.columns; column++) {
      for (let score = 0; score < grid.scores; score++) {
        const k = column * grid.scores + score;
        if (grid.count[k] === 0) continue;
        const [r, g, b] = heatColour(share(grid.sum[k] / grid.count[k]));
        c.fillStyle = `rgb(${r} ${g} ${b})`;
        const [left, top] = [snap(EDGE.left + column * wide), snap(bottom - (score + 1) * tall)];
        c.fillRect(left, top, snap(EDGE.left + (column + 1) * wide) - left, snap(bottom - score * tall) - top);
      }
    }
    const every = ticks(0, this.run.max_player_score, Math.max(2, Math.floor((bottom - EDGE.top) / 34)));
    for (const tick of every) if (Number.isInteger(tick)) label(c, String(tick), EDGE.left - 7, bottom - (tick + 0.5) * tall, "right");
    c.save();
    c.translate(11, (bottom + EDGE.top) / 2);
    c.rotate(-Math.PI / 2);
    label(c, "player's score", 0, 0, "center");
    c.restore();
    this.frameAxis(c, far, bottom);
    if (this.rows.length === 0) label(c, "No errors yet.", (EDGE.left + width) / 2, (bottom + EDGE.top) / 2, "center");
    else this.drawKey(c, grid);
    this.readMap(c, grid, far, wide, tall, bottom);
  }

  drawKey(c, grid) {
    const [left, right] = [EDGE.left, Math.min(this.surface.width - EDGE.right, EDGE.left + 260)];
    const y = this.surface.height - 26;
    for (let x = left; x < right; x += 2) {
      const [r, g, b] = heatColour((x - left) / (right - left));
      c.fillStyle = `rgb(${r} ${g} ${b})`;
      c.fillRect(x, y, 2, 9);
    }
    const decades = Math.log10(grid.top / grid.bottom);
    for (let power = Math.ceil(Math.log10(grid.bottom) - 1e-9); power <= Math.log10(grid.top) + 1e-9; power++) {
      const x = left + ((power - Math.log10(grid.bottom)) / decades) * (right - left);
      label(c, power >= 0 ? short(10 ** power) : (10 ** power).toFixed(-power), x, y + 17, "center");
    }
    label(c, "error", right + 8, y + 5, "left");
  }

  readMap(c, grid, far, wide, tall, bottom) {
    const node = byId("td-readout");
    if (!this.at) return setText(node, "\u00a0");
    const [share, score] = this.at;
    const column = Math.min(grid.columns - 1, Math.floor(share * grid.columns));
    const k = column * grid.scores + score;
    c.strokeStyle = theme.ink;
    c.lineWidth = 1.5;
    c.strokeRect(EDGE.left + column * wide, bottom - (score + 1) * tall, Math.max(wide, 3), tall);
    const error = grid.count[k] > 0 ? "error " + compact(grid.sum[k] / grid.count[k]) : "no samples";
    setText(node, `${whole(Math.round(((column + 1) * far) / grid.columns))} frames, player's score ${score}: ${error}.`);
  }

  drawCurve(c) {
    const bottom = this.bottom();
    const far = this.far();
    const { width } = this.surface;
    const points = this.series.line(this.chosen, "td").filter((point) => point[1] > 0);
    const x = this.frameAxis(c, far, bottom);
    const values = points.map((point) => Math.log10(point[1]));
    const low = values.length > 0 ? Math.floor(Math.min(...values) - 0.05) : -1;
    const high = values.length > 0 ? Math.ceil(Math.max(...values) + 0.05) : 0;
    const y = (value) => bottom - ((value - low) / (high - low || 1)) * (bottom - EDGE.top);
    const step = Math.ceil((high - low) / 6);
    for (let power = low; power <= high; power += step) {
      const at = Math.round(y(power)) + 0.5;
      line(c, EDGE.left, at, width - EDGE.right, at, theme.grid);
      label(c, short(10 ** power), EDGE.left - 7, at, "right");
    }
    c.strokeStyle = safeColour(this.run.agents[this.chosen]?.colour);
    c.lineWidth = 2;
    c.lineJoin = "round";
    c.beginPath();
    points.forEach((point, k) => c.lineTo(x(point[0]), y(values[k])));
    c.stroke();
    if (points.length === 0) label(c, "No errors yet.", (EDGE.left + width) / 2, bottom / 2, "center");
    const node = byId("td-readout");
    const found = this.at && closest(points, this.at[0] * far);
    if (!found) return setText(node, "\u00a0");
    line(c, x(found[0]), EDGE.top, x(found[0]), bottom, theme.muted);
    setText(node, `${whole(found[0])} frames: TD error ${compact(found[1])}.`);
  }

  fill() {
    if (!this.byScore) {
      const points = this.series.line(this.chosen, "td").slice(-5);
      fillTable(byId("td-table"), "Newest TD errors", ["Frames", "Error"], points.map((point) => [whole(point[0]), compact(point[1])]));
      return;
    }
    const last = this.last();
    const rows = this.rows.filter((row) => row[0] === last).map((row) => [String(row[1]), compact(row[2])]);
    fillTable(byId("td-table"), `TD error by the player's score at frame ${whole(last)}`, ["Player's score", "Error"], rows);
  }
}
