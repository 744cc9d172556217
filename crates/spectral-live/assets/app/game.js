// The game's picture and the numbers beside it.

import { byId, onWidth, setHidden, setText } from "./dom.js";
import { compact, known, score, signed, whole } from "./format.js";

const canvas = byId("picture");
const context = canvas.getContext("2d", { alpha: false });
const stage = byId("stage");
let image = null;
let words = null;
let shape = [0, 0];

/** The pixels of a message, as the canvas wants them; false if the message does not hold what it says. */
function decode(message, bytes) {
  const { width, height, colours } = message;
  if (image?.width !== width || image?.height !== height) {
    image = new ImageData(width, height);
    words = new Uint32Array(image.data.buffer);
  }
  const count = width * height;
  if (colours > 0) {
    if (bytes.length < 3 * colours + count) return false;
    const palette = new Uint32Array(256).fill(0xff000000);
    for (let k = 0; k < Math.min(colours, 256); k++) {
      palette[k] = 0xff000000 | (bytes[3 * k + 2] << 16) | (bytes[3 * k + 1] << 8) | bytes[3 * k];
    }
    const from = 3 * colours;
    for (let k = 0; k < count; k++) words[k] = palette[bytes[from + k]];
  } else {
    if (bytes.length < 3 * count) return false;
    for (let k = 0; k < count; k++) {
      words[k] = 0xff000000 | (bytes[3 * k + 2] << 16) | (bytes[3 * k + 1] << 8) | bytes[3 * k];
    }
  }
  return true;
}

/** The largest whole number of screen pixels per pixel that fits. An Atari pixel of 160 a line is twice as wide as high. */
function fit() {
  const [width, height] = shape;
  if (width === 0) return;
  const wide = width === 160 && height >= 190 ? 2 : 1;
  const ratio = devicePixelRatio || 1;
  const room = stage.clientWidth - 2 * parseFloat(getComputedStyle(stage).paddingLeft);
  const tall = Math.min(innerHeight * 0.56, 460);
  const most = Math.min((room * ratio) / (width * wide), (tall * ratio) / height);
  const scale = most >= 1 ? Math.floor(most) : most;
  canvas.style.width = (width * wide * scale) / ratio + "px";
  canvas.style.height = (height * scale) / ratio + "px";
}

onWidth(stage, fit);
addEventListener("resize", fit);

export function drawGame(message, bytes, run) {
  const { width, height } = message;
  const drawn = width > 0 && height > 0 && width * height <= 4e6 && decode(message, bytes);
  setHidden(byId("no-picture"), drawn);
  setHidden(canvas, !drawn);
  if (drawn) {
    if (shape[0] !== width || shape[1] !== height) {
      shape = [width, height];
      canvas.width = width;
      canvas.height = height;
      byId("first").classList.toggle("broad", width >= 160 && height > 150);
      fit();
    }
    context.putImageData(image, 0, 0);
  } else {
    setText(byId("no-picture"), "This task draws no picture.");
  }
  const root = document.documentElement.dataset;
  root.frames = String(Number(root.frames ?? 0) + 1);

  setText(byId("score"), score(message.score));
  setHidden(byId("over-flag"), message.over !== true);
  setText(byId("reward"), message.reward === 0 ? "0" : signed(message.reward));
  // The message counts episodes that have ended; when one is over, it is among them already.
  setText(byId("episode"), whole(message.episode + (message.over ? 0 : 1)));
  setText(byId("frame"), message.frame >= 1e6 ? compact(message.frame) : whole(message.frame));
  const human = message.controls?.human === true;
  setHidden(byId("human-flag"), !human);
  stage.classList.toggle("mine", human);
  if (run.mode === "playing") {
    setText(byId("weights-age"), known(message.weights_frame)
      ? "A frozen model, trained for " + whole(message.weights_frame) + " frames."
      : sentence(message.trouble ?? "no checkpoint yet: actions are drawn at random"));
  }
}

let passing = 0;

/** Says for a second that frames were left out. */
export function showJump(frames) {
  const flag = byId("jump-flag");
  setText(flag, known(frames) && frames > 0 ? whole(frames) + (frames === 1 ? " frame later" : " frames later") : "later");
  setHidden(flag, false);
  clearTimeout(passing);
  passing = setTimeout(() => setHidden(flag, true), 1000);
}

export function forgetGame(text) {
  setText(byId("no-picture"), text);
  setHidden(byId("no-picture"), false);
  setHidden(canvas, true);
  for (const id of ["score", "reward", "episode", "frame"]) setText(byId(id), "–");
  for (const id of ["jump-flag", "over-flag", "human-flag"]) setHidden(byId(id), true);
}

/** A message of the server as a sentence. */
function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + ".";
}
