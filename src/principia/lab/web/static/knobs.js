// Form fields of knobs: sliders and fields move together; what is turned is marked.

const places = 3; // significant digits of a value that comes from a slider

function toValue(slider) {
  const low = Number(slider.dataset.low), high = Number(slider.dataset.high);
  const share = Number(slider.value) / Number(slider.max);
  const value = "log" in slider.dataset ? low * (high / low) ** share : low + (high - low) * share;
  if (slider.dataset.step === "1") return String(Math.round(value));
  const rounded = Number(value.toPrecision(places));
  return String(Math.min(high, Math.max(low, rounded)));
}

function toShare(slider, value) {
  const low = Number(slider.dataset.low), high = Number(slider.dataset.high);
  const inside = Math.min(high, Math.max(low, value));
  const share = "log" in slider.dataset ? Math.log(inside / low) / Math.log(high / low) : (inside - low) / (high - low);
  return String(Math.round(share * Number(slider.max)));
}

export const named = (form) => [...form.elements].filter((one) => one.name);

export function mark(form) {
  for (const input of named(form)) {
    const field = input.closest(".field");
    field.classList.toggle("turned", input.value !== input.dataset.default);
    const slider = field.querySelector('input[type="range"]');
    if (slider && Number.isFinite(Number(input.value))) slider.value = toShare(slider, Number(input.value));
    if (slider) slider.ariaValueText = input.value;
  }
}

// changed(): called whenever a value has changed
export function watch(form, changed) {
  for (const slider of form.querySelectorAll('input[type="range"]')) {
    const input = slider.closest(".field").querySelector("[name]");
    if (slider.dataset.step === "1") {
      const steps = Number(slider.dataset.high) - Number(slider.dataset.low);
      if (steps < 1000 && !("log" in slider.dataset)) slider.max = String(Math.max(1, steps)); // one arrow key, one step
    }
    slider.addEventListener("input", () => {
      input.value = toValue(slider);
      mark(form);
      changed();
    });
  }
  form.addEventListener("input", (event) => {
    if (!event.target.name) return;
    mark(form);
    changed();
  });
  mark(form);
}

export function values(form) {
  return Object.fromEntries(named(form).map((input) => [input.name, input.value.trim()]));
}

export function turned(form) {
  return Object.fromEntries(
    named(form).filter((input) => input.value.trim() !== input.dataset.default).map((input) => [input.name, input.value.trim()]),
  );
}

// a word of a command, as a shell takes it
export const quoted = (text) => (/^[\w.,:+=/-]*$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

export function set(form, wanted) {
  for (const input of named(form)) input.value = wanted[input.name] ?? input.dataset.default;
  mark(form);
}

// The sentence stands under the form, and the field that it names is marked.
export function complain(form, sentence) {
  const problem = form.querySelector(".problem");
  problem.textContent = sentence;
  problem.hidden = !sentence;
  for (const field of form.querySelectorAll(".field")) {
    const wrong = Boolean(sentence) && sentence.includes(` ${field.dataset.name} must`);
    field.classList.toggle("wrong", wrong);
    field.querySelector("[name]").ariaInvalid = wrong ? "true" : null;
  }
}
