// The fabric as a drawing: planes side by side, T1s above T0s, all hosts below. Built once a scene, then only restyled.

import { byId, rate, svg } from "dom";

const MARGIN = 10;
const PLANE_GAP = 26;
const BOX_HEIGHT = 18;
const CHARACTER = 6.7; // width of a label's character
const TITLE = 16;
const CROSS = 5;
const RING = 6;
const LOAD_STEPS = 8; // widths of a link, so that a small change of load restyles nothing
const MANY_LINKS = 200; // with more, Tab goes through the nodes alone; any link is found by its name

/** Draws `model`; `choose(kind, name)` is called when a link or node is selected. */
export class Topology {
  #svg = byId("topology");
  #links = new Map();
  #nodes = new Map();

  constructor(model, choose, act) {
    this.model = model;
    this.choose = choose;
    this.act = act;
    this.chosen = { kind: "", name: "" };
    this.flows = [];
    new ResizeObserver(() => this.build()).observe(this.#svg.parentElement);
  }

  /** Lay everything out for the room there is. */
  build() {
    const { scene } = this.model;
    const { clientWidth: width, clientHeight: height } = this.#svg.parentElement;
    const held = document.activeElement?.closest("#topology [data-name]")?.dataset.name;
    this.#svg.replaceChildren();
    this.#links.clear();
    this.#nodes.clear();
    if (!scene || !width) return;
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const boxes = layout(scene, width, height);
    const few = scene.links.length <= MANY_LINKS;
    const wires = scene.links.map((link) => this.#drawLink(link, boxes, few));
    const nodes = scene.nodes.map((node) => this.#drawNode(node, boxes.get(node.name)));
    const pitch = (width - 2 * MARGIN + PLANE_GAP) / scene.planes;
    const titles = Array.from({ length: scene.planes }, (_, plane) =>
      this.#drawTitle(plane, MARGIN + plane * pitch + (pitch - PLANE_GAP) / 2),
    );
    this.#svg.append(...titles, ...wires, ...nodes);
    this.update();
    if (held) this.#svg.querySelector(`[data-name="${CSS.escape(held)}"]`)?.focus();
  }

  /** Show the state now. */
  update() {
    const { model } = this;
    if (!model.scene || !this.#links.size) return;
    const lit = new Set(this.flows.flatMap((flow) => [...model.linksOf(flow)]));
    this.#svg.classList.toggle("lighting", lit.size > 0);
    for (const [name, drawn] of this.#links) {
      const down = model.isDown(name);
      const faulty = !down && model.faultsOn(name).length > 0;
      const load = model.load(name);
      const step = load === null ? -1 : Math.min(LOAD_STEPS, Math.round((load / 100) * LOAD_STEPS));
      const marks = [down && "down", faulty && "faulty", model.accused(name) && "accused", lit.has(name) && "lit", this.#isChosen("link", name) && "chosen"];
      restyle(drawn, ["link", ...marks.filter(Boolean)].join(" "), step);
    }
    const broken = new Set([...model.faults.active.flatMap((fault) => fault.target.split(/[ :]/)), ...(model.tick?.silent ?? [])]);
    for (const [name, group] of this.#nodes) {
      const marks = [broken.has(name) && "hurt", model.accused(name) && "accused", this.#isChosen("node", name) && "chosen"].filter(Boolean);
      group.setAttribute("class", ["node", ...marks].join(" "));
    }
  }

  #isChosen(kind, name) {
    return this.chosen.kind === kind && this.chosen.name === name;
  }

  #drawTitle(plane, x) {
    const label = `plane ${plane}`;
    const title = svg("text", { class: "title", "data-name": label, role: "button", tabindex: 0, x, y: TITLE - 4 }, label);
    this.#listen(title, "plane", label);
    return title;
  }

  #drawLink(link, boxes, reachable) {
    const [near, far] = [boxes.get(link.a), boxes.get(link.b)];
    const ends = { x1: near.x, y1: near.y, x2: far.x, y2: far.y + BOX_HEIGHT };
    const [x, y] = [(ends.x1 + ends.x2) / 2, (ends.y1 + ends.y2) / 2];
    const wire = svg("line", { class: "wire", ...ends, stroke: `var(--plane-${link.plane % 8})` });
    const cross = svg("path", {
      class: "cross",
      d: `M${x - CROSS},${y - CROSS}l${2 * CROSS},${2 * CROSS}m0,${-2 * CROSS}l${-2 * CROSS},${2 * CROSS}`,
    });
    const ring = svg("circle", { class: "ring", cx: x, cy: y, r: RING });
    const title = svg("title", {}, link.name);
    const group = svg(
      "g",
      { class: "link", "data-name": link.name, role: "button", "aria-label": `link ${link.name}`, tabindex: reachable ? 0 : -1 },
      svg("line", { class: "hit", ...ends }), wire, cross, ring, title,
    );
    this.#listen(group, "link", link.name);
    group.addEventListener("dblclick", () => this.act(link.name));
    this.#links.set(link.name, { group, wire, step: null, marks: null });
    return group;
  }

  #drawNode(node, box) {
    const short = node.kind === "host" ? node.name : node.name.replace(/^p\d+/, "");
    const label = [short, short.replace(/^t[01]-|^h/, "")].find((text) => text.length * CHARACTER + 4 <= box.width);
    const group = svg(
      "g",
      { class: "node", "data-name": node.name, role: "button", "aria-label": `${node.kind} ${node.name}`, tabindex: 0 },
      svg("rect", { x: box.x - box.width / 2, y: box.y, width: box.width, height: BOX_HEIGHT, rx: node.kind === "host" ? 8 : 2 }),
      svg("title", {}, node.name),
      label === undefined ? null : svg("text", { x: box.x, y: box.y + 13 }, label),
    );
    this.#listen(group, "node", node.name);
    this.#nodes.set(node.name, group);
    return group;
  }

  #listen(group, kind, name) {
    group.addEventListener("click", () => this.choose(kind, name));
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.choose(kind, name);
    });
  }
}

