// Where messages come from: a server's event stream, or a recording that is played.

import { byId, seconds } from "dom";

const SILENCE_MS = 12_000; // the server gives a sign of life every five seconds
const STEP_MS = 50;
const AGAIN_MS = 1_000;

/** Follow a server for ever. It may go and come back: then the whole state comes anew, and meanwhile the page says so. */
export function followServer(model) {
  let stream;
  let watchdog;
  const heard = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(again, SILENCE_MS);
  };
  const again = () => {
    stream.close();
    model.apply([{ type: "status", state: "lost", text: "the server does not answer; trying again" }]);
    clearTimeout(watchdog);
    watchdog = setTimeout(connect, AGAIN_MS);
  };
  const connect = () => {
    stream = new EventSource("/events");
    stream.onopen = heard;
    stream.onmessage = (event) => {
      heard();
      model.apply([JSON.parse(event.data)]);
    };
    stream.onerror = again;
  };
  connect();
}

/** Play a recording ({duration_ms, messages}, in order of time) with pause, speed and scrubbing. */
export function play(model, recording) {
  const { messages } = recording;
  const first = Math.min(0, ...messages.filter((one) => one.t !== undefined).map((one) => one.t));
  const last = messages.at(-1).t;
  const [button, slider, time, speed] = ["play", "position", "time", "speed"].map(byId);
  let next = 0;
  let position = first;
  let playing = true;

  const show = () => {
    const batch = [];
    while (next < messages.length && (messages[next].t ?? first) <= position) batch.push(messages[next++]);
    if (batch.length) model.apply(batch);
    slider.value = position;
    time.value = `${seconds(position)} of ${seconds(last)}`;
    button.textContent = playing ? "pause" : position >= last ? "again" : "play";
  };
  const jump = (to) => {
    if (to < position) {
      model.reset();
      next = 0;
    }
    position = to;
    show();
  };
  byId("player").hidden = false;
  [slider.min, slider.max] = [first, last];
  slider.addEventListener("input", () => jump(Number(slider.value)));
  button.addEventListener("click", () => {
    playing = !playing;
    if (playing && position >= last) jump(first);
    show();
  });
  setInterval(() => {
    if (!playing) return;
    position = Math.min(last, position + STEP_MS * Number(speed.value));
    if (position >= last) playing = false;
    show();
  }, STEP_MS);
  show();
}
