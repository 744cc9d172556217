// Steering a frozen model: pause, step, speed, chance, restart, the keyboard, and the film.

import { control, Refused, request } from "./connection.js";
import { byId, element, setHidden, setText } from "./dom.js";
import { Keys } from "./keys.js";

const FASTEST = 240;
const speedOf = (place) => Math.max(1, Math.round(FASTEST ** (place / 100)));
const speedPlace = (speed) => Math.round((Math.log(Math.max(1, speed)) / Math.log(FASTEST)) * 100);
// The slider is cubic: small chances matter most.
const epsilonOf = (place) => Number(((place / 100) ** 3).toPrecision(2));
const epsilonPlace = (epsilon) => Math.round(Math.cbrt(Math.max(0, epsilon)) * 100);

export class Controls {
  constructor(run, tell) {
    this.run = run;
    this.tell = tell;
    this.playing = run.mode === "playing";
    this.state = null;
    this.queue = Promise.resolve();
    this.waiting = 0;
    this.quietUntil = 0;
    this.keys = new Keys(run.actions);
    this.pressed = null;
    this.sent = null;
    byId("film").addEventListener("click", () => this.film());
    setHidden(byId("controls"), !this.playing);
    if (this.playing) this.wire();
  }

  /** One change after the other, in order; the answer is shown. */
  send(change) {
    this.waiting++;
    this.queue = this.queue.then(async () => {
      try {
        const answer = await control(change);
        this.say("");
        this.quietUntil = performance.now() + 250;
        if (this.waiting === 1) this.show(answer, true);
      } catch (error) {
        this.say(error instanceof Refused ? error.message : "That did not reach the server.");
      } finally {
        this.waiting--;
      }
    });
    return this.queue;
  }

  say(text) {
    setText(byId("control-message"), text);
  }

