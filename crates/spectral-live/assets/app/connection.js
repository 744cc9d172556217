// The token, single requests, and streams that come back by themselves.

const SILENCE = 12_000;
const WAITS = [500, 1000, 2000, 4000, 8000, 15_000];

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Moves the token from the address into the session's storage. */
function takeToken() {
  const found = /^#([0-9a-f]{32})$/i.exec(location.hash);
  if (found) {
    try {
      sessionStorage.setItem("spectral-token", found[1]);
    } catch {
      // Storage may be switched off: the token then lives as long as the page.
    }
    history.replaceState(null, "", location.pathname + location.search);
    return found[1];
  }
  try {
    return sessionStorage.getItem("spectral-token") ?? "";
  } catch {
    return "";
  }
}

let token = takeToken();
// The same tab may be given another server's link.
addEventListener("hashchange", () => {
  if (/^#[0-9a-f]{32}$/i.test(location.hash)) {
    token = takeToken();
    location.reload();
  }
});

/** One request with the token. Throws `Refused` for an answer that is not a success. */
export async function request(path, options = {}) {
  const answer = await fetch(path, {
    cache: "no-store",
    credentials: "omit",
    ...options,
    headers: { Authorization: "Bearer " + token, ...options.headers },
  });
  if (!answer.ok) {
    const text = (await answer.text().catch(() => "")).slice(0, 300).trim();
    throw new Refused(answer.status, text || "The server answered " + answer.status + ".");
  }
  return answer;
}

export async function control(change) {
  const answer = await request("/control", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(change),
  });
  return answer.json();
}

/**
 * A stream that is opened again when it breaks.
 * `start()` returns a function that takes the bytes; `state` is told "open", "lost" (with the wait) or "refused".
 */
export class Stream {
  constructor(start, state) {
    this.start = start;
    this.state = state;
    this.path = null;
    this.failures = 0;
    this.abort = null;
    this.timer = 0;
  }

  open(path) {
    this.close();
    this.path = path;
    this.failures = 0;
    this.run();
  }

  close() {
    this.path = null;
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
  }

  /** Tries again at once, if it was waiting. */
  retry() {
    if (this.path === null || this.abort) return;
    clearTimeout(this.timer);
    this.run();
  }

  async run() {
    const abort = new AbortController();
    this.abort = abort;
    const take = this.start();
    let watch = setTimeout(() => abort.abort(), SILENCE);
    let refused = null;
    try {
      const answer = await request(this.path, { signal: abort.signal });
      const reader = answer.body.getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done || abort.signal.aborted) break;
        clearTimeout(watch);
        watch = setTimeout(() => abort.abort(), SILENCE);
        if (this.abort !== abort) break;
        this.failures = 0;
        this.state("open");
        take(value);
      }
    } catch (error) {
      if (error instanceof Refused) refused = error;
      else if (!(error instanceof TypeError) && error.name !== "AbortError") this.problem?.(error);
    } finally {
      clearTimeout(watch);
      abort.abort();
    }
    // Closed on purpose, or another one was opened meanwhile.
    if (this.abort !== abort) return;
    this.abort = null;
    if (refused?.status === 401) {
      this.path = null;
      this.state("refused", 0, refused);
      return;
    }
    const wait = WAITS[Math.min(this.failures, WAITS.length - 1)] * (0.85 + Math.random() * 0.3);
    this.failures++;
    this.state("lost", wait, refused);
    this.timer = setTimeout(() => this.run(), wait);
  }
}

/** Reads a text/event-stream; `give(name, data)` is called for each event. */
export function eventReader(give) {
  const decoder = new TextDecoder();
  let rest = "";
  let name = "message";
  let data = [];
  return (bytes) => {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop();
    for (const raw of lines) {
      const text = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (text === "") {
        if (data.length > 0) give(name, JSON.parse(data.join("\n")));
        name = "message";
        data = [];
      } else if (text.startsWith("event:")) {
        name = text.slice(6).trim();
      } else if (text.startsWith("data:")) {
        data.push(text.slice(text[5] === " " ? 6 : 5));
      }
    }
  };
}

const LARGEST = 16 << 20;

/** Loads the page again, with its token. */
export function reload() {
  let stored = "";
  try {
    stored = sessionStorage.getItem("spectral-token");
  } catch {
    // Storage is switched off.
  }
  if (stored !== token) history.replaceState(null, "", "#" + token);
  location.reload();
}

/**
 * Reads the messages of `/pictures`; `give(message, pixels)` gets the JSON, and a view of palette and pixels.
 * Of several messages that come in one piece, only the newest has pixels.
 */
export function pictureReader(give) {
  const text = new TextDecoder();
  let held = new Uint8Array(1 << 16);
  let used = 0;
  return (bytes) => {
    if (used + bytes.length > held.length) {
      const larger = new Uint8Array(Math.max(held.length * 2, used + bytes.length));
      larger.set(held.subarray(0, used));
      held = larger;
    }
    held.set(bytes, used);
    used += bytes.length;
    const view = new DataView(held.buffer);
    let at = 0;
    const found = [];
    while (used - at >= 4) {
      const length = view.getUint32(at, true);
      if (length > LARGEST) throw new RangeError("A picture's message is too long.");
      if (used - at < 4 + length) break;
      if (length >= 4) found.push(at);
      at += 4 + length;
    }
    found.forEach((start, k) => {
      const length = view.getUint32(start, true);
      const json = view.getUint32(start + 4, true);
      const body = start + 8;
      if (json > length - 4) throw new RangeError("A picture's message is broken.");
      const message = JSON.parse(text.decode(held.subarray(body, body + json)));
      give(message, k === found.length - 1 ? held.slice(body + json, start + 4 + length) : null);
    });
    held.copyWithin(0, at, used);
    used -= at;
  };
}
