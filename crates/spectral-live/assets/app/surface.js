// A canvas with as many pixels as the screen has there, and a queue that draws what changed, no oftener than asked.

import { onTheme, theme } from "./theme.js";

/** Returns a function that asks for `draw` to be called before the next repaint, at most once per `every` ms. */
export function drawing(every, draw) {
  let last = -1e9;
  let pending = false;
  const run = (now) => {
    pending = false;
    last = now;
    draw(now);
  };
  const request = () => {
    if (pending) return;
    pending = true;
    // A few milliseconds of grace, or a rhythm of 33 ms would fall to every third repaint of the screen.
    const wait = last + request.every - performance.now() - 6;
    if (wait > 10) setTimeout(() => requestAnimationFrame(run), wait - 8);
    else requestAnimationFrame(run);
  };
  request.every = every;
  return request;
}

/** Keeps a canvas's pixels at its size on the screen; calls `changed` when they or the colours changed. */
export class Surface {
  constructor(canvas, changed) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.width = 0;
    this.height = 0;
    this.observer = new ResizeObserver((entries) => {
      const box = entries[entries.length - 1].contentRect;
      this.resize(box.width, box.height);
      changed();
    });
    this.observer.observe(canvas);
    onTheme(changed);
  }

  resize(width, height) {
    const ratio = Math.min(devicePixelRatio || 1, 3);
    this.width = width;
    this.height = height;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w) this.canvas.width = w;
    if (this.canvas.height !== h) this.canvas.height = h;
    this.ratio = ratio;
  }

  /** An empty canvas to draw on, in CSS pixels, or nothing if there is no room. */
  start() {
    if (this.width < 20 || this.height < 10) return null;
    const c = this.context;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    c.setLineDash([]);
    c.globalAlpha = 1;
    c.font = "11px " + theme.font;
    c.textBaseline = "middle";
    return c;
  }
}

export function label(c, text, x, y, align, colour) {
  c.textAlign = align;
  c.fillStyle = colour ?? theme.muted;
  c.fillText(text, x, y);
}

export function line(c, x1, y1, x2, y2, colour, width = 1) {
  c.strokeStyle = colour;
  c.lineWidth = width;
  c.beginPath();
  c.moveTo(x1, y1);
  c.lineTo(x2, y2);
  c.stroke();
}
