// What the colors mean: the classes with their shapes, or a scale from low to high.
import { CLASSES, css, diverging, theme } from "./palette.js";
import { drawShape } from "./shapes.js";
import { written } from "./axes.js";

const SIZE = 16; // pixels of a sign

// the sign of a class on a canvas
export function drawSign(canvas, label) {
  const ratio = devicePixelRatio || 1;
  canvas.width = canvas.height = SIZE * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.fillStyle = css(CLASSES[label]);
  context.strokeStyle = css(theme().paper);
  drawShape(context, SIZE / 2, SIZE / 2, label, 5.5);
}

export class Legend {
  constructor(place) {
    this.place = place;
    this.shown = "";
  }

  classes(names, labels) {
    if (!this.isNew(["classes", names, labels])) return;
    this.place.replaceChildren(
      ...names.map((name, place) => {
        const item = document.createElement("span"), sign = document.createElement("canvas");
        sign.className = "sign";
        drawSign(sign, labels[place]);
        item.append(sign, name);
        return item;
      }),
    );
  }

  scale(name, low, high) {
    if (!this.isNew(["scale", name, low, high])) return;
    const bar = document.createElement("canvas");
    bar.className = "scale";
    bar.width = 100;
    bar.height = 1;
    const context = bar.getContext("2d"), { paper } = theme();
    for (let place = 0; place < 100; place++) {
      context.fillStyle = css(diverging(place / 99, paper));
      context.fillRect(place, 0, 1, 1);
    }
    const [title, from, to] = [name, written(low), written(high)].map((text) => {
      const made = document.createElement("span");
      made.textContent = text;
      return made;
    });
    this.place.replaceChildren(title, from, bar, to);
  }

  nothing() {
    if (this.isNew("")) this.place.replaceChildren();
  }

  isNew(wanted) {
    const text = JSON.stringify([wanted, document.documentElement.dataset.theme]);
    const fresh = text !== this.shown;
    this.shown = text;
    return fresh;
  }
}