  wire() {
    byId("pause").addEventListener("click", () => this.send({ paused: !this.state?.paused }));
    byId("step").addEventListener("click", () => this.send(this.state?.paused ? { step: true } : { paused: true }));
    byId("restart").addEventListener("click", () => this.send({ restart: true }));
    byId("human").addEventListener("click", () => (this.state?.human ? this.giveBack() : this.takeOver()));
    for (const id of ["pause", "step", "restart"]) {
      byId(id).addEventListener("click", (event) => {
        if (this.state?.human && event.detail > 0) byId("stage").focus();
      });
    }
    const speed = byId("speed");
    const epsilon = byId("epsilon");
    speed.addEventListener("input", () => setText(byId("speed-value"), speedOf(speed.value) + "/s"));
    speed.addEventListener("change", () => this.send({ speed: speedOf(speed.value) }));
    epsilon.addEventListener("input", () => setText(byId("epsilon-value"), String(epsilonOf(epsilon.value))));
    epsilon.addEventListener("change", () => this.send({ epsilon: epsilonOf(epsilon.value) }));

    setText(byId("keys-help"), this.keys.help(this.run.actions, this.run.rest_action));
    byId("pad").classList.toggle("few", this.run.actions.length <= 4);
    byId("pad").replaceChildren(...this.run.actions.map((name, k) => this.padButton(name, k)));

    addEventListener("keydown", (event) => this.keyDown(event));
    addEventListener("keyup", (event) => {
      if (this.keys.release(event)) this.hold();
    });
    addEventListener("blur", () => this.release());
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.release();
    });
  }

  padButton(name, k) {
    const button = element("button");
    button.type = "button";
    button.dataset.action = String(k);
    if (k < 9) button.append(element("kbd", String(k + 1)));
    button.append(element("span", name));
    const press = () => {
      this.pressed = k;
      this.hold();
    };
    const lift = () => {
      if (this.pressed !== k) return;
      this.pressed = null;
      this.hold();
    };
    button.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      button.setPointerCapture(event.pointerId);
      press();
    });
    for (const name of ["pointerup", "pointercancel", "lostpointercapture", "blur"]) button.addEventListener(name, lift);
    button.addEventListener("keydown", (event) => {
      if (event.code !== "Space" && event.code !== "Enter") return;
      event.preventDefault();
      event.stopPropagation();
      if (!event.repeat) press();
    });
    button.addEventListener("keyup", (event) => {
      if (event.code === "Space" || event.code === "Enter") lift();
    });
    // The pointer leaves the focus where it is, so that space still fires.
    button.addEventListener("mousedown", (event) => event.preventDefault());
    button.addEventListener("contextmenu", (event) => event.preventDefault());
    return button;
  }

  keyDown(event) {
    if (!this.state?.human) return;
    if (event.key === "Escape") {
      event.preventDefault();
      this.giveBack();
      return;
    }
    const target = event.target instanceof Element ? event.target : document.body;
    if (target.closest("select, input, textarea, .chart, #trio")) return;
    if (event.code === "Space" && target.closest("button, a, summary")) return;
    const played = this.keys.press(event);
    // Keys that this game does not use must not scroll the page either.
    if (played || event.code === "Space" || event.code?.startsWith("Arrow")) event.preventDefault();
    if (played && !event.repeat) this.hold();
  }

  takeOver() {
    this.keys.clear();
    this.sent = null;
    this.send({ human: true });
    byId("stage").focus();
  }

  giveBack() {
    this.keys.clear();
    this.pressed = null;
    this.sent = null;
    this.send({ human: false });
    byId("human").focus();
  }

  release() {
    this.keys.clear();
    this.pressed = null;
    this.hold();
  }

  /** Sends the held action if it is another one than before. */
  hold() {
    if (!this.state?.human) return;
    const action = this.pressed ?? this.keys.action();
    if (action === this.sent) return;
    this.sent = action;
    for (const button of byId("pad").children) button.classList.toggle("held", Number(button.dataset.action) === action);
    this.send({ action });
  }

  /** The controls as a picture's message or an answer has them. */
  show(state, own = false) {
    if (!state || !this.playing) return;
    if (!own && (this.waiting > 0 || performance.now() < this.quietUntil)) return;
    this.state = state;
    const pause = byId("pause");
    setText(pause, state.paused ? "Resume" : "Pause");
    pause.setAttribute("aria-pressed", String(state.paused === true));
    byId("step").title = state.paused ? "" : "Pauses first";
    const human = byId("human");
    setText(human, state.human ? "Give back" : "Take over");
    human.setAttribute("aria-pressed", String(state.human === true));
    setHidden(byId("pad-box"), !state.human);
    for (const [id, place, text] of [
      ["speed", speedPlace(state.speed), Math.round(state.speed) + "/s"],
      ["epsilon", epsilonPlace(state.epsilon), String(state.epsilon)],
    ]) {
      if (document.activeElement === byId(id) && byId(id).matches(":active")) continue;
      if (byId(id).value !== String(place)) byId(id).value = String(place);
      setText(byId(id + "-value"), text);
      byId(id).setAttribute("aria-valuetext", text);
    }
    if (!state.human && (this.sent !== null || this.keys.held.size > 0)) {
      this.keys.clear();
      this.pressed = null;
      this.sent = null;
    }
    this.tell(state);
  }

  async film() {
    const button = byId("film");
    button.disabled = true;
    this.say("Writing the film …");
    try {
      const blob = await (await request("/film?agent=" + encodeURIComponent(this.filmName ?? ""))).blob();
      const link = element("a");
      link.href = URL.createObjectURL(blob);
      link.download = (this.run.task + "-" + (this.filmName ?? "film")).replace(/[^a-z0-9._-]+/gi, "-") + ".gif";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 30_000);
      this.say("Film saved, " + Math.max(1, Math.round(blob.size / 1024)) + " KiB.");
    } catch (error) {
      this.say(error instanceof Refused ? error.message : "No film came.");
    } finally {
      button.disabled = false;
    }
  }
}
