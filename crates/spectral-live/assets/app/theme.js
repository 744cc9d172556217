// Colours for canvases: from the style sheet, read again when light and dark change.

const NAMES = ["ink", "muted", "rule", "surface", "panel", "agree", "differ", "note-edge", "grid"];
const listeners = new Set();
const dark = matchMedia("(prefers-color-scheme: dark)");

export const theme = {};

function read() {
  const style = getComputedStyle(document.documentElement);
  for (const name of NAMES) theme[name] = style.getPropertyValue("--" + name).trim();
  theme.dark = dark.matches;
  theme.font = "system-ui, -apple-system, 'Segoe UI', Roboto, Ubuntu, 'Helvetica Neue', sans-serif";
}

read();
dark.addEventListener("change", () => {
  read();
  for (const listener of listeners) listener();
});

export const onTheme = (listener) => listeners.add(listener);

function mix(stops, share) {
  const place = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  return stops[below].map((a, k) => Math.round(a + (stops[below + 1][k] - a) * (place - below)));
}

// From low frequencies (blue) to high ones (red), as in the reports.
const SPECTRUM = [[36, 105, 214], [98, 98, 214], [152, 84, 178], [196, 68, 116], [219, 50, 47]];
const SPECTRUM_DARK = [[66, 134, 240], [122, 122, 240], [176, 106, 206], [222, 92, 140], [242, 84, 76]];

export function frequencyColour(place, count) {
  const [r, g, b] = mix(theme.dark ? SPECTRUM_DARK : SPECTRUM, count > 1 ? place / (count - 1) : 0);
  return `rgb(${r} ${g} ${b})`;
}

// Lightness rises all the way, from blue to yellow: it reads without telling red from green, on white and on grey.
const HEAT = [[52, 58, 140], [66, 96, 166], [72, 138, 168], [104, 176, 152], [170, 204, 118], [246, 222, 92]];

export const heatColour = (share) => mix(HEAT, share);
