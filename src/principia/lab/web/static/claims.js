// Claims as cards: turn a knob, and the theorem is measured again; the last request wins.
import { ask, Refused } from "./requests.js";
import { complain, mark, quoted, set, turned, watch } from "./knobs.js";

const { announce, press, showControls, showEvidence, whenSeen } = globalThis.principia;
const PAUSE = 120; // milliseconds without a change before a measurement begins
const state = new URLSearchParams(location.search); // claim.knob=value for everything that is turned

function remember(name, knobs) {
  for (const key of [...state.keys()]) if (key.startsWith(`${name}.`)) state.delete(key);
  for (const [knob, value] of Object.entries(knobs)) state.set(`${name}.${knob}`, value);
  const query = state.toString();
  history.replaceState(null, "", `${location.pathname}${query ? "?" + query : ""}${location.hash}`);
}

class Card {
  constructor(element) {
    this.element = element;
    this.name = element.id;
    this.form = element.querySelector("form");
    this.address = `/api/claims/${element.dataset.key.replace(":", "/")}`;
    this.command = element.querySelector(".command code");
    this.buttons = [...element.querySelectorAll(".break")];
    this.timer = null;
    this.request = null;
    const wanted = {};
    for (const [key, value] of state) if (key.startsWith(`${this.name}.`)) wanted[key.slice(this.name.length + 1)] = value;
    set(this.form, wanted);
    watch(this.form, () => this.changed());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    for (const button of this.buttons) {
      const control = JSON.parse(button.dataset.knobs);
      button.addEventListener("click", () => {
        set(this.form, this.isBroken(button) ? {} : { ...turned(this.form), ...control });
        this.changed(0);
      });
    }
    element.querySelector(".reset").addEventListener("click", () => {
      set(this.form, {});
      this.changed(0);
    });
    this.tell();
    if (Object.keys(turned(this.form)).length) this.forget(); // what the page came with is of other knobs
    whenSeen(element, () => this.measure());
  }

  isBroken(button) {
    const now = turned(this.form);
    return Object.entries(JSON.parse(button.dataset.knobs)).every(([knob, value]) => now[knob] === value);
  }

  forget() {
    const verdict = this.element.querySelector(".verdict");
    verdict.className = "verdict unchecked";
    verdict.textContent = "measuring …";
    this.element.querySelector(".numbers").textContent = "";
  }

  // what follows from the knobs without a measurement: button, address, command
  tell() {
    const knobs = turned(this.form);
    for (const button of this.buttons) press(button, this.isBroken(button));
    const { seed, ...rest } = knobs;
    const sets = Object.entries(rest).map(([knob, value]) => ` --set ${quoted(`${knob}=${value}`)}`);
    const seeds = seed === undefined ? "" : ` --seed ${quoted(seed)}`;
    this.command.textContent = `principia check ${this.element.dataset.key}${sets.join("")}${seeds}`;
  }

  changed(pause = PAUSE) {
    this.tell();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      remember(this.name, turned(this.form));
      this.measure();
    }, pause);
  }

  async measure() {
    this.request?.abort();
    const request = (this.request = new AbortController());
    const result = this.element.querySelector(".result");
    result.classList.add("busy");
    if (this.element.querySelector(".verdict.unchecked")) this.forget();
    const { seed = "0", ...knobs } = turned(this.form);
    const untouched = seed === "0" && !Object.keys(knobs).length;
    try {
      if (!/^\d+$/.test(seed)) throw new Refused(`check: seed must be an integer in [0, 4294967295]; got ${seed}.`, 422);
      const address = untouched ? `${this.address}/check` : this.address;
      const body = untouched ? { seed: 0 } : { seed: Number(seed), knobs };
      const found = await ask(address, { body, signal: request.signal });
      complain(this.form, "");
      const measure = untouched ? found.measure : found;
      if (untouched) showControls(this.element, found.controls);
      showEvidence(this.element, measure);
      announce(`${this.name.replaceAll("_", " ")}: ${measure.observation.verdict}. ${measure.summary}`);
      if (measure.observation.verdict === "error") complain(this.form, measure.summary);
    } catch (error) {
      if (error.name === "AbortError" || error.status === 409) return; // a newer request is on its way
      complain(this.form, error.message);
      const verdict = this.element.querySelector(".verdict");
      if (verdict.classList.contains("unchecked")) verdict.textContent = "not measured";
    } finally {
      if (this.request === request) result.classList.remove("busy");
    }
  }
}

for (const element of document.querySelectorAll(".claim")) new Card(element);
addEventListener("pageshow", () => document.querySelectorAll("form.knobs").forEach(mark)); // what the browser put back
