// One action's drawing: bars by frequency, a distribution, or a single value.

import { compact, short } from "./format.js";
import { symlog, symlogTicks, ticks } from "./scale.js";
import { label, line } from "./surface.js";
import { frequencyColour, theme } from "./theme.js";

const AXIS = 26;
/** Room for the numbers of the vertical axis. */
export const GUTTER = 36;

/** Bars of the frequencies. `at` has: outputs, best, weights, weighted, range, isBest, axis, mark. */
export function drawFrequencies(surface, at) {
  const c = surface.start();
  if (!c) return;
  const count = at.outputs.length;
  const [left, right] = [GUTTER, 2];
  const bottom = surface.height - (at.axis ? AXIS : 3);
  const top = 5;
  const wide = (surface.width - left - right) / count;
  const place = at.weighted ? symlog : (v) => v;
  const [low, high] = [place(at.range.low), place(at.range.high)];
  const y = (value) => {
    const share = (Math.min(high, Math.max(low, place(value))) - low) / (high - low || 1);
    return bottom - share * (bottom - top);
  };
  const zero = Math.round(y(0)) + 0.5;

  const room = Math.max(1, Math.floor((bottom - top) / 34));
  const marks = at.weighted ? symlogTicks(at.range.low, at.range.high, room) : ticks(at.range.low, at.range.high, room);
  // There is always a number beside 0 to read the scale by.
  if (!marks.some((tick) => tick > 0) && at.range.high > 0) marks.push(at.range.high);
  for (const tick of marks) {
    const height = Math.round(y(tick)) + 0.5;
    if (tick !== 0) line(c, left, height, surface.width - right, height, Math.abs(tick) === 1 ? theme.rule : theme.grid);
    label(c, short(tick), left - 5, Math.min(bottom - 3, Math.max(top + 3, height)), "right");
  }

  const gap = wide > 9 ? 2 : wide > 5 ? 1 : 0.5;
  for (let k = 0; k < count; k++) {
    const value = at.outputs[k] * (at.weighted ? at.weights[k] ?? 1 : 1);
    if (!Number.isFinite(value)) continue;
    const x = left + k * wide;
    if (at.mark === k) {
      c.fillStyle = theme.grid;
      c.fillRect(x, top, wide, bottom - top);
    }
    const end = y(value);
    c.globalAlpha = at.isBest ? 1 : theme.dark ? 0.66 : 0.55;
    c.fillStyle = frequencyColour(k, count);
    c.fillRect(x + gap / 2, Math.min(zero, end), wide - gap, Math.max(0.75, Math.abs(end - zero)));
    c.globalAlpha = 1;
    // Where the best action's bar ends, so that small differences can be seen.
    if (at.best && !at.isBest) {
      const other = y(at.best[k] * (at.weighted ? at.weights[k] ?? 1 : 1));
      if (Math.abs(other - end) > 0.7) line(c, x + gap / 2, other, x + wide - gap / 2, other, theme.ink);
    }
  }
  line(c, left, zero, surface.width - right, zero, theme.muted);
  if (at.axis) frequencyAxis(c, left, wide, bottom, at.weights);
}

/** Numbers of the frequencies, and what each counts, below. */
export function frequencyAxis(c, left, wide, bottom, weights) {
  const spaced = (room) => [1, 2, 5, 10, 20, 30, 60].find((step) => step * wide >= room) ?? 60;
  const [numbers, counts] = [spaced(17), spaced(46)];
  const end = left + wide * weights.length;
  let used = -100;
  for (let k = 0; k < weights.length; k++) {
    const x = left + (k + 0.5) * wide;
    if (k % numbers === 0) label(c, String(k), x, bottom + 8, "center", theme.ink);
    if (k % counts !== 0) continue;
    const text = "×" + short(weights[k]);
    const half = c.measureText(text).width / 2;
    const at = Math.min(x, end - half);
    if (at - half < used + 4) continue;
    used = at + half;
    label(c, text, at, bottom + 20, "center");
  }
}

