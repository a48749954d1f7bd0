// Wires the parts together, for a live lab or for a recording in this very page.

import { Chart } from "chart";
import { byId, count, html, rate, seconds } from "dom";
import { EvMap } from "evmap";
import { Model } from "model";
import { Panel } from "panel";
import { followServer, play } from "sources";
import { Topology } from "topology";

const TOKEN_KEY = "mrclab-token";

const model = new Model();
const inPage = byId("recording");
const recording = inPage && JSON.parse(inPage.textContent);
const server = recording ? null : { get: (path) => ask(path), post: (path, body) => ask(path, body) };

const choose = (kind, name) => {
  topology.chosen = { kind, name };
  topology.flows = kind === "node" ? Object.keys(model.tick?.flows ?? {}).filter((flow) => flow.split(">").includes(name)) : [];
  panel.select(kind, name);
  if (topology.flows.length && !topology.flows.includes(evmap.flow)) evmap.pick(topology.flows[0]);
  topology.update();
};
const panel = new Panel(model, server, choose);
const topology = new Topology(model, choose, (link) => server && panel.toggle(link));
const chart = new Chart(model);
const evmap = new EvMap(model, server?.get, (flow) => {
  topology.chosen = { kind: "", name: "" };
  topology.flows = [flow];
  topology.update();
}, choose);

let asked = false;
model.addEventListener("change", () => {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
  });
});
model.addEventListener("scene", () => {
  byId("lab").textContent = model.scene?.lab ?? "";
  topology.build();
  panel.build();
});
byId("series").addEventListener("change", (event) => {
  chart.series = event.target.value;
  chart.draw();
});
themes();
if (recording) play(model, recording);
else {
  keepToken();
  followServer(model);
}

function draw() {
  topology.update();
  chart.draw();
  evmap.update();
  panel.update();
  numbers();
  events();
  const { state, text } = model.status;
  byId("status").className = state;
  byId("status").textContent = recording ? "replay" : text;
  const silent = (model.tick?.silent ?? []).map((host) => `the agent of ${host} does not answer`);
  const warnings = [...silent, ...(model.tick?.warnings ?? [])];
  byId("warning").hidden = warnings.length === 0;
  const short = warnings.map((warning) => warning.split(";")[0]).join("; ");
  byId("warning").textContent = silent.length ? short : `the machine may be the limit: ${short}`;
  byId("warning").title = warnings.join("\n");
}

function numbers() {
  const { tick } = model;
  if (!tick) return;
  const total = tick.planes.reduce((sum, one) => sum + one, 0);
  const known = [
    ["goodput", rate(total)],
    ["lost", tick.lost], ["sent again", tick.retransmitted], ["trimmed", tick.trimmed], ["CE", tick.marked],
    ["bytes wrong", tick.bytes_wrong],
    ["CPU", tick.cpu === undefined ? undefined : `${Math.round(tick.cpu * 100)} %`],
  ].filter(([, value]) => value !== undefined);
  byId("numbers").replaceChildren(
    ...known.map(([name, value]) =>
      html("div", { class: name === "bytes wrong" && value > 0 ? "bad" : "" }, html("dt", {}, name), html("dd", {}, typeof value === "number" ? count(value) : value)),
    ),
  );
}

let newest = null;
function events() {
  if (newest === model.events[0] && byId("events").childElementCount === model.events.length) return;
  newest = model.events[0];
  byId("events").replaceChildren(
    ...model.events.map((event) => html("li", { class: event.topic }, html("time", {}, seconds(event.t)), html("span", {}, event.text))),
  );
}

function themes() {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const set = (theme) => {
    root.dataset.theme = theme;
    chart.draw();
  };
  set(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => set(dark.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => set(root.dataset.theme === "dark" ? "light" : "dark"));
}

/** The address that the server printed has the token after #, where no server and no log sees it. */
function keepToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return;
  sessionStorage.setItem(TOKEN_KEY, given);
  history.replaceState(null, "", location.pathname);
}

async function ask(path, body) {
  const options = body && {
    method: "POST",
    headers: { "content-type": "application/json", "x-mrclab-token": sessionStorage.getItem(TOKEN_KEY) ?? "" },
    body: JSON.stringify(body),
  };
  try {
    const answer = await fetch(path, options ?? {});
    const value = await answer.json();
    return answer.ok ? { ok: true, value } : { ok: false, error: value.error };
  } catch {
    return { ok: false, error: "the server does not answer" };
  }
}
