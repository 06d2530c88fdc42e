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

// the moving picture, recorded: it plays once it is seen, unless somebody wants no motion
for (const place of document.querySelectorAll(".hero")) {
  const figure = globalThis.principiaHeroes?.[place.dataset.key];
  const { drawFigure, whenSeen } = globalThis.principia;
  if (!figure) continue;
  whenSeen(place, async () => {
    const element = place.querySelector(".figure");
    await drawFigure(element, figure);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    await globalThis.Plotly.animate(element, null, { frame: { duration: 90, redraw: figure.layout.meta.redraw }, transition: { duration: 0 } });
  });
}
