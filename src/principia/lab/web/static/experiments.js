// Experiments on a page of the course: the form of each one starts a run, and the run's own page shows it.
import { ask, Refused } from "./requests.js";
import { complain, quoted, set, turned, watch } from "./knobs.js";

const state = new URLSearchParams(location.search); // run-name.knob=value, as "Start another like it" writes it

function start(card) {
  const form = card.querySelector("form");
  const button = form.querySelector(".start");
  const command = card.querySelector(".command code");
  const key = card.dataset.key;

  function tell() {
    const { budget, seed, ...knobs } = turned(form);
    const sets = Object.entries(knobs).map(([knob, value]) => ` --set ${quoted(`${knob}=${value}`)}`);
    const flags = [budget && ` --budget ${budget}`, seed && ` --seed ${quoted(seed)}`].filter(Boolean);
    command.textContent = `principia run ${key}${flags.join("")}${sets.join("")}`;
    complain(form, "");
  }

  const wanted = {};
  for (const [name, value] of state) if (name.startsWith(`${card.id}.`)) wanted[name.slice(card.id.length + 1)] = value;
  set(form, wanted);
  for (const part of form.querySelectorAll(".parts")) part.open = Boolean(part.querySelector(".turned"));
  watch(form, tell);
  tell();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { budget = "quick", seed = "0", ...knobs } = turned(form);
    button.disabled = true;
    button.textContent = "Starting …";
    try {
      if (!/^\d+$/.test(seed)) throw new Refused(`run: seed must be an integer in [0, 4294967295]; got ${seed}.`, 422);
      const { name } = await ask("/api/runs", { body: { key, budget, seed: Number(seed), knobs } });
      location.assign(`/runs/${encodeURIComponent(name)}`);
    } catch (error) {
      complain(form, error.message);
    } finally {
      button.disabled = false;
      button.textContent = "Start";
    }
  });
}

for (const card of document.querySelectorAll(".experiment")) start(card);
