// The static site: evidence stands in the page; "Break it" shows the control.
"use strict";

for (const card of document.querySelectorAll(".claim")) {
  const script = card.querySelector("script.evidence");
  const buttons = [...card.querySelectorAll(".break")];
  if (!script) {
    for (const button of buttons) button.disabled = true;
    continue;
  }
  const { measure, controls } = JSON.parse(script.textContent);
  const { press, showControls, showEvidence, whenSeen } = globalThis.principia;
  showControls(card, controls);
  whenSeen(card, () => showEvidence(card, measure));
  buttons.forEach((button, place) => {
    button.addEventListener("click", () => {
      const broken = button.ariaPressed !== "true";
      for (const one of buttons) press(one, broken && one === button);
      showEvidence(card, broken ? controls[place] : measure);
    });
  });
}
