// The side panel's section about Clustermapper: what self-probes say is not ok, and a switch for them.

import { html } from "dom";

/** What the section's buttons depend on: it is made anew only when this changes. */
export const healthKey = (health) => health && [health.probed, health.ours, Object.entries(health.elements).map(([name, one]) => [name, one.state])];

/** `post` is null in a replay; `live` takes functions that refresh the figures. */
export function healthSection(model, post, choose, live) {
  const { health } = model;
  if (!health) return [];
  const title = html("h3", {}, "health, by self-probes");
  const button = (path, text) => post && html("button", { type: "button", id: "probe", "data-key": "probe", onclick: () => post(path, {}) }, text);
  if (!health.probed) {
    return [title, html("div", { class: "row" }, html("span", { class: "how", id: "health" }, "nobody probes"), button("/health/start", "probe"))];
  }
  const summary = html("span", { class: "how", id: "health" });
  live.push(() => {
    summary.textContent = model.health ? summarise(model.health) : "";
  });
  const rows = Object.keys(health.elements).map((name) => {
    const figures = html("span");
    live.push(() => {
      const one = model.health?.elements[name];
      if (!one) return;
      figures.textContent = describe(one);
      figures.title = one.why;
    });
    const kind = name.includes(":") ? "link" : "node";
    return html("div", { class: "row found" }, html("button", { type: "button", "data-key": `found ${name}`, onclick: () => choose(kind, name) }, name), figures);
  });
  return [title, html("div", { class: "row" }, summary, health.ours ? button("/health/stop", "stop") : null), ...rows];
}

/** A finding in a few words. */
export function describe(one) {
  const loss = one.loss ? `, ${percent(one.loss)} of ${one.probes} lost` : "";
  const rtt = one.rtt_p50_ns ? `, ${ms(one.rtt_p50_ns)} (p99 ${ms(one.rtt_p99_ns)})` : "";
  const since = one.for_s === undefined ? "" : `, for ${one.for_s.toFixed(0)} s`;
  const by = one.found_by.length ? `, found by ${one.found_by.join(", ")}` : "";
  return `${one.state}${loss}${rtt}${since}${by}`;
}

function summarise({ counts, probes, would_show, denied }) {
  const states = Object.entries(counts).map(([state, count]) => `${count} ${state}`).join(", ");
  const shown = would_show < 1 ? `a loss of ${percent(would_show)} would have shown` : `${probes} probes a path yet`;
  const planes = Object.entries(denied).map(([host, its]) => `; ${host} has denied plane ${its.join(", ")}`).join("");
  return `${states}; ${shown}${planes}`;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const ms = (ns) => `${(ns / 1e6).toFixed(1)} ms`;