function restyle(drawn, marks, step) {
  if (drawn.marks !== marks) {
    drawn.marks = marks;
    drawn.group.setAttribute("class", marks);
  }
  if (drawn.step !== step) {
    drawn.step = step;
    const share = Math.max(0, step) / LOAD_STEPS;
    drawn.wire.setAttribute("stroke-width", 1 + 4 * share);
    drawn.wire.setAttribute("stroke-opacity", step < 0 ? 0.5 : 0.3 + 0.65 * share);
  }
}

/** name -> {x of the middle, y of the top, width} of each node's box. */
function layout(scene, width, height) {
  const boxes = new Map();
  const room = width - 2 * MARGIN;
  const pitch = (room + PLANE_GAP) / scene.planes;
  const rows = { t1: TITLE + 4, t0: TITLE + (height - TITLE) * 0.42, host: height - BOX_HEIGHT - 4 };
  const spread = (nodes, left, space) => {
    const step = space / nodes.length;
    nodes.forEach((node, place) => {
      boxes.set(node.name, { x: left + (place + 0.5) * step, y: rows[node.kind], width: Math.max(6, Math.min(56, step - 4)) });
    });
  };
  for (let plane = 0; plane < scene.planes; plane++) {
    const left = MARGIN + plane * pitch;
    for (const kind of ["t0", "t1"]) {
      spread(scene.nodes.filter((node) => node.plane === plane && node.kind === kind), left, pitch - PLANE_GAP);
    }
  }
  const hosts = scene.nodes.filter((node) => node.kind === "host");
  const rack = room / scene.t0_groups;
  for (let group = 0; group < scene.t0_groups; group++) {
    const first = group * scene.hosts_per_t0;
    spread(hosts.slice(first, first + scene.hosts_per_t0), MARGIN + group * rack + 6, rack - 12);
  }
  return boxes;
}

/** What a link's title says about its load. */
export const describeLoad = (load, kbps) => (load === null ? "not recorded" : `${load} % of ${rate(kbps)}`);
