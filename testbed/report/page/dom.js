// Small helpers for making elements. Text is always set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element with properties (or `on...` handlers, `class`, `data-...`, `aria-...`), and children. */
export function html(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

export const byId = (id) => document.getElementById(id);

/** Kilobits per second for people. */
export function rate(kbps) {
  if (kbps >= 1e6) return `${(kbps / 1e6).toPrecision(3)} Gb/s`;
  if (kbps >= 1e3) return `${(kbps / 1e3).toPrecision(3)} Mb/s`;
  return `${Math.round(kbps)} kb/s`;
}

export const count = (value) => value.toLocaleString("en");

/** Milliseconds of the view's clock as seconds. */
export const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
