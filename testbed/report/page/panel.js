// The side panel: what is selected with its counters and faults, the faults in force, and runs.

import { byId, count, html, seconds } from "dom";
import { describe, healthKey, healthSection } from "health";
import { describeLoad } from "topology";

const ASK_EVERY_MS = 1_000;

export class Panel {
  #root = byId("panel");
  #menu = { kinds: [], scenarios: [] };
  #chosen = { kind: "", name: "" };
  #counters = null;
  #error = "";
  #drawn = "";
  #live = []; // functions that refresh what changes all the time

  /** `server` has `get(path)` and `post(path, body)`, or is null in a replay: then there is nothing to do but look. */
  constructor(model, server, choose) {
    this.model = model;
    this.server = server;
    this.choose = choose;
    this.find = html("input", { list: "names", placeholder: "find a link, switch or host", "aria-label": "find a link, switch or host" });
    this.names = html("datalist", { id: "names" });
    this.find.addEventListener("change", () => this.#found(this.find.value.trim()));
    this.body = html("div");
    this.error = html("p", { class: "error", role: "alert" });
    this.#root.append(this.find, this.names, this.error, this.body);
    this.runs = server ? this.#runControls() : null;
    if (this.runs) this.#root.append(this.runs.root);
    if (server) setInterval(() => this.#ask(), ASK_EVERY_MS);
  }

  /** Another lab is there. */
  async build() {
    const { scene } = this.model;
    const names = [...(scene?.nodes ?? []), ...(scene?.links ?? [])].map((one) => one.name);
    this.names.replaceChildren(...names.map((name) => html("option", { value: name })));
    const menu = this.server && (await this.server.get("/menu.json"));
    if (menu?.ok) this.#menu = menu.value;
    this.runs?.scenario.replaceChildren(...this.#menu.scenarios.map((name) => html("option", {}, name)));
    this.#drawn = "";
    this.update();
  }

  select(kind, name) {
    this.#chosen = { kind, name };
    this.#counters = null;
    this.#ask();
    this.update();
  }

  /** What can be clicked is made anew only when it changes: a button must not vanish between press and release. */
  update() {
    this.error.textContent = this.#error;
    this.#updateRuns();
    const parts = JSON.stringify([this.#chosen, this.model.faults.active, this.#menu, this.model.links.size, healthKey(this.model.health)]);
    if (parts !== this.#drawn) {
      this.#drawn = parts;
      const held = document.activeElement?.dataset?.key;
      this.#live = [];
      this.body.replaceChildren(...this.#selected(), ...this.#faults(), ...this.#health());
      if (held) this.body.querySelector(`[data-key="${CSS.escape(held)}"]`)?.focus();
    }
    this.#live.forEach((refresh) => refresh());
  }

  /** Put a fault on a link, or take back those that are on it. */
  async toggle(link) {
    const active = this.model.faults.active.filter((fault) => fault.target === link);
    if (active.length) for (const fault of active) await this.#post("/faults/clear", { number: fault.number });
    else await this.#post("/faults", { kind: "link-down", target: link });
  }

  #selected() {
    const { kind, name } = this.#chosen;
    if (!this.model.scene || !name) {
      return [html("p", { class: "how" }, "Click a link, switch, host, plane or EV. Double-click cuts a link, and mends it.")];
    }
    const parts = { link: () => this.#link(name), node: () => this.#node(name) }[kind]?.() ?? [html("h3", {}, kind), html("p", {}, html("b", {}, name))];
    return this.server ? [...parts, ...this.#faultControls(kind, name)] : parts;
  }

  /** The faults that this thing can have, and those that it has. */
  #faultControls(chosen, name) {
    const targets = targetsOf(chosen, name, this.model.scene);
    const fitting = this.#menu.kinds.filter((one) => targets[one.takes] !== undefined);
    const kind = html("select", { "aria-label": "kind of fault", "data-key": "kind" }, ...fitting.map((one) => html("option", { title: one.doc }, one.name)));
    const doc = html("p", { class: "how" });
    const fields = html("div", { class: "row" });
    let read = () => ({});
    const show = () => {
      const one = fitting[kind.selectedIndex];
      if (!one) return;
      doc.textContent = one.doc;
      const end = one.end && html("select", { "aria-label": "end", "data-key": "end" }, ...["near", "far", "both"].map((word) => html("option", { selected: word === one.end }, word)));
      const inputs = one.options.map((option) => [option.name, html("input", { value: option.default, title: option.doc })]);
      fields.replaceChildren(...[end, ...inputs.map(([label, input]) => html("label", {}, label.replace("_", " "), input))].filter(Boolean));
      read = () => ({
        kind: one.name, target: targets[one.takes], end: end?.value ?? null,
        options: Object.fromEntries(inputs.map(([label, input]) => [label, input.value])),
      });
    };
    kind.addEventListener("change", show);
    show();
    const put = html("button", { class: "cut", type: "button", "data-key": "put", onclick: () => this.#post("/faults", read()) }, "put in");
    const active = this.model.faultsOn(name, Object.values(targets));
    return [html("div", { class: "row" }, kind, put), fields, doc, ...active.map((fault) => this.#faultRow(fault))];
  }

  #link(name) {
    const state = html("span");
    const health = html("p", { class: "how" });
    const counters = html("div");
    const parts = [html("h3", {}, "link"), html("p", {}, html("b", {}, name), " ", state), health, counters];
    let shown = null;
    this.#live.push(() => {
      const load = describeLoad(this.model.load(name), this.model.scene.host_rate_kbps);
      state.textContent = `is ${this.model.isDown(name) ? "down" : "up"}, ${load}`;
      if (this.#counters?.link !== name || shown === this.#counters) return;
      shown = this.#counters;
      health.textContent = shown.health ? `probes: ${describe(shown.health)}` : "";
      counters.replaceChildren(countersTable(shown.ports));
    });
    return parts;
  }

  #node(name) {
    const links = this.model.scene.links.filter((link) => link.a === name || link.b === name);
    const buttons = links.map((link) => {
      const open = () => this.choose("link", link.name);
      const button = html("button", { type: "button", "data-key": link.name, onclick: open }, link.a === name ? link.b : link.a);
      this.#live.push(() => button.classList.toggle("down", this.model.isDown(link.name)));
      return button;
    });
    return [html("h3", {}, "links of"), html("p", {}, html("b", {}, name)), html("div", { class: "links" }, ...buttons)];
  }

  #faults() {
    const { active } = this.model.faults;
    if (!active.length) return [html("h3", {}, "faults in force"), html("p", { class: "how" }, "none")];
    const clear = () => this.#post("/faults/clear", {});
    return [
      html("h3", {}, "faults in force"),
      ...active.map((fault) => this.#faultRow(fault)),
      this.server && html("button", { type: "button", id: "clear-all", "data-key": "clear", onclick: clear }, "clear all"),
    ].filter(Boolean);
  }

  #health() {
    const post = this.server && ((path, body) => this.#post(path, body));
    return healthSection(this.model, post, this.choose, this.#live);
  }

  #faultRow(fault) {
    const undo = () => this.#post("/faults/clear", { number: fault.number });
    return html(
      "div", { class: "row" },
      html("span", { title: `by ${fault.by}, since ${seconds(fault.since)}` }, `${fault.kind} ${fault.target}`),
      this.server && html("button", { type: "button", class: "undo", "data-key": `undo${fault.number}`, onclick: undo }, "undo"),
    );
  }

  #runControls() {
    const load = html("input", { type: "number", min: 1, max: 100, value: 50, "aria-label": "load in percent" });
    const scenario = html("select", { "aria-label": "scenario" });
    const send = html("button", { type: "button", id: "start-traffic", onclick: () => this.#post("/runs", { load: Number(load.value) }) }, "send");
    const start = html("button", { type: "button", id: "start-scenario", onclick: () => this.#post("/runs", { scenario: scenario.value }) }, "run");
    const stop = html("button", { type: "button", id: "stop-run", onclick: () => this.#post("/runs/stop", {}) }, "stop");
    const text = html("p", { id: "run", role: "status" });
    const report = html("a", { href: "/report", target: "_blank", rel: "noopener", hidden: true }, "its report");
    const root = html(
      "div", {},
      html("h3", {}, "traffic"), html("div", { class: "row" }, html("span", {}, "% of line rate"), load, send),
      html("h3", {}, "scenario"), html("div", { class: "row" }, scenario, start, stop), text, report,
    );
    return { root, scenario, send, start, stop, text, report };
  }

  #updateRuns() {
    if (!this.runs) return;
    const { name, text, report } = this.model.run;
    const up = this.model.status.state === "up";
    this.runs.send.disabled = this.runs.start.disabled = Boolean(name) || !up;
    this.runs.stop.disabled = !name;
    this.runs.text.textContent = text;
    this.runs.report.hidden = !report;
  }

  #found(name) {
    if (this.model.links.has(name)) this.choose("link", name);
    else if (this.model.scene?.nodes.some((node) => node.name === name)) this.choose("node", name);
  }

  async #ask() {
    const { kind, name } = this.#chosen;
    if (!this.server || kind !== "link" || !this.model.tick) return;
    const answer = await this.server.get(`/link/${encodeURIComponent(name)}`);
    if (answer.ok && this.#chosen.name === name) this.#counters = answer.value;
    this.update();
  }

  async #post(path, body) {
    const answer = await this.server.post(path, body);
    this.#error = answer.ok ? "" : answer.error;
    this.update();
  }
}

/** How a target of each shape (testbed/chaos/kinds) is written for what was chosen. */
function targetsOf(chosen, name, scene) {
  if (chosen === "link") return { links: name };
  if (chosen === "plane") return { plane: name };
  if (chosen === "ev") return { ev: name };
  const { kind } = scene.nodes.find((node) => node.name === name);
  if (kind === "host") return { host: `host ${name}`, "nic-transceiver": `transceiver ${name}` };
  const targets = { switch: `switch ${name}`, [kind]: `switch ${name}` };
  return kind === "t0" ? { ...targets, "t0-transceiver": `transceiver ${name} 0` } : targets;
}

function countersTable(ports) {
  const row = (title, read) => html("tr", {}, html("th", {}, title), ...ports.map((port) => html("td", {}, read(port))));
  return html(
    "table", {},
    row("sent by", (port) => port.node), row("packets", (port) => count(port.packets)), row("CE-marked", (port) => count(port.marked)),
    row("trimmed", (port) => count(port.trimmed)), row("dropped", (port) => count(port.dropped)),
    row("queue", (port) => `${(port.depth_bytes / 1024).toFixed(1)} KB`),
  );
}