/** Probabilities over the support, with the mean. */
export function drawDistribution(surface, at) {
  const c = surface.start();
  if (!c) return;
  const [left, right] = [6, 6];
  const bottom = surface.height - (at.axis ? 16 : 3);
  const top = 5;
  const count = at.outputs.length;
  const span = surface.width - left - right;
  const x = (k) => left + (count > 1 ? k / (count - 1) : 0.5) * span;
  const y = (p) => bottom - (Math.min(p, at.range.high) / at.range.high) * (bottom - top);

  let before = -100;
  for (const tick of ticks(at.support[0], at.support[count - 1], Math.max(2, Math.floor(span / 64)))) {
    const here = x(supportPlace(at.support, tick));
    // A support that is not even brings its ticks close together somewhere.
    if (here - before < 38) continue;
    before = here;
    line(c, Math.round(here) + 0.5, top, Math.round(here) + 0.5, bottom, theme.grid);
    if (at.axis) label(c, short(tick), Math.max(12, Math.min(surface.width - 14, here)), bottom + 10, "center");
  }
  const shape = new Path2D();
  shape.moveTo(x(0), bottom);
  at.outputs.forEach((p, k) => shape.lineTo(x(k), y(p)));
  const edge = new Path2D(shape);
  shape.lineTo(x(count - 1), bottom);
  shape.closePath();
  c.fillStyle = at.colour;
  c.globalAlpha = at.isBest ? 0.75 : 0.36;
  c.fill(shape);
  c.globalAlpha = at.isBest ? 1 : 0.7;
  c.strokeStyle = at.colour;
  c.lineWidth = 1.25;
  c.stroke(edge);
  c.globalAlpha = 1;
  line(c, left, bottom + 0.5, surface.width - right, bottom + 0.5, theme.muted);
  const mean = x(supportPlace(at.support, at.value));
  c.setLineDash([3, 2]);
  line(c, mean, top, mean, bottom, theme.ink, 1.5);
  c.setLineDash([]);
  if (at.mark !== null && at.mark < count) {
    c.fillStyle = theme.ink;
    c.beginPath();
    c.arc(x(at.mark), y(at.outputs[at.mark]), 3, 0, 7);
    c.fill();
  }
}

/** Where a value lies among the values of the support, as a place that need not be whole. */
function supportPlace(support, value) {
  let k = 0;
  while (k < support.length - 2 && support[k + 1] < value) k++;
  const span = support[k + 1] - support[k];
  const share = span > 0 ? (value - support[k]) / span : 0;
  return Math.min(support.length - 1, Math.max(0, k + share));
}

/** One bar on the scale that all actions share. */
export function drawValue(surface, at) {
  const c = surface.start();
  if (!c) return;
  const [left, right] = [6, 10];
  const bottom = surface.height - (at.axis ? 18 : 2);
  const { low, high } = at.range;
  const x = (v) => left + ((Math.min(high, Math.max(low, v)) - low) / (high - low || 1)) * (surface.width - left - right);
  for (const tick of ticks(low, high, Math.max(2, Math.floor(surface.width / 90)))) {
    line(c, Math.round(x(tick)) + 0.5, 2, Math.round(x(tick)) + 0.5, bottom, tick === 0 ? theme.muted : theme.grid);
    if (at.axis) label(c, short(tick), Math.max(10, x(tick)), bottom + 10, "center");
  }
  const height = Math.min(48, (bottom - 2) * 0.66);
  const y = 2 + (bottom - 2 - height) / 2;
  c.fillStyle = at.colour;
  c.globalAlpha = at.isBest ? 1 : 0.5;
  c.fillRect(Math.min(x(0), x(at.value)), y, Math.max(1, Math.abs(x(at.value) - x(0))), height);
  c.globalAlpha = 1;
  if (!at.isBest && at.bestValue !== null) line(c, x(at.bestValue), y - 2, x(at.bestValue), y + height + 2, theme.ink, 1.5);
}

/** What a hovered or focused place of an action's drawing says. */
export function describe(kind, outputs, mark, info) {
  if (kind === "frequencies") {
    const value = outputs[mark];
    const weight = info.weights[mark];
    return `frequency ${mark} counts ${compact(weight)}: output ${compact(value)}, adds ${compact(value * weight)}`;
  }
  return `value ${compact(info.support[mark])}: probability ${(outputs[mark] * 100).toFixed(1)}%`;
}
