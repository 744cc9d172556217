// Small helpers for the document. Text only ever goes in as text.

export const byId = (id) => document.getElementById(id);

export function element(name, text, className) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

/** Sets a node's text if it differs, so that nothing is laid out again for nothing. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

/** Calls `changed` before the next repaint whenever the width of `node` has changed. */
export function onWidth(node, changed) {
  let width = -1;
  new ResizeObserver(() => {
    if (node.clientWidth === width) return;
    width = node.clientWidth;
    requestAnimationFrame(changed);
  }).observe(node);
}

/** Fills `holder` with a table for screen readers. */
export function fillTable(holder, caption, head, rows) {
  const table = element("table");
  table.append(element("caption", caption));
  const top = table.appendChild(element("thead")).appendChild(element("tr"));
  for (const name of head) top.appendChild(element("th", name)).scope = "col";
  const body = table.appendChild(element("tbody"));
  for (const row of rows) {
    const line = body.appendChild(element("tr"));
    row.forEach((cell, k) => {
      const node = line.appendChild(element(k === 0 ? "th" : "td", cell));
      if (k === 0) node.scope = "row";
    });
  }
  holder.replaceChildren(table);
}

/** A colour from the server, or grey if it is not one. */
export const safeColour = (text) => (/^#[0-9a-f]{6}$/i.test(text ?? "") ? text : "#7a7f87");

/** A dash pattern from the server, or none. */
export const safeDash = (dash) =>
  Array.isArray(dash) && dash.length === 2 && dash.every((d) => Number.isFinite(d) && d > 0) ? dash : [];
