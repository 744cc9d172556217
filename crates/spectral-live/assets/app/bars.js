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
  // There is always a number beside 0 to read the scale by; it must not be written over another.
  if (!marks.some((tick) => tick !== 0)) marks.push(at.range.high > -at.range.low ? at.range.high : at.range.low);
  const written = [];
  for (const tick of marks.sort((a, b) => Math.abs(a) - Math.abs(b))) {
    const height = Math.round(y(tick)) + 0.5;
    if (tick !== 0) line(c, left, height, surface.width - right, height, Math.abs(tick) === 1 ? theme.rule : theme.grid);
    const middle = Math.min(bottom - 3, Math.max(top + 3, height));
    if (written.some((other) => Math.abs(other - middle) < 11)) continue;
    written.push(middle);
    label(c, short(tick), left - 5, middle, "right");
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

/** Numbers of the frequencies, and their weights in the value, below. */
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

/** The part of the support where there is some probability: grows at once, shrinks within a few seconds. */
export class Window {
  constructor() {
    this.low = Infinity;
    this.high = -Infinity;
    this.at = 0;
  }

  take(outputs, count, now) {
    let [low, high] = [count - 1, 0];
    for (const list of outputs) {
      list.forEach((p, k) => {
        if (!(p > 0.002)) return;
        if (k < low) low = k;
        if (k > high) high = k;
      });
    }
    const least = Math.min(12, count - 1);
    const middle = low <= high ? (low + high) / 2 : (count - 1) / 2;
    const half = Math.max(least, (high - low) * 1.15 + 2) / 2;
    const fade = 1 - 0.5 ** (Math.min(now - this.at, 1000) / 900);
    this.at = now;
    const [first, last] = [Math.max(0, middle - half), Math.min(count - 1, middle + half)];
    this.low = first < this.low ? first : this.low + (first - this.low) * fade;
    this.high = last > this.high ? last : this.high + (last - this.high) * fade;
  }
}

/** Round values of the support with room between them: even ones, or 1, 2 and 5 times powers of ten if it is not even. */
function supportTicks(support, low, high, x) {
  const [first, last] = [supportValue(support, low), supportValue(support, high)];
  const steps = [support[1] - support[0], support[support.length >> 1] - support[(support.length >> 1) - 1]];
  const even = Math.abs(steps[0] - steps[1]) < 0.3 * Math.abs(steps[1]);
  const found = [];
  const offer = (value) => {
    const here = x(supportPlace(support, value));
    if (value < first || value > last || found.some((one) => Math.abs(one.x - here) < 46)) return;
    found.push({ value, x: here });
  };
  if (even) ticks(first, last, Math.max(2, (x(high) - x(low)) / 64)).forEach(offer);
  else {
    offer(0);
    for (let power = -3; power < 15; power++) {
      for (const step of [1, 2, 5]) {
        offer(step * 10 ** power);
        offer(-step * 10 ** power);
      }
    }
  }
  return found;
}

/** Probabilities over the support, with the value that is read out. `at.window` is the part of the support that is shown. */
export function drawDistribution(surface, at) {
  const c = surface.start();
  if (!c) return;
  const [left, right] = [6, 6];
  const bottom = surface.height - (at.axis ? 16 : 3);
  const top = 5;
  const { low, high } = at.window;
  const span = surface.width - left - right;
  const x = (k) => left + ((k - low) / (high - low || 1)) * span;
  const y = (p) => bottom - (Math.min(p, at.range.high) / at.range.high) * (bottom - top);

  for (const tick of supportTicks(at.support, low, high, x)) {
    line(c, Math.round(tick.x) + 0.5, top, Math.round(tick.x) + 0.5, bottom, theme.grid);
    if (at.axis) label(c, short(tick.value), Math.max(12, Math.min(surface.width - 14, tick.x)), bottom + 10, "center");
  }
  c.save();
  c.beginPath();
  c.rect(left, 0, span, bottom + 1);
  c.clip();
  const shape = new Path2D();
  const [first, last] = [Math.floor(low), Math.min(at.outputs.length - 1, Math.ceil(high))];
  shape.moveTo(x(first), bottom);
  for (let k = first; k <= last; k++) shape.lineTo(x(k), y(at.outputs[k]));
  const edge = new Path2D(shape);
  shape.lineTo(x(last), bottom);
  shape.closePath();
  c.fillStyle = at.colour;
  c.globalAlpha = at.isBest ? 0.75 : 0.36;
  c.fill(shape);
  c.globalAlpha = at.isBest ? 1 : 0.7;
  c.strokeStyle = at.colour;
  c.lineWidth = 1.25;
  c.stroke(edge);
  c.globalAlpha = 1;
  c.restore();
  line(c, left, bottom + 0.5, surface.width - right, bottom + 0.5, theme.muted);
  const mean = Math.min(surface.width - right, Math.max(left, x(supportPlace(at.support, at.value))));
  c.setLineDash([3, 2]);
  line(c, mean, top, mean, bottom, theme.ink, 1.5);
  c.setLineDash([]);
  if (at.mark !== null && at.mark >= low && at.mark <= high) {
    c.fillStyle = theme.ink;
    c.beginPath();
    c.arc(x(at.mark), y(at.outputs[at.mark]), 3, 0, 7);
    c.fill();
  }
}

function supportValue(support, place) {
  const k = Math.min(support.length - 2, Math.max(0, Math.floor(place)));
  return support[k] + (support[k + 1] - support[k]) * (place - k);
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
    return `frequency ${mark}, weight ${compact(weight)}: output ${compact(value)}, adds ${compact(value * weight)}`;
  }
  return `value ${compact(info.support[mark])}: probability ${(outputs[mark] * 100).toFixed(1)}%`;
}
