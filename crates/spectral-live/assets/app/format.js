// Numbers as text.

const minus = (text) => text.replace("-", "\u2212");
const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

export const known = (value) => typeof value === "number" && Number.isFinite(value);

/** Three digits and a unit: 0.123, 4.56, 12.3k, 1.05M. */
export function compact(value) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size >= 999.5e12) return minus(value.toExponential(2));
  for (const [unit, letter] of UNITS) {
    if (size >= unit * 0.9995) return minus(threeDigits(value / unit)) + letter;
  }
  if (size === 0) return "0";
  if (size < 0.0005) return size < 1e-12 ? "0" : minus(value.toExponential(0));
  return minus(threeDigits(value));
}

function threeDigits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

/** With as few digits as the number needs: 1M, 0.5, 250k. */
export function short(value) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e15) return minus(value.toExponential(0));
  for (const [unit, letter] of UNITS) {
    if (size >= unit) return minus(String(Number((value / unit).toPrecision(3)))) + letter;
  }
  if (size > 0 && size < 1e-3) return minus(value.toExponential(0));
  return minus(String(Number(value.toPrecision(3))));
}

/** Whole numbers with thousands apart. */
export const whole = (value) => (known(value) ? minus(grouped.format(value)) : "–");

/** A score: whole if it is whole. */
export const score = (value) =>
  known(value) && Number.isInteger(value) && Math.abs(value) < 1e6 ? whole(value) : compact(value);

export function signed(value) {
  if (!known(value)) return "–";
  return value > 0 ? "+" + score(value) : score(value);
}

export function percent(share) {
  if (!known(share)) return "–";
  const value = share * 100;
  if (value === 0) return "0%";
  if (value >= 99.95) return "100%";
  if (value < 1e-5) return minus(value.toExponential(0)) + "%";
  return Number(value.toPrecision(value >= 10 ? 3 : 2)) + "%";
}

export function duration(seconds) {
  if (!known(seconds) || seconds < 0) return "–";
  if (seconds < 1) return "less than 1 s";
  if (seconds < 90) return Math.round(seconds) + " s";
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return minutes + " min";
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return hours + " h " + String(minutes % 60).padStart(2, "0") + " min";
  return Math.floor(hours / 24) + " d " + (hours % 24) + " h";
}
