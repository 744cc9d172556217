// Puts the parts together: what is run, the two streams, and the agent that is looked at.

import { Refused, Stream, eventReader, pictureReader, reload, request } from "./connection.js";
import { Controls } from "./controls.js";
import { Curves } from "./curves.js";
import { byId, element, setHidden, setText } from "./dom.js";
import { Frequencies } from "./frequencies.js";
import { short, whole } from "./format.js";
import { drawGame, forgetGame, showJump } from "./game.js";
import { Health } from "./health.js";
import { Heat } from "./heat.js";
import { Series } from "./series.js";
import { Spectrum } from "./spectrum.js";
import { drawing } from "./surface.js";

const root = document.documentElement.dataset;
for (const kind of ["error", "unhandledrejection"]) {
  addEventListener(kind, (event) => {
    root.error = String(event.message ?? event.reason);
  });
}

const OPEN_LINK = "The server did not accept this page. Open the link that the command printed; it ends in # and a key.";
const health = new Health();
/** After the end: how often (ms) the page looks whether another run is served here, and for how long. */
const LOOK_EVERY = 3000;
const LOOK_FOR = 600_000;

async function findRun() {
  for (let failures = 0; ; failures++) {
    try {
      return await (await request("/run", { signal: AbortSignal.timeout(10_000) })).json();
    } catch (error) {
      if (error instanceof Refused && error.status === 401) {
        health.connection("refused", OPEN_LINK);
        forgetGame("No picture without the key.");
        return null;
      }
      const text = error instanceof Refused ? error.message
        : "No answer from the server. The page tries again; a browser shows at most three windows of one run at a time.";
      health.connection("lost", text);
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(15_000, 500 * 2 ** failures)));
  }
}

class Page {
  constructor(run) {
    this.run = run;
    this.chosen = -1;
    this.ended = false;
    this.lost = false;
    this.newest = null;
    this.frame = null;
    this.series = new Series(run.agents);
    this.curves = new Curves(run, this.series, (agent) => this.ask(agent));
    this.heat = new Heat(run, this.series);
    this.frequencies = new Frequencies(run);
    this.spectrum = new Spectrum(run);
    this.controls = new Controls(run, (state) => this.follow(state));
    this.events = new Stream(() => eventReader((name, data) => this.event(name, data)), (...state) => this.eventState(...state));
    this.pictures = new Stream(
      () => pictureReader((message, bytes) => this.picture(message, bytes)),
      (state) => this.pictureState(state),
    );
    this.show = drawing(33, () => this.drawPicture());
    for (const stream of [this.events, this.pictures]) {
      stream.problem = (error) => {
        root.error = String(error);
      };
    }
    this.fillAgents();
    this.choose(0);
    this.motion();
    document.addEventListener("visibilitychange", () => this.visibility());
    addEventListener("online", () => this.retry());
    addEventListener("focus", () => this.retry());
  }

  fillAgents() {
    const select = byId("agent");
    const groups = new Map();
    this.run.agents.forEach((one, k) => {
      if (!groups.has(one.agent)) {
        const group = select.appendChild(element("optgroup"));
        group.label = one.agent;
        groups.set(one.agent, group);
      }
      const option = groups.get(one.agent).appendChild(element("option", `${one.agent}, seed ${one.seed}`));
      option.value = String(k);
    });
    select.addEventListener("change", () => this.ask(Number(select.value)));
  }

  /** Another agent was asked for here: in playing mode, the server decides. */
  ask(agent) {
    if (agent === this.chosen) return;
    if (this.run.mode === "playing") {
      byId("agent").value = String(agent);
      this.controls.send({ agent: this.run.agents[agent].id });
    } else this.choose(agent);
  }

  /** In playing mode, another page may have chosen. */
  follow(state) {
    const agent = this.run.agents.findIndex((one) => one.id === state.agent);
    if (agent >= 0 && agent !== this.chosen) this.choose(agent);
    this.setPace(this.calm && !state.human && !byId("motion").checked);
  }

  setPace(calm) {
    this.show.every = calm ? 1000 : 33;
    this.spectrum.redraw.every = calm ? 1000 : this.spectrum.pace();
  }

  choose(agent) {
    this.chosen = agent;
    health.chosen = agent;
    byId("agent").value = String(agent);
    const one = this.run.agents[agent];
    this.controls.filmName = one?.id;
    this.curves.setChosen(agent);
    this.heat.setChosen(agent);
    this.frequencies.setChosen(agent);
    root.agent = one?.id ?? "";
    this.frame = null;
    this.own();
    this.open(this.run.mode === "training" || this.pictures.path === null);
  }

