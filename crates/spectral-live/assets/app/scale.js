// Axes: round ticks, ranges that follow what is shown, and a scale that is linear near 0 and logarithmic beyond.

/** The smallest of 1, 2, 5 times a power of ten that is at least `value`. */
export function niceAbove(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 1.5, 2, 3, 5, 7.5, 10]) if (value <= step * power * (1 + 1e-9)) return step * power;
  return 10 * power;
}

/** Round ticks from `low` to `high`, about `count` of them. */
export function ticks(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((s) => s * power).find((s) => s >= rough * 0.999);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) out.push(Number((k * step).toPrecision(12)));
  return out;
}

export const symlog = (value) => Math.sign(value) * Math.log10(1 + Math.abs(value));

/** Ticks of a symlog axis that reaches to `low` and `high` (in values). */
export function symlogTicks(low, high, room) {
  const decades = Math.ceil(Math.max(symlog(high), -symlog(low)));
  const every = Math.max(1, Math.ceil(decades / Math.max(1, room)));
  const out = [0];
  for (let d = every; d <= decades; d += every) {
    if (10 ** d <= high) out.push(10 ** d);
    if (-(10 ** d) >= low) out.push(-(10 ** d));
  }
  return out;
}

const MEMORY = 2500;

/** A range that grows at once and forgets after a few seconds. Its ends are round numbers; 0 is always inside. */
export class SlowRange {
  constructor(least) {
    this.least = least;
    this.reset();
  }

  reset() {
    this.seen = [];
    this.low = 0;
    this.high = this.least;
  }

  /** Takes in the smallest and largest value of a moment (milliseconds). */
  take(low, high, now) {
    this.seen.push([now, -low, high]);
    while (now - this.seen[0][0] > MEMORY) this.seen.shift();
    const peak = (k) => this.seen.reduce((most, one) => Math.max(most, one[k]), 0);
    // A lower peak must be well below its round end before that end moves.
    const follow = (most, end) => {
      if (most <= 0) return 0;
      const target = niceAbove(most);
      return target > end || niceAbove(most * 1.25) < end ? target : end;
    };
    this.high = follow(peak(2), this.high);
    this.low = -follow(peak(1), -this.low);
    if (this.high - this.low < this.least) this.high = this.low + this.least;
  }
}
