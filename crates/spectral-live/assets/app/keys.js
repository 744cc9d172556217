// From held keys to actions.

const KEYS = {
  ArrowUp: "up", KeyW: "up", ArrowDown: "down", KeyS: "down",
  ArrowLeft: "left", KeyA: "left", ArrowRight: "right", KeyD: "right", Space: "fire",
};
const PARTS = ["up", "down", "left", "right", "fire"];

/** The parts of an action's name, such as "upright-fire", or null if it is not a joystick's. */
function parts(name) {
  const found = new Set();
  let rest = name.toLowerCase().replace(/[\s_+-]/g, "");
  while (rest) {
    const part = PARTS.find((one) => rest.startsWith(one));
    if (!part) return null;
    found.add(part);
    rest = rest.slice(part.length);
  }
  return found.size > 0 ? found : null;
}

export class Keys {
  constructor(actions) {
    this.parts = actions.map(parts);
    this.held = new Map();
  }

  /** The place of the key's meaning: a joystick's part, an action's number, or null. */
  meaning(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return null;
    const part = KEYS[event.code] ?? KEYS[event.key];
    if (part) return this.parts.some((one) => one?.has(part)) ? part : null;
    const digit = /^(?:Digit|Numpad)([1-9])$/.exec(event.code ?? "");
    if (digit && Number(digit[1]) <= this.parts.length) return Number(digit[1]) - 1;
    return null;
  }

  press(event) {
    const meaning = this.meaning(event);
    if (meaning === null) return false;
    this.held.set(event.code || event.key, meaning);
    return true;
  }

  release(event) {
    return this.held.delete(event.code || event.key);
  }

  clear() {
    this.held.clear();
  }

  /** The action that the held keys mean, or null. A number counts most; then the action with the most of the held parts. */
  action() {
    const meanings = [...this.held.values()];
    const number = meanings.findLast((one) => typeof one === "number");
    if (number !== undefined) return number;
    const wanted = new Set(meanings);
    // Opposite directions: the one pressed last.
    for (const [a, b] of [["up", "down"], ["left", "right"]]) {
      if (wanted.has(a) && wanted.has(b)) wanted.delete(meanings.lastIndexOf(a) > meanings.lastIndexOf(b) ? b : a);
    }
    if (wanted.size === 0) return null;
    const newest = meanings[meanings.length - 1];
    let [best, most] = [null, 0];
    this.parts.forEach((one, k) => {
      if (!one || [...one].some((part) => !wanted.has(part))) return;
      const worth = one.size + (one.has(newest) ? 0.5 : 0);
      if (worth > most) [best, most] = [k, worth];
    });
    return best;
  }

  /** What the keys are, in words. */
  help(actions, rest) {
    const has = (part) => this.parts.some((one) => one?.has(part));
    const words = [];
    const both = (a, b) => has(a) || has(b);
    if (both("up", "down") || both("left", "right")) words.push("arrow keys or WASD move");
    if (has("fire")) words.push("space fires");
    words.push(actions.length === 1 ? "1 plays the only action" : `1–${Math.min(9, actions.length)} play actions by number`);
    words.push("Esc gives the game back");
    const idle = rest === null || rest === undefined ? "The game waits for you." : `No key plays “${actions[rest]}”.`;
    const text = words.join(", ");
    return text[0].toUpperCase() + text.slice(1) + ". " + idle;
  }
}
