// The playground: any model of the course learns points in the plane, step by step and back.
import { ask } from "./requests.js";
import { MOST_POINTS, read, write } from "./address.js";
import { Brush } from "./brush.js";
import { connect } from "./controls.js";
import { drawLosses, thinned } from "./charts.js";
import { Drawing } from "./drawing.js";
import { Gradients } from "./gradients.js";
import { Layers } from "./layers.js";
import { Legend } from "./legend.js";
import { describe, showNumbers } from "./numbers.js";
import { CLASSES } from "./palette.js";
import { Plane } from "./plane.js";
import { Settings } from "./settings.js";
import { told } from "./surface.js";
import { Table } from "./table.js";
import { Trainer } from "./trainer.js";

const { announce } = globalThis.principia;
const PAUSE = 200; // milliseconds without a change before a playground is made anew
const SOON = 300; // milliseconds until the address is written
const LONG = 2000; // steps that one waits for
const SPEED = "5"; // steps a frame: the spirals are learned within seconds
const find = (id) => document.getElementById(id);

class Playground {
  constructor(choices) {
    this.frame = null;
    this.points = { train: [], test: [] }; // rows that end in the number of a color, or in a value
    this.labels = []; // the number of the color of each class of the frame
    this.names = []; // and what the classes are called
    this.losses = [];
    this.seesUnits = true;
    this.drawing = new Drawing();
    this.plane = new Plane(find("plane"));
    this.legend = new Legend(find("legend"));
    this.layers = new Layers(find("layers"), () => this.paint());
    this.gradients = new Gradients(find("gradients"), find("gradient-words"));
    this.trainer = new Trainer(this);
    this.settings = new Settings(document.querySelector(".playground"), choices, () => this.changed());
    this.table = new Table(find("table"), () => this.learn("table"));
    this.table.catchFiles(find("plane"));
    this.brush = new Brush(this.plane, this);
    document.addEventListener("themechange", () => this.paint());
    new ResizeObserver(() => this.drawLosses()).observe(find("losses"));
    new IntersectionObserver((seen) => this.sees(seen.at(-1).isIntersecting)).observe(find("layers"));
  }

  // The address

  open({ play = false } = {}) {
    const asked = read();
    this.settings.setValues(asked.values);
    this.drawing.replace(asked.points, asked.window);
    find("speed").value = [...find("speed").options].some((one) => one.value === asked.speed) ? asked.speed : SPEED;
    this.trainer.speed = Number(find("speed").value);
    find("tests").checked = asked.tests;
    this.trainer.pause();
    this.losses = [];
    this.gradients.clear();
    this.layers.release();
    this.begin(asked.step, 0);
    this.take(this.data === "drawn" ? 0 : null);
    if (play && this.data !== "drawn" && !matchMedia("(prefers-reduced-motion: reduce)").matches) this.trainer.play();
  }

