// The moving picture of a page: it plays by itself, and a knob draws it anew.
import { ask } from "./requests.js";
import { complain, set, turned, watch } from "./knobs.js";

const { drawFigure, whenSeen } = globalThis.principia;
const PACE = 110; // milliseconds a frame
const REST = 500; // milliseconds without a change before all frames are drawn for these knobs
const SLIDER = 70; // pixels that it takes in a recording
const ROUNDS = 3; // then it stands still, until somebody plays it again
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;

class Hero {
  constructor(element) {
    this.figure = element.querySelector(".figure");
    this.form = element.querySelector("form");
    this.moves = element.dataset.moves;
    this.address = `/api/heroes/${element.dataset.key}`;
    this.button = element.querySelector(".play");
    this.labels = []; // the values of the moving knob, one a frame; none while others are turned
    this.timer = null;
    this.waiting = null;
    this.request = null;
    this.seen = true;
    watch(this.form, () => this.changed());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.button.addEventListener("click", () => (this.timer ? this.pause() : this.play(Infinity)));
    element.querySelector(".reset").addEventListener("click", () => {
      set(this.form, {});
      this.changed();
    });
    new IntersectionObserver(([entry]) => (this.seen = entry.isIntersecting)).observe(this.figure);
    this.others = "{}";
    whenSeen(element, async () => {
      await this.record();
      if (!still) this.play(ROUNDS);
    });
  }

  // the knobs but for the moving one
  rest() {
    const { [this.moves]: moving, ...others } = turned(this.form);
    return JSON.stringify(others);
  }

  get field() {
    return this.form.elements[this.moves];
  }

  changed() {
    clearTimeout(this.waiting);
    if (this.rest() === this.others && this.labels.length) {
      this.pause();
      this.show(this.nearest());
      return;
    }
    const playing = this.timer !== null;
    this.pause();
    this.labels = [];
    this.draw();
    this.waiting = setTimeout(async () => {
      await this.record();
      if (playing) this.play(ROUNDS);
    }, REST);
  }

  nearest() {
    const exact = this.labels.indexOf(this.field.value.trim());
    if (exact >= 0) return exact;
    const far = this.labels.map((one) => Math.abs(Number(one) - Number(this.field.value)));
    return far.indexOf(Math.min(...far));
  }

  async asked(recorded) {
    this.request?.abort();
    const request = (this.request = new AbortController());
    try {
      const found = await ask(this.address, { body: { knobs: turned(this.form), recorded }, signal: request.signal });
      complain(this.form, "");
      return found.figure;
    } catch (error) {
      if (error.name !== "AbortError" && error.status !== 409) complain(this.form, error.message);
      return null;
    }
  }

  async draw() {
    const figure = await this.asked(false);
    if (figure) await drawFigure(this.figure, figure);
  }

  async record() {
    const others = this.rest();
    const figure = await this.asked(true);
    if (!figure || others !== this.rest()) return;
    const { sliders, updatemenus, ...layout } = figure.layout; // the form has the knob and the button
    layout.margin = { ...layout.margin, b: layout.margin.b - SLIDER };
    layout.height -= SLIDER;
    await drawFigure(this.figure, { ...figure, layout });
    this.redraw = layout.meta.redraw;
    this.others = others;
    this.labels = sliders[0].steps.map((step) => step.label);
    await this.show(this.nearest());
  }

  show(place) {
    return globalThis.Plotly.animate(this.figure, [String(place)], {
      mode: "immediate", frame: { duration: 0, redraw: this.redraw }, transition: { duration: 0 },
    }).catch(() => {}); // a newer frame took its place
  }

  play(rounds) {
    if (!this.labels.length) return;
    let place = 0, round = 0;
    this.button.ariaPressed = "true";
    this.button.textContent = "Pause";
    this.timer = setInterval(() => {
      if (!this.seen || document.hidden) return;
      set(this.form, { ...turned(this.form), [this.moves]: this.labels[place] });
      this.show(place);
      place += 1;
      if (place < this.labels.length) return;
      place = 0;
      round += 1;
      if (round >= rounds) this.pause();
    }, PACE);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.ariaPressed = "false";
    this.button.textContent = "Play";
  }
}

for (const element of document.querySelectorAll(".hero")) new Hero(element);
