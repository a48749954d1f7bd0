// Goodput over the last minute: stacked by plane, or a line per flow; shaded while a fault was in force.

import { byId, rate } from "dom";

const SPAN_MS = 60_000;
const LEFT = 62;
const BOTTOM = 16;
const LINE_COLOURS = 8;

export class Chart {
  #canvas = byId("chart");

  constructor(model) {
    this.model = model;
    this.series = "planes";
    new ResizeObserver(() => this.draw()).observe(this.#canvas);
  }

  draw() {
    const { model } = this;
    const canvas = this.#canvas;
    const [width, height, scale] = [canvas.clientWidth, canvas.clientHeight, window.devicePixelRatio || 1];
    if (!width || !height) return;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const ink = canvas.getContext("2d");
    ink.scale(scale, scale);
    const colour = paint();
    const ticks = model.ticks.filter((tick) => tick.t >= model.now - SPAN_MS);
    const names = this.series === "flows" ? [...new Set(ticks.flatMap((tick) => Object.keys(tick.flows)))] : null;
    const top = peak(ticks, names);
    const x = (t) => LEFT + ((t - model.now + SPAN_MS) / SPAN_MS) * (width - LEFT - 4);
    const y = (kbps) => height - BOTTOM - (kbps / top) * (height - BOTTOM - 6);
    this.#axes(ink, colour, x, y, top, width);
    if (names) names.forEach((name, number) => line(ink, ticks, (tick) => tick.flows[name], x, y, colour(`--plane-${number % LINE_COLOURS}`)));
    else this.#stack(ink, colour, ticks, x, y);
    this.#shade(ink, colour, x, height);
  }

  #shade(ink, colour, x, height) {
    ink.fillStyle = colour("--fault-shade");
    for (const [since, until] of this.model.faults.shades) {
      const [from, to] = [Math.max(LEFT, x(since)), x(Math.min(until ?? this.model.now, this.model.now))];
      if (to > LEFT) ink.fillRect(from, 0, Math.max(1, to - from), height - BOTTOM);
    }
  }

  #axes(ink, colour, x, y, top, width) {
    ink.font = "11px system-ui, sans-serif";
    ink.strokeStyle = colour("--line");
    ink.fillStyle = colour("--faint");
    ink.textAlign = "right";
    for (const share of [0, 0.5, 1]) {
      const level = Math.round(y(top * share)) + 0.5;
      ink.beginPath();
      ink.moveTo(LEFT, level);
      ink.lineTo(width, level);
      ink.stroke();
      ink.fillText(rate(top * share), LEFT - 6, level + (share === 1 ? 9 : 4));
    }
    ink.textAlign = "center";
    for (const back of [60, 45, 30, 15, 0]) {
      const at = x(this.model.now - back * 1000);
      ink.fillText(back ? `-${back} s` : "now", Math.max(LEFT + 16, Math.min(at, width - 14)), y(0) + 13);
    }
  }

  #stack(ink, colour, ticks, x, y) {
    const planes = this.model.scene?.planes ?? 0;
    const below = ticks.map(() => 0);
    for (let plane = 0; plane < planes; plane++) {
      const above = ticks.map((tick, i) => below[i] + (tick.planes[plane] ?? 0));
      ink.beginPath();
      ticks.forEach((tick, i) => ink.lineTo(x(tick.t), y(above[i])));
      for (let i = ticks.length - 1; i >= 0; i--) ink.lineTo(x(ticks[i].t), y(below[i]));
      ink.fillStyle = colour(`--plane-${plane % 8}`);
      ink.fill();
      line(ink, ticks.map((tick, i) => ({ t: tick.t, level: above[i] })), (point) => point.level, x, y, colour("--ground"));
      const end = ticks.length - 1;
      if (end >= 0 && y(below[end]) - y(above[end]) > 12) {
        ink.fillStyle = colour("--ground");
        ink.textAlign = "right";
        ink.fillText(`plane ${plane}`, x(ticks[end].t) - 6, (y(below[end]) + y(above[end])) / 2 + 4);
      }
      above.forEach((value, i) => (below[i] = value));
    }
  }
}

function line(ink, ticks, value, x, y, colour) {
  ink.beginPath();
  for (const tick of ticks) if (value(tick) !== undefined) ink.lineTo(x(tick.t), y(value(tick)));
  ink.strokeStyle = colour;
  ink.lineWidth = 1.5;
  ink.stroke();
  ink.lineWidth = 1;
}

/** The top of the scale: a round number above everything. */
function peak(ticks, names) {
  const values = ticks.map((tick) => (names ? Math.max(0, ...Object.values(tick.flows)) : tick.planes.reduce((sum, one) => sum + one, 0)));
  const highest = Math.max(100, ...values);
  const power = 10 ** Math.floor(Math.log10(highest));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= highest);
}

function paint() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(name).trim();
}
