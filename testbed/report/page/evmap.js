// The EVs of one flow: a row per plane, a column per T1; state, share of the rotation, and how long ago a packet was lost.

import { byId, html } from "dom";

const ASK_EVERY_MS = 500;
const NARROW_FROM = 5; // T1s: with more, a cell shows less
const WORDS = { ASSUMED_BAD: "bad", DENIED: "denied", PLANE_DOWN: "down" };

export class EvMap {
  #table = byId("evmap");
  #select = byId("flow");
  #details = null;
  #drawn = "";

  /** `ask(path)` fetches JSON from the server, or is null in a replay; `changed(flow)` is told which flow is shown,
      `choose("ev", ...)` which of its EVs was clicked. */
  constructor(model, ask, changed, choose) {
    this.model = model;
    this.choose = choose;
    this.#select.addEventListener("change", () => {
      this.pick(this.flow);
      changed(this.flow);
    });
    if (ask) setInterval(() => this.#ask(ask), ASK_EVERY_MS);
  }

  get flow() {
    return this.#select.value;
  }

  /** Show another flow. */
  pick(flow) {
    this.#select.value = flow;
    this.#details = null;
    this.update();
  }

  update() {
    const { scene, tick } = this.model;
    const flows = Object.keys(tick?.flows ?? {});
    if (flows.join() !== [...this.#select.options].map((one) => one.value).join()) {
      const before = this.#select.value;
      this.#select.replaceChildren(...flows.map((flow) => html("option", { value: flow }, flow.replace(">", " \u2192 "))));
      if (flows.includes(before)) this.#select.value = before;
    }
    if (!scene?.evs_name_paths || !this.flow) {
      this.#drawn = "";
      const why = scene && !scene.evs_name_paths ? "this fabric hashes: an EV names no path" : "no traffic";
      this.#table.replaceChildren(html("p", { class: "how" }, why));
      return;
    }
    const rows = this.#rows(scene);
    const text = JSON.stringify(rows);
    if (text === this.#drawn) return;
    this.#drawn = text;
    const narrow = scene.t1s_per_plane > NARROW_FROM;
    const heads = Array.from({ length: scene.t1s_per_plane }, (_, t1) => html("th", {}, narrow ? t1 : `t1-${t1}`));
    const body = rows.map((row, plane) => html("tr", {}, html("th", {}, `p${plane}`), ...row.map((one) => this.#cell(one, narrow))));
    this.#table.replaceChildren(html("table", { class: narrow ? "narrow" : "" }, html("tr", {}, html("th"), ...heads), ...body));
  }

  #rows(scene) {
    return Array.from({ length: scene.planes }, (_, plane) =>
      Array.from({ length: scene.t1s_per_plane }, (_, t1) => {
        const evs = this.#details?.evs.filter((one) => one.plane === plane && one.uplink === t1) ?? [];
        const lost = evs.find((one) => one.last_loss !== null)?.last_loss;
        return {
          state: this.model.pathState(this.flow, plane, t1) ?? "GOOD",
          ev: evs.length ? evs[0].ev : null,
          share: evs.length ? evs.reduce((sum, one) => sum + one.turns, 0) : null,
          lost: lost === undefined ? null : Math.round((this.model.now - lost) / 1000),
        };
      }),
    );
  }

  async #ask(ask) {
    const { flow } = this;
    if (!flow || !this.model.tick || !this.model.scene.evs_name_paths) return;
    const answer = await ask(`/flow/${encodeURIComponent(flow)}`);
    if (answer.ok && this.flow === flow) this.#details = answer.value;
    this.update();
  }

  #cell({ state, ev, share, lost }, narrow) {
    const out = state !== "GOOD";
    const word = narrow ? briefly(out, share) : wordFor(state, share);
    const note = lost === null ? null : html("small", {}, `lost ${lost} s`);
    const name = ev === null ? null : `host ${this.flow.split(">")[0]} ev 0x${ev.toString(16).padStart(8, "0")}`;
    const choose = () => name && this.choose("ev", name);
    return html("td", { class: out ? "out" : share === 0 ? "backup" : "", title: [name ?? state, lost === null ? "" : `, lost a packet ${lost} s ago`].join(""), onclick: choose }, word, note);
  }
}

function wordFor(state, share) {
  if (state !== "GOOD") return `\u2715 ${WORDS[state] ?? state.toLowerCase()}`;
  if (share === null) return "\u2713";
  return share === 0 ? "backup" : `\u00d7${share.toFixed(1)}`;
}

const briefly = (out, share) => (out ? "\u2715" : share === null ? "\u2713" : share.toFixed(1));
