// Buttons and keys: play, step, step back, tools, presets.
import { drawSign } from "./legend.js";

const find = (id) => document.getElementById(id);

export function connect(playground) {
  const { trainer } = playground;
  const toggle = () => (trainer.playing ? trainer.pause() : playground.play());
  const actions = {
    play: toggle,
    step: () => trainer.move(1),
    ten: () => trainer.move(10),
    back: () => trainer.move(-1),
    restart: () => playground.begin(0, 0),
    clear: () => playground.clear(),
  };
  for (const [id, act] of Object.entries(actions)) find(id).addEventListener("click", act);
  find("speed").addEventListener("change", () => {
    trainer.speed = Number(find("speed").value);
    playground.remember();
  });
  find("tests").addEventListener("change", () => {
    playground.paint();
    playground.remember();
  });
  connectTools(playground);
  connectKeys(playground, { " ": toggle, ArrowRight: actions.step, ArrowLeft: actions.back });
  connectPresets(playground);
}

function connectTools(playground) {
  const sign = () => {
    for (const canvas of document.querySelectorAll("[data-tool] canvas")) drawSign(canvas, Number(canvas.parentElement.dataset.tool));
  };
  for (const button of document.querySelectorAll("[data-tool]")) {
    button.addEventListener("click", () => playground.take(toolOf(button)));
  }
  document.addEventListener("themechange", sign);
  sign();
  find("plane").addEventListener("pointermove", (event) => (find("readout").textContent = playground.readout(event)));
  find("plane").addEventListener("pointerleave", () => (find("readout").textContent = ""));
}

function toolOf({ dataset: { tool } }) {
  if (tool === "look") return null;
  return tool === "eraser" ? tool : Number(tool);
}

function connectKeys(playground, actions) {
  let byKeyboard = false; // whether the focus was moved with the keyboard, so that space is for a button
  document.addEventListener("pointerdown", () => (byKeyboard = false), true);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Tab") byKeyboard = true;
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, [contenteditable]")) return;
    if (event.key === " " && byKeyboard && event.target.closest("button, a, summary, [tabindex='0']")) return;
    const tool = /^[1-4]$/.test(event.key) ? Number(event.key) - 1 : { e: "eraser", Escape: null }[event.key];
    if (tool !== undefined) playground.take(tool);
    else if (event.key in actions) actions[event.key]();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keyup", (event) => {
    if (event.key === " " && !byKeyboard && event.target.closest("button")) event.preventDefault(); // it was for play
  });
}

// A preset is an address; it is opened without loading the page again, and plays.
function connectPresets(playground) {
  for (const link of document.querySelectorAll(".presets a")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      history.pushState(null, "", link.href);
      playground.open({ play: true });
    });
  }
  addEventListener("popstate", () => playground.open());
}
