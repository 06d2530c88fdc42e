// What can be chosen: data, model, its knobs, and how it is trained. Values are texts, as after --set.
import { complain, mark, named, set, turned, values, watch } from "./knobs.js";
import { field } from "./formfields.js";

const OWN = { drawn: "your drawing", table: "your table" };
const TRAINING = ["optimizer", "lr", "batch_size", "initialization", "regularization", "strength", "seed"];
const STEPWISE = TRAINING.filter((name) => name !== "seed"); // what an estimator, which learns at once, has not
const ENDS = { lr: [0.00001, 10], batch_size: [1, 512], strength: [0.00001, 1], seed: [] }; // what sliders reach
const LABELS = { page: "model", lr: "learning rate" };
const KNOB = "knob."; // before the names of the model's knobs in an address
const SOME = "0.003"; // strength of a penalty that was chosen without one

export class Settings {
  constructor(page, choices, changed) {
    this.page = page;
    this.choices = choices;
    this.changed = changed;
    this.forms = Object.fromEntries(["data", "model", "knobs", "training"].map((name) => [name, page.querySelector(`#${name}-form`)]));
    this.task = "classification"; // of the data; a table tells when it is read
    this.built = "";
    this.fill("data", [this.choice("data", "data", choices.setup.data.name)]);
    this.fill("model", [this.choice("page", "models", choices.setup.page)]);
    this.fill("training", TRAINING.map((name) => this.training(name)));
    for (const form of Object.values(this.forms)) {
      form.addEventListener("submit", (event) => event.preventDefault());
      if (form !== this.forms.knobs) watch(form, () => this.turned(form));
    }
    this.follow();
  }

  choice(name, list, fallback) {
    const words = this.choices[list].map((one) => ({
      name: one.key ?? one.name, help: one.lr === undefined ? one.help : `${one.help} Its usual learning rate is ${one.lr}.`,
      label: one.title ? one.title.split(":")[0].replace(/\.$/, "") : OWN[one.name] ?? one.name,
    }));
    return field({ name, default: fallback }, { named: words, label: LABELS[name] });
  }

  training(name) {
    const { numbers, setup } = this.choices;
    const number = numbers.find((one) => one.name === name);
    if (!number) return this.choice(name, `${name}s`, setup[name]);
    return field({ ...number, default: setup[name] }, { ends: ENDS[name], label: LABELS[name] });
  }

  fill(name, fields) {
    const problem = document.createElement("p");
    problem.className = "problem";
    problem.role = "alert";
    problem.hidden = true;
    this.forms[name].replaceChildren(...fields, problem);
  }

  get(name) {
    for (const form of Object.values(this.forms)) if (form.elements[name]) return form.elements[name];
    return null;
  }

  turned(form) {
    const { regularization, strength } = this.forms.training.elements;
    if (form === this.forms.training && regularization.value !== "none" && Number(strength.value) === 0) strength.value = SOME;
    this.follow();
    this.changed();
  }

  // what follows from the choices: the knobs of the model, what fits the data, what the words mean
  follow() {
    const data = this.choices.data.find((one) => one.name === this.get("data").value);
    if (data?.task) this.task = data.task;
    else if (data?.name === "drawn") this.task = "classification";
    const model = this.choices.models.find((one) => one.key === this.get("page").value) ?? this.choices.models[0];
    const way = model.tasks[this.task] ?? Object.values(model.tasks)[0];
    for (const option of this.get("page").options) {
      const one = this.choices.models.find((other) => other.key === option.value);
      option.disabled = !(this.task in one.tasks);
    }
    const built = JSON.stringify([model.key, way.knobs]);
    if (built !== this.built) this.buildKnobs(built, model, way);
    for (const name of STEPWISE) this.get(name).closest(".field").hidden = !way.stepwise;
    const link = this.page.querySelector("#model-link");
    link.href = `/${model.key}`;
    link.textContent = model.key;
    this.page.querySelector("#model-way").textContent = way.stepwise ? "learns by steps" : "learns at once";
    for (const form of Object.values(this.forms)) {
      mark(form);
      for (const input of named(form)) input.dispatchEvent(new Event("explain"));
    }
  }

  buildKnobs(built, model, way) {
    this.built = built;
    const { setup } = this.choices;
    const own = model.key === setup.page ? setup.knobs : {};
    const fields = way.knobs.map((knob) => field({ ...knob, default: own[knob.name] ?? knob.default }, { owner: "knob" }));
    const form = this.forms.knobs.cloneNode(false); // without the listeners of the last model
    this.forms.knobs.replaceWith(form);
    this.forms.knobs = form;
    this.fill("knobs", fields);
    form.addEventListener("submit", (event) => event.preventDefault());
    watch(form, () => this.turned(form));
  }

  // what differs from the defaults, as in an address
  turnedValues() {
    const knobs = Object.entries(turned(this.forms.knobs)).map(([name, value]) => [KNOB + name, value]);
    return { ...turned(this.forms.data), ...turned(this.forms.model), ...Object.fromEntries(knobs), ...turned(this.forms.training) };
  }

  setValues(wanted) {
    const known = (form) => {
      for (const input of named(form)) {
        const value = wanted[input.name];
        if (input.options && value !== undefined && ![...input.options].some((one) => one.value === value)) delete wanted[input.name];
      }
      set(form, wanted);
    };
    known(this.forms.data);
    known(this.forms.model);
    known(this.forms.training);
    this.built = "";
    this.follow();
    const knobs = Object.entries(wanted).filter(([name]) => name.startsWith(KNOB));
    set(this.forms.knobs, Object.fromEntries(knobs.map(([name, value]) => [name.slice(KNOB.length), value])));
    this.follow();
  }

  // the setup as the server takes it, but for the data; what is no number it refuses in words
  setup() {
    const asked = { ...values(this.forms.model), ...values(this.forms.training), knobs: values(this.forms.knobs) };
    for (const { name } of this.choices.numbers) {
      const number = Number(asked[name]);
      if (asked[name] !== "" && Number.isFinite(number)) asked[name] = number;
    }
    return asked;
  }

  // the sentence stands under the form whose field it names; false if it names none
  complain(sentence) {
    const forms = Object.values(this.forms);
    const own = forms.find((form) => named(form).some((input) => sentence.includes(` ${input.name} must`)));
    for (const form of forms) complain(form, form === own ? sentence : "");
    return own !== undefined;
  }

  // it names no field: under the model, which is what most of them are about
  complainOfModel(sentence) {
    complain(this.forms.model, sentence);
  }

  learned(task) {
    if (this.task === task) return;
    this.task = task;
    this.follow();
  }
}

