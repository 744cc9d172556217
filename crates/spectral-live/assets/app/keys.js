// From held keys to actions.

const KEYS = {
  ArrowUp: "up", KeyW: "up", ArrowDown: "down", KeyS: "down",
  ArrowLeft: "left", KeyA: "left", ArrowRight: "right", KeyD: "right", Space: "fire",
};
const NAMES = { up: "↑ or W", down: "↓ or S", left: "← or A", right: "→ or D", fire: "space" };
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
    // A paddle that moves along one line is played by the keys of the other line too.
    const either = (a, b) => this.has(a) || this.has(b);
    this.also = either("left", "right") && !either("up", "down") ? { up: "right", down: "left" }
      : either("up", "down") && !either("left", "right") ? { right: "up", left: "down" } : {};
  }

  has(part) {
    return this.parts.some((one) => one?.has(part));
  }

  /** The place of the key's meaning: a joystick's part, an action's number, or null. */
  meaning(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return null;
    const key = KEYS[event.code] ?? KEYS[event.key];
    const part = this.also[key] ?? key;
    if (part) return this.has(part) ? part : null;
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
    const words = ["left", "right", "up", "down", "fire"].filter((part) => this.has(part)).map((part) => `${NAMES[part]} ${part}`);
    for (const [key, part] of Object.entries(this.also)) if (this.has(part)) words.push(`${NAMES[key]} also ${part}`);
    const count = Math.min(9, actions.length);
    if (words.length === 0 && actions.length <= 9) actions.forEach((name, k) => words.push(`${k + 1} ${name}`));
    else if (actions.length <= 9) words.push(count === 1 ? "1 the only action" : `1–${count} the actions below`);
    else words.push("1–9 the first nine actions below");
    words.push("Esc gives the game back");
    const idle = rest === null || rest === undefined ? "The game waits for you." : `No key plays “${actions[rest]}”.`;
    return "Keys: " + words.join(", ") + ". " + idle;
  }
}
