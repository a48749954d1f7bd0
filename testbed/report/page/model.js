// What is known, from the messages of testbed/measure/view.py. Live and replay fill it alike; everything else draws it.

const KEPT_MS = 65_000;
const KEPT_EVENTS = 200;

export class Model extends EventTarget {
  constructor() {
    super();
    this.reset();
  }

  reset() {
    this.scene = null;
    this.links = new Map(); // name -> its place in the scene, and its ends
    this.tick = null;
    this.ticks = [];
    this.events = [];
    this.faults = { active: [], shades: [] };
    this.status = { state: "waiting", text: "connecting" };
    this.run = { name: "", verdict: "", text: "" };
    this.health = null; // Clustermapper's findings
  }

  /** Take in some messages, then tell who listens: "scene" when another lab is there, and "change". */
  apply(messages) {
    let another = false;
    for (const message of messages) {
      if (message.type === "snapshot") {
        const before = JSON.stringify(this.scene);
        this.reset();
        message.messages.forEach((one) => this.#take(one));
        another ||= JSON.stringify(this.scene) !== before;
      } else {
        another ||= message.type === "scene";
        this.#take(message);
      }
    }
    if (another) this.dispatchEvent(new Event("scene"));
    this.dispatchEvent(new Event("change"));
  }

  #take(message) {
    switch (message.type) {
      case "scene":
        this.scene = message;
        this.links = new Map(message.links.map((link, index) => [link.name, { ...link, index }]));
        this.tick = null;
        this.ticks = [];
        this.events = [];
        this.health = null;
        break;
      case "tick":
        this.tick = message;
        this.ticks.push(message);
        while (this.ticks[0].t < message.t - KEPT_MS) this.ticks.shift();
        break;
      case "event":
        this.events.unshift(message);
        this.events.length = Math.min(this.events.length, KEPT_EVENTS);
        break;
      case "faults":
        this.faults = message;
        break;
      case "status":
        this.status = message;
        if (message.state !== "up") this.tick = this.health = null;
        break;
      case "health":
        this.health = message;
        break;
      case "run":
        this.run = message;
        break;
    }
  }

  /** The newest time (ms). */
  get now() {
    return this.ticks.length ? this.ticks.at(-1).t : 0;
  }

  /** How self-probes accuse a link or switch; undefined when they do not. */
  accused(name) {
    const state = this.health?.elements[name]?.state;
    return ["down", "lossy", "slow"].includes(state) ? state : undefined;
  }

  /** The faults that touch a link, or name a node, plane or EV. */
  faultsOn(name, targets = []) {
    return this.faults.active.filter((fault) => fault.links.includes(name) || targets.includes(fault.target));
  }

  isDown(link) {
    return this.tick?.down?.includes(link) ?? false;
  }

  /** Percent of a link's rate that is used, the busier way; null when that is not known. */
  load(link) {
    const loads = this.tick?.loads;
    if (!loads) return null;
    const { index } = this.links.get(link);
    return Math.max(loads[2 * index], loads[2 * index + 1]);
  }

  /** The links that a flow's packets can cross. */
  linksOf(flow) {
    const { hosts_per_t0, planes, t1s_per_plane } = this.scene;
    const [src, dst] = flow.split(">");
    const [from, to] = [src, dst].map((host) => Math.floor(Number(host.slice(1)) / hosts_per_t0));
    const links = new Set();
    for (let plane = 0; plane < planes; plane++) {
      links.add(`${src}:p${plane}t0-${from}`).add(`${dst}:p${plane}t0-${to}`);
      if (from === to) continue;
      for (let t1 = 0; t1 < t1s_per_plane; t1++) {
        if (this.pathState(flow, plane, t1)) continue;
        links.add(`p${plane}t0-${from}:p${plane}t1-${t1}`).add(`p${plane}t0-${to}:p${plane}t1-${t1}`);
      }
    }
    return links;
  }

  /** How a flow has a path out of use; undefined when it uses it. */
  pathState(flow, plane, t1) {
    return this.tick?.paths?.[flow]?.find((path) => path[0] === plane && path[1] === t1)?.[2];
  }
}
