// The header: whether the run is well, how far it is, and how the page itself is connected.

import { byId, element, setHidden, setText } from "./dom.js";
import { compact, duration, known, percent, score, short, whole } from "./format.js";

const WORDS = { well: "Well", look: "Take a look", bad: "Trouble", waiting: "Waiting", unknown: "Not known" };
const STATUS = {
  running: "running", finished: "finished", interrupted: "interrupted", silent: "no process", gone: "gone",
};

export class Health {
  constructor() {
    this.run = null;
    this.progress = null;
    this.connected = false;
    this.spoken = "";
    this.spokenAt = -1e9;
    this.titled = "";
  }

  setRun(run) {
    this.run = run;
    setText(byId("task"), run.task);
    setText(byId("path"), run.path);
    byId("path").title = run.path;
    setText(byId("mode"), run.mode === "playing" ? "A frozen model plays"
      : run.agents.length === 1 ? "An agent as it learns" : "Agents as they learn");
    setText(byId("rate-name"), run.agents.length === 1 ? "Rate" : "Rate, all agents");
    setText(byId("version"), "Spectral " + run.version);
    setText(byId("command"), run.command ?? "");
    document.body.dataset.mode = run.mode;
    document.title = run.task + " – Spectral";
  }

  badge(level, text) {
    const known = level in WORDS ? level : "look";
    byId("health").dataset.level = known;
    setText(byId("health-word"), WORDS[known]);
    setText(byId("health-text"), text);
  }

  take(progress) {
    this.progress = progress;
    const { run } = this;
    this.badge(progress.health?.level ?? "waiting", progress.health?.text ?? "");
    setText(byId("status"), STATUS[progress.status] ?? String(progress.status));
    byId("status").dataset.status = progress.status;
    setText(byId("rate"), progress.rate > 0 ? compact(progress.rate) + " frames/s" : "–");
    setText(byId("left"), duration(progress.left_seconds));
    const over = progress.status !== "running";
    setHidden(byId("rate").parentNode, over && !known(progress.rate));
    setHidden(byId("left").parentNode, over && !known(progress.left_seconds));
    const age = progress.checkpoint_age;
    setText(byId("checkpoint"), known(age) ? duration(age) + " ago" : "none yet");
    setHidden(byId("checkpoint").parentNode, progress.status === "finished" && !known(age));
    const late = known(age) && known(progress.checkpoint_seconds) && age > 3 * progress.checkpoint_seconds + 30;
    byId("checkpoint").classList.toggle("late", late && progress.status === "running");

    const learning = progress.agents.filter((one) => !one.stopped);
    const done = learning.reduce((sum, one) => sum + Math.min(one.frames, run.frames), 0);
    const all = learning.length * run.frames;
    const share = all > 0 ? done / all : 0;
    byId("progress-bar").style.transform = `scaleX(${Math.min(1, share)})`;
    byId("progress").setAttribute("aria-valuenow", String(Math.floor(share * 100)));
    const count = run.agents.length;
    setText(byId("progress-text"),
      `${Math.floor(share * 100)}%: ${short(done)} of ${short(all)} frames, ` +
      `${count} ${count === 1 ? "agent" : "agents"}, after ${duration(progress.seconds)}${this.before(learning)}`);
    this.messages(progress.agents);
    this.title(share);
    this.speak(share);
  }

  /** While no agent has come so far that it learns. */
  before(agents) {
    const start = this.run.learning_starts;
    if (!known(start) || this.run.mode !== "training" || agents.length === 0) return "";
    return agents.every((one) => one.frames < start) ? `. Learning begins at frame ${whole(start)}` : "";
  }

  messages(agents) {
    const list = [];
    agents.forEach((one, k) => {
      const name = this.run.agents[k] ? `${this.run.agents[k].agent}, seed ${this.run.agents[k].seed}` : "agent " + k;
      if (one.stopped) list.push(["bad", `${name} stopped: ${one.stopped}`]);
      if (one.saturated > 0) list.push(["look", `${name}: ${whole(one.saturated)} rewards beyond the capacity lost their excess.`]);
    });
    const key = JSON.stringify(list);
    if (key === this.listed) return;
    this.listed = key;
    byId("messages").replaceChildren(...list.map(([level, text]) => element("li", text, level)));
  }

  title(share) {
    const level = this.progress.health?.level;
    const sign = !this.connected || level === "well" ? "" : "! ";
    const title = `${sign}${Math.floor(share * 100)}% ${this.run.task} – Spectral`;
    if (title !== this.titled) document.title = this.titled = title;
  }

  /** For screen readers: a sentence at most every ten seconds, and only if it is another one. */
  speak(share) {
    const now = performance.now();
    if (now - this.spokenAt < 10_000) return;
    const own = this.progress.agents[this.chosen ?? 0];
    const text = `${WORDS[this.progress.health?.level] ?? ""}. ${this.progress.health?.text ?? ""} ` +
      `${percent(Math.round(share * 100) / 100)} done. Score ${score(own?.score)}.`;
    if (text === this.spoken) return;
    this.spoken = text;
    this.spokenAt = now;
    setText(byId("announcer"), text);
  }

  /** The page's own connection: "connecting", "open", "lost", "refused" or "ended". */
  connection(state, text) {
    this.connected = state === "open";
    const node = byId("connection");
    node.dataset.state = state;
    setText(node, { open: "connected", lost: "connection lost", refused: "refused", ended: "ended" }[state] ?? "connecting");
    setHidden(byId("notice"), !text);
    setText(byId("notice"), text ?? "");
    document.body.classList.toggle("stale", state !== "open" && state !== "ended");
    if (state === "open" && this.progress) this.badge(this.progress.health?.level ?? "waiting", this.progress.health?.text ?? "");
    else if (state === "lost" || state === "refused") this.badge("unknown", state === "lost" ? "No connection to the run." : "The page may not ask.");
  }
}