  // soon, since browsers refuse many changes of the address in a row
  remember() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.writeAddress(), SOON);
  }

  writeAddress() {
    const speed = find("speed").value;
    write({
      values: this.settings.turnedValues(), step: this.trainer.playing ? 0 : this.trainer.step,
      speed: speed === SPEED ? "" : speed, tests: find("tests").checked,
      points: this.data === "drawn" ? this.drawing.points : [], window: this.drawing.window,
    });
  }

  // What is learned

  get data() {
    return this.settings.get("data").value;
  }

  learn(data) {
    this.settings.get("data").value = data;
    this.settings.follow();
    this.changed();
  }

  changed() {
    this.begin(0, PAUSE);
  }

  play() {
    this.trainer.play();
    if (this.trainer.number === null) this.begin(this.trainer.step, 0);
  }

  begin(step, pause) {
    find("table").hidden = this.data !== "table";
    this.trainer.step = step;
    this.remember();
    if (this.data === "table" && !this.table.value()) {
      find("table").open = true;
      return this.wait("Paste or choose a table on this page; an address does not hold it.");
    }
    if (this.data === "drawn") this.showDrawing();
    if (this.data === "drawn" && this.drawing.lacks()) return this.wait(this.drawing.lacks());
    return this.trainer.anew(step, pause);
  }

  // there is nothing yet that can be learned
  wait(sentence) {
    this.trainer.halt();
    this.frame = null;
    if (this.data !== "drawn") this.points = { train: [], test: [] };
    this.settings.complain("");
    this.say(sentence);
    this.show();
  }

  showDrawing() {
    this.points = { train: this.drawing.rows(), test: [] };
    if (this.frame && !this.drawing.covers(this.frame.bounds)) this.frame = null;
    this.paint();
  }

  // The trainer asks and tells

  wanted() {
    const setup = this.settings.setup();
    if (this.data === "drawn") {
      return { setup: { ...setup, data: { name: "drawn", points: this.drawing.rows() } }, window: this.drawing.window };
    }
    if (this.data === "table") return { setup: { ...setup, data: { name: "table", ...this.table.value() } } };
    return { setup: { ...setup, data: this.data } };
  }

  // maps of units that nobody sees are not sent
  sees(units) {
    this.seesUnits = units;
    if (units && !this.trainer.playing && this.frame) this.trainer.look();
  }

  units() {
    return this.seesUnits || this.layers.chosen !== null;
  }

  making(step) {
    if (step >= LONG) this.say(`Taking ${step} steps …`);
  }

  made({ frame, points }, { setup }, again) {
    this.frame = frame;
    const drawn = setup.data.name === "drawn"; // then the classes are the numbers of their colors
    this.labels = frame.classes.map((name, place) => (drawn ? Number(name) : place));
    this.names = frame.classes.map((name) => (drawn ? `class ${Number(name) + 1}` : name));
    const label = (row) => [...row.slice(0, -1), this.labels[row.at(-1)]];
    this.points = frame.task === "regression" ? points : { train: points.train.map(label), test: points.test.map(label) };
    if (!again) {
      this.losses = [];
      this.gradients.clear();
    }
    this.settings.complain("");
    this.table.complain("");
    this.settings.learned(frame.task);
    this.show();
    if (!this.trainer.playing) this.remember();
  }

  moved(frame, units) {
    const step = this.frame?.step;
    this.frame = frame;
    this.show(units);
    if (this.trainer.playing) return;
    this.remember();
    if (frame.step !== step) announce(this.words());
  }

  turned(playing) {
    find("play").classList.toggle("playing", playing);
    find("play").ariaLabel = playing ? "Pause" : "Play";
    find("play").title = playing ? "Pause (space)" : "Play (space)";
    this.remember();
    if (!playing && this.frame) announce(`Paused. ${this.words()}`);
  }

  refused(error, making) {
    this.say(error.message, true);
    if (!making || error.status !== 422) announce(error.message);
    else if (this.settings.complain(error.message)) this.table.complain("");
    else if (this.data === "table") this.table.complain(error.message);
    else this.settings.complainOfModel(error.message);
  }

  // The brush tells

  began() {
    if (this.data === "drawn") return;
    this.drawing.continueFrom(this.frame, [...this.points.train, ...this.points.test]);
    this.settings.get("data").value = "drawn";
    this.settings.follow();
  }

  drew(shares, label) {
    if (this.drawing.add(shares, label)) this.drawn();
    else this.say(`A drawing holds at most ${MOST_POINTS} points: an address has no room for more.`);
  }

  rubbed(hit) {
    this.drawing.remove(hit);
    this.drawn();
  }

  clear() {
    this.drawing.replace([], this.data === "drawn" ? this.drawing.window : null);
    this.frame = null;
    this.settings.get("data").value = "drawn";
    this.settings.follow();
    this.changed();
  }

  drawn() {
    this.changed();
    if (!this.drawing.lacks()) this.trainer.play();
  }

  take(tool) {
    this.brush.take(tool);
    for (const button of document.querySelectorAll("[data-tool]")) {
      button.ariaPressed = String(button.dataset.tool === String(tool ?? "look"));
    }
  }

  // Showing

  show(units = true) {
    const { frame } = this;
    if (frame) {
      if (units) this.layers.show(frame.layers);
      this.gradients.show(frame.step, frame.gradients);
      const { step, train_loss: train, test_loss: test } = frame;
      this.losses = thinned(this.losses.filter((one) => one.step < step));
      this.losses.push({ step, train, test });
      this.say(frame.diverged || frame.note, Boolean(frame.diverged));
      if (!frame.trained && !frame.diverged) this.say("It learns at once: take a step.");
    }
    showNumbers(frame);
    this.drawLosses();
    this.paint();
  }

  paint() {
    const { frame } = this, unit = frame && this.layers.unit();
    const colors = this.labels.map((label) => CLASSES[label]);
    this.plane.show({ frame, window: this.drawing.window, points: this.points, colors, tests: find("tests").checked, unit });
    if (unit) this.legend.scale(unit.name, unit.low, unit.high);
    else if (!frame) this.legend.nothing();
    else if (frame.task === "classification") this.legend.classes(this.names, this.labels);
    else if (frame.features.length > 1) this.legend.scale(frame.target, ...frame.range);
    else this.legend.nothing();
    find("plane").ariaLabel = this.words();
  }

  drawLosses() {
    drawLosses(find("losses"), this.losses);
  }

  // what the model says where the pointer is
  readout(event) {
    const { frame } = this, shares = this.plane.toShares(event);
    if (!frame || shares.some((share) => share < 0 || share > 1)) return "";
    return told(frame, this.names, shares, this.plane.toValues(shares));
  }

  words() {
    return this.frame ? describe(this.frame, this.points.train.length) : `An empty plane. ${find("message").textContent}`;
  }

  say(sentence, bad = false) {
    find("message").textContent = sentence;
    find("message").classList.toggle("bad", bad);
  }
}

try {
  const playground = new Playground(await ask("/api/playground/choices"));
  connect(playground);
  playground.open();
} catch (error) {
  find("message").textContent = error.message;
}
