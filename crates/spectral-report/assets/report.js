"use strict";
// Four things only: agents switched on and off by the legend, single seeds drawn, the axis of the curves, and values read
// at the pointer or by the arrow keys. Without this script the page shows all the same, except single seeds.
window.addEventListener("error", (event) => {
  document.documentElement.setAttribute("data-error", event.message);
});

(() => {
  const minus = (text) => text.replace("-", "\u2212");
  const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const number = (value) => {
    const size = Math.abs(value);
    if (size >= 1e9) return minus(value.toExponential(2));
    if (size >= 1000) return minus(grouped.format(value));
    return minus(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2));
  };
  const percent = (value) =>
    value >= 1000 ? grouped.format(value) + "%" : Number(value.toPrecision(2)) + "%";
  const element = (name, text, className) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  };
  const drawn = (svg, name, attributes) => {
    const node = document.createElementNS(svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    svg.append(node);
    return node;
  };

  // One set for the whole page: an agent hidden in one figure is hidden in all.
  const off = new Set();
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const agent = button.dataset.agent;
      if (!off.delete(agent)) off.add(agent);
      for (const node of document.querySelectorAll("[data-agent]")) {
        const hidden = off.has(node.dataset.agent);
        if (node.matches("button")) node.setAttribute("aria-pressed", String(!hidden));
        else node.classList.toggle("off", hidden);
      }
    });
  }
  const figures = [...document.querySelectorAll("figure[data-source]")].map((figure) => ({
    figure, data: JSON.parse(document.getElementById(figure.dataset.source).textContent),
  }));
  // One set of seeds for the whole page, too. Curves of single seeds are drawn when they are first asked for.
  const every = new Set(figures.flatMap(({ data }) => (data.seeds ?? []).map((one) => one.seed)));
  const single = new Set();
  const seedLine = (svg, data, one) => {
    const [left, top, right, bottom] = svg.dataset.plot.split(" ").map(Number);
    const points = one.y.map((height, k) =>
      `${(left + data.x[one.first + k] * (right - left)).toFixed(1)},${(bottom - height / 1000 * (bottom - top)).toFixed(1)}`);
    const group = document.createElementNS(svg.namespaceURI, "g");
    group.dataset.agent = one.agent;
    group.dataset.one = one.seed;
    group.classList.toggle("off", off.has(one.agent));
    drawn(group, "polyline", {
      points: points.join(" "), fill: "none", stroke: one.colour, "stroke-width": 1, "stroke-opacity": 0.75,
    });
    drawn(group.firstChild, "title", {}).textContent = one.agent + ", seed " + one.seed;
    svg.insertBefore(group, svg.querySelector("g[data-agent]"));
  };
  const drawSeeds = () => {
    for (const { figure, data } of figures) {
      if (!figure.dataset.view) continue;
      for (const svg of figure.querySelectorAll("svg[data-plot]")) {
        for (const old of svg.querySelectorAll("g[data-one]")) old.remove();
        for (const one of data.seeds ?? []) if (single.has(one.seed)) seedLine(svg, data, one);
      }
    }
    for (const button of document.querySelectorAll(".single button")) {
      const seed = button.dataset.seed;
      const pressed = seed === "all" ? single.size === every.size : single.has(seed);
      button.setAttribute("aria-pressed", String(pressed));
    }
  };
  for (const group of document.querySelectorAll(".single")) {
    group.hidden = every.size === 0;
    for (const button of group.querySelectorAll("button")) {
      button.addEventListener("click", () => {
        const seed = button.dataset.seed;
        if (seed === "all") {
          const whole = single.size === every.size;
          single.clear();
          if (!whole) for (const one of every) single.add(one);
        } else if (!single.delete(seed)) single.add(seed);
        drawSeeds();
      });
    }
  }
  for (const button of document.querySelectorAll(".switch button")) {
    button.addEventListener("click", () => {
      const view = button.dataset.view;
      for (const other of document.querySelectorAll(".switch button")) {
        other.setAttribute("aria-pressed", String(other.dataset.view === view));
      }
      for (const section of document.querySelectorAll("section.task")) {
        const figures = [...section.querySelectorAll("figure[data-view]")];
        // A task whose time was not recorded keeps its frames.
        if (!figures.some((figure) => figure.dataset.view === view)) continue;
        for (const figure of figures) figure.hidden = figure.dataset.view !== view;
      }
    });
  }
  for (const { figure, data } of figures) {
    const tip = figure.appendChild(element("div", "", "tip"));
    tip.setAttribute("aria-live", "polite");
    for (const svg of figure.querySelectorAll("svg[data-plot]")) follow(figure, svg, data, tip);
  }
  // Films stand still for readers who asked for less motion, until they are clicked.
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    for (const film of document.querySelectorAll(".clip img")) {
      const freeze = () => {
        const still = element("canvas");
        still.width = film.naturalWidth;
        still.height = film.naturalHeight;
        still.getContext("2d").drawImage(film, 0, 0);
        still.title = "Click to play";
        still.addEventListener("click", () => still.replaceWith(film));
        film.replaceWith(still);
      };
      if (film.complete) freeze();
      else film.addEventListener("load", freeze, { once: true });
    }
  }

  function heading(data, at) {
    const place = data.at[at];
    if (data.unit === "above") return "above " + number(place);
    if (data.unit !== "frames") return Number(place.toPrecision(3)) + " " + data.unit;
    const steps = data.steps > 1 ? " \u00b7 " + grouped.format(place / data.steps) + " steps" : "";
    return grouped.format(place) + " frames" + steps;
  }

  function follow(figure, svg, data, tip) {
    const [left, top, right, bottom] = svg.dataset.plot.split(" ").map(Number);
    const height = (share) => bottom - share * (bottom - top);
    const rule = drawn(svg, "line", {
      y1: top, y2: bottom, stroke: "var(--muted)", "stroke-width": 1, "stroke-opacity": 0.6, visibility: "hidden",
    });
    const marks = data.lines.map((line) =>
      drawn(svg, "circle", {
        r: 3.6, fill: line.colour, stroke: "var(--surface)", "stroke-width": 1.2, visibility: "hidden",
      }));
    const hide = () => {
      for (const node of [rule, ...marks]) node.setAttribute("visibility", "hidden");
      tip.style.visibility = "hidden";
    };
    // Shows the values at a place of the grid: of all lines, or of the one that `choose` takes of those that are there.
    const show = (at, choose) => {
      const here = data.lines
        .map((line, k) => ({ line, mark: marks[k], k: at - line.first }))
        .filter(({ line, k }) => k >= 0 && k < line.y.length && line.y[k] !== null && !off.has(line.agent))
        .sort((a, b) => b.line.y[b.k] - a.line.y[a.k]);
      hide();
      if (here.length === 0) return;
      const chosen = data.kind === "nearest" ? [choose(here)] : here;
      const px = left + data.x[at] * (right - left);
      rule.setAttribute("x1", px);
      rule.setAttribute("x2", px);
      rule.setAttribute("visibility", "visible");
      tip.replaceChildren(element("div", heading(data, at), "less"));
      const table = tip.appendChild(element("table"));
      for (const { line, mark, k } of chosen) {
        mark.setAttribute("cx", px);
        mark.setAttribute("cy", height(line.y[k]));
        mark.setAttribute("visibility", "visible");
        const row = table.appendChild(element("tr"));
        row.appendChild(element("td", line.name)).style.color = line.colour;
        row.append(element("td", data.format === "percent" ? percent(line.value[k]) : number(line.value[k])));
        if (line.seeds) {
          const range = line.seeds[k] > 1 ? number(line.low[k]) + " to " + number(line.high[k]) : "";
          row.append(element("td", range, "less"));
          row.append(element("td", line.seeds[k] + (line.seeds[k] === 1 ? " seed" : " seeds"), "less"));
        }
      }
      // Beside the place, on the side that has room, and inside the figure.
      const frame = figure.getBoundingClientRect();
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      const place = box.left - frame.left + px / scale;
      const size = tip.getBoundingClientRect();
      const beside = place + 16 + size.width > frame.width ? place - 16 - size.width : place + 16;
      const over = box.top - frame.top + (top / scale) + 4;
      tip.style.left = Math.max(0, Math.min(beside, frame.width - size.width)) + "px";
      tip.style.top = over + "px";
      tip.style.visibility = "visible";
    };
    let current = data.x.length - 1;
    let rank = 0;
    const point = (event) => {
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale;
      const y = (event.clientY - box.top) * scale;
      if (x < left - 8 || x > right + 8 || y < top - 8 || y > bottom + 8) return hide();
      const share = Math.min(1, Math.max(0, (x - left) / (right - left)));
      current = 0;
      data.x.forEach((place, k) => {
        if (Math.abs(place - share) < Math.abs(data.x[current] - share)) current = k;
      });
      const distance = ({ line, k }) => Math.abs(height(line.y[k]) - y);
      show(current, (here) => here.reduce((a, b) => (distance(a) <= distance(b) ? a : b)));
    };
    // Left and right go along the axis, up and down from line to line where only one is told.
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -1e9, End: 1e9 };
    const ranks = { ArrowUp: -1, ArrowDown: 1 };
    const press = (event) => {
      if (event.key === "Escape") return hide();
      if (event.key in steps) current += steps[event.key];
      else if (event.key in ranks && data.kind === "nearest") rank += ranks[event.key];
      else return;
      event.preventDefault();
      current = Math.min(data.x.length - 1, Math.max(0, current));
      show(current, (here) => here[(rank = Math.min(here.length - 1, Math.max(0, rank)))]);
    };
    svg.tabIndex = 0;
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("keydown", press);
    svg.addEventListener("blur", hide);
  }

  document.documentElement.setAttribute("data-ready", "true");
})();
