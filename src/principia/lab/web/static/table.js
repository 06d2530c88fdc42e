// The user's own table: pasted, uploaded, or dropped on the plane; then its columns are chosen.
import { ask } from "./requests.js";

const PAUSE = 400; // milliseconds without a key before the text is read
const LARGEST = 1_900_000; // bytes: the server takes 2 MB, with what JSON adds
const SHOWN = 100_000; // characters that the text box is given of a file

export class Table {
  constructor(panel, changed) {
    this.panel = panel;
    this.changed = changed;
    this.csv = "";
    this.box = panel.querySelector("#table-text");
    this.columns = panel.querySelector("#table-columns");
    this.problem = panel.querySelector("#table-problem");
    [this.x, this.y, this.target] = ["x", "y", "target"].map((name) => panel.querySelector(`#table-${name}`));
    this.box.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.read(this.box.value), PAUSE);
    });
    panel.querySelector("#table-file").addEventListener("change", (event) => this.take(event.target.files[0]));
    for (const choice of [this.x, this.y, this.target]) choice.addEventListener("change", () => this.changed());
    for (const form of panel.querySelectorAll("form")) form.addEventListener("submit", (event) => event.preventDefault());
  }

  // files may be dropped on an element
  catchFiles(element) {
    element.addEventListener("dragover", (event) => {
      event.preventDefault();
      element.classList.add("over");
    });
    element.addEventListener("dragleave", () => element.classList.remove("over"));
    element.addEventListener("drop", (event) => {
      event.preventDefault();
      element.classList.remove("over");
      this.take(event.dataTransfer.files[0], event.dataTransfer.getData("text/plain"));
    });
  }

  async take(file, text = "") {
    if (!file && !text) return;
    this.panel.open = true;
    if (file && file.size > LARGEST) return this.complain(`${file.name} must have at most ${LARGEST / 1e6} MB; it has ${(file.size / 1e6).toFixed(1)} MB.`);
    const csv = file ? await file.text() : text;
    this.box.value = csv.length <= SHOWN ? csv : "";
    this.box.placeholder = csv.length <= SHOWN ? "" : `${file.name}: ${csv.length} characters`;
    await this.read(csv);
  }

  async read(csv) {
    this.csv = "";
    this.columns.hidden = true;
    this.complain("");
    if (!csv.trim()) return;
    if (new Blob([csv]).size > LARGEST) return this.complain(`The table must have at most ${LARGEST / 1e6} MB. Remove some rows.`);
    this.request?.abort();
    this.request = new AbortController();
    try {
      const found = await ask("/api/playground/columns", { body: { csv }, signal: this.request.signal });
      this.csv = csv;
      this.offer(found);
      this.changed();
    } catch (error) {
      if (error.name !== "AbortError") this.complain(error.message);
    }
  }

  // the columns of before stay chosen where the new table has them
  offer({ columns, rows }) {
    const numbers = columns.filter((one) => one.kind === "number").map((one) => one.name);
    const names = columns.map((one) => one.name);
    const target = names.includes(this.target.value) ? this.target.value : names.at(-1);
    const rest = numbers.filter((name) => name !== target);
    const kept = (choice, fallback) => (rest.includes(choice.value) ? choice.value : fallback);
    const x = kept(this.x, rest[0] ?? ""), y = this.y.options.length ? kept(this.y, "") || rest.find((name) => name !== x) : rest[1];
    fill(this.x, numbers, x);
    fill(this.y, ["", ...numbers], y ?? "");
    fill(this.target, names, target);
    this.columns.hidden = false;
    this.panel.querySelector("#table-rows").textContent = `${rows} rows. ${columns.map((one) => `${one.name}: ${one.kind}, ${one.values} different`).join("; ")}.`;
  }

  // as the server takes it; none before a table was read
  value() {
    if (!this.csv) return null;
    return { csv: this.csv, features: [this.x.value, this.y.value].filter(Boolean), target: this.target.value };
  }

  complain(sentence) {
    this.problem.textContent = sentence;
    this.problem.hidden = !sentence;
    this.box.ariaInvalid = sentence ? "true" : null;
  }
}

function fill(choice, names, chosen) {
  choice.replaceChildren(...names.map((name) => Object.assign(document.createElement("option"), { value: name, textContent: name || "none: one feature" })));
  choice.value = chosen;
}