  /** What the progress says about the chosen agent: its chance, and whether it was stopped. */
  own() {
    const own = health.progress?.agents?.[this.chosen];
    const training = this.run.mode === "training";
    setHidden(byId("chance-box"), !training);
    setText(byId("chance"), short(own?.epsilon));
    const stopped = training && Boolean(own?.stopped);
    setHidden(byId("stopped-flag"), !stopped);
    if (this.newest?.message.agent === this.chosen) return;
    if (stopped) {
      this.newest = null;
      forgetGame(`This agent was stopped at frame ${whole(own.frames)}: there is nothing more to see of it.`);
      this.spectrum.forget(this.chosen);
    } else if (this.ended) {
      this.newest = null;
      forgetGame("The run has ended: no picture of this agent was kept.");
      this.spectrum.forget(this.chosen);
    } else if (this.newest === null) forgetGame("Waiting for the first picture.");
  }

  open(withPictures) {
    if (document.hidden || this.ended) return;
    const query = "?agent=" + encodeURIComponent(this.run.agents[this.chosen]?.id ?? "");
    this.events.open("/events" + query);
    if (withPictures) this.pictures.open("/pictures" + query);
  }

  /** A hidden page holds no connection: a browser has only six for one server. */
  visibility() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.pictures.close();
      root.pictures = "closed";
      this.hiding = setTimeout(() => this.events.close(), 3000);
    } else if (this.ended) this.look();
    else if (this.events.path === null) this.open(true);
    else this.pictures.open("/pictures?agent=" + encodeURIComponent(this.run.agents[this.chosen]?.id ?? ""));
  }

  retry() {
    this.events.retry();
    this.pictures.retry();
  }

  eventState(state, wait, refused) {
    if (this.ended) return;
    if (state === "open") {
      // Whoever answers after a pause may serve another run.
      if (this.lost) this.look();
      this.lost = false;
      return health.connection("open", "");
    }
    this.lost = true;
    if (state === "refused") {
      this.pictures.close();
      return health.connection("refused", OPEN_LINK);
    }
    health.connection("lost", refused ? refused.message
      : `The connection is lost: what you see is from before. Next try in ${Math.max(1, Math.round(wait / 1000))} s.`);
  }

  pictureState(state) {
    if (root.pictures !== state) root.pictures = state;
    setHidden(byId("picture-flag"), state === "open" || this.ended);
    // If the numbers came back, the pictures will too.
    if (state === "lost" && this.ended) this.pictures.close();
  }

  event(name, data) {
    root.events = String(Number(root.events ?? 0) + 1);
    if (name === "progress") {
      health.take(data);
      this.own();
      const stopped = data.agents.map((one) => Boolean(one.stopped));
      if (String(stopped) !== String(this.curves.stopped)) {
        this.curves.stopped = stopped;
        this.curves.update();
      }
    } else if (name === "curves") {
      this.series.take(data);
      this.curves.update();
      if (!this.heat.byScore && data.agent === this.chosen) this.heat.update();
    } else if (name === "td") this.heat.take(data);
    else if (name === "frequencies") this.frequencies.take(data);
    else if (name === "ended") {
      this.ended = true;
      health.connection("ended", data.text);
      this.events.close();
      this.pictures.close();
      setHidden(byId("picture-flag"), true);
      const until = performance.now() + LOOK_FOR;
      const timer = setInterval(() => {
        if (performance.now() > until) clearInterval(timer);
        else if (!document.hidden) this.look();
      }, LOOK_EVERY);
    }
  }

  /** Follows if another run is served here now. */
  async look() {
    if (this.looking) return;
    this.looking = true;
    try {
      const other = await (await request("/run", { signal: AbortSignal.timeout(2500) })).json();
      if (["path", "task", "command", "mode"].some((name) => other[name] !== this.run[name])) reload();
    } catch {
      // Nobody there, or a stranger: the page stays as it is.
    } finally {
      this.looking = false;
    }
  }

  picture(message, bytes) {
    if (this.run.mode === "training" && message.agent !== this.chosen) return;
    if (message.jump === true && this.frame !== null) showJump(message.frame - this.frame);
    this.frame = message.frame;
    this.spectrum.show(message);
    if (!bytes) return;
    this.newest = { message, bytes };
    this.show();
  }

  drawPicture() {
    if (!this.newest) return;
    const { message, bytes } = this.newest;
    drawGame(message, bytes, this.run);
    this.controls.show(message.controls);
  }

  /** Readers who asked for less motion get one picture a second until they ask for all, or play. */
  motion() {
    const calm = matchMedia("(prefers-reduced-motion: reduce)");
    const set = () => {
      this.calm = calm.matches;
      setHidden(byId("motion-box"), !calm.matches);
      this.setPace(calm.matches && !byId("motion").checked);
    };
    calm.addEventListener("change", set);
    byId("motion").addEventListener("change", set);
    set();
  }
}

const run = await findRun();
if (run) {
  health.setRun(run);
  health.connection("connecting", "");
  window.spectralPage = new Page(run);
  root.ready = "true";
}
