// The index: the moving picture of a page as a small still one, drawn when it comes into view.
// A plain script and no module: the static site has it, too.
"use strict";

(() => {
  const { dressed, loadPlotly, whenSeen } = globalThis.principia;
  const SIZE = { width: 320, height: 200 }; // twice what the page shows, for sharp screens
  let queue = Promise.resolve(); // one after the other: the server draws one at a time

  async function figureOf(place) {
    if (place.dataset.script) {
      await new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = place.dataset.script;
        script.onload = resolve;
        script.onerror = reject;
        document.head.append(script);
      });
      const { frames, ...figure } = globalThis.principiaHeroes[place.dataset.hero];
      const { data, traces } = frames[Math.floor(0.6 * frames.length)];
      return { ...figure, data: figure.data.map((one, place) => data[traces.indexOf(place)] ?? one) };
    }
    const response = await fetch(`/api/heroes/${place.dataset.hero}`, {
      method: "POST", headers: { "content-type": "application/json" }, body: "{}",
    });
    if (!response.ok) throw new Error(`The server answered ${response.status}.`);
    return (await response.json()).figure;
  }

  async function show(place) {
    const figure = await figureOf(place);
    const Plotly = await loadPlotly();
    const { data, layout } = dressed(figure);
    for (const [key, axis] of Object.entries(layout)) {
      if (/^[xy]axis\d*$/.test(key)) layout[key] = { ...axis, title: { text: "" }, showticklabels: false };
      if (/^scene\d*$/.test(key)) for (const letter of "xyz") axis[`${letter}axis`] = { ...axis[`${letter}axis`], visible: false };
    }
    const bare = { ...layout, ...SIZE, annotations: [], margin: { l: 4, r: 4, t: 4, b: 4 }, showlegend: false, sliders: [], updatemenus: [] };
    const picture = document.createElement("img");
    picture.alt = ""; // the words beside it say what it is
    picture.src = await Plotly.toImage({ data, layout: bare }, { format: "png", ...SIZE });
    place.replaceChildren(picture);
  }

  for (const place of document.querySelectorAll(".thumbnail")) {
    whenSeen(place, () => {
      queue = queue.then(() => show(place)).catch(() => place.classList.add("missing"));
    });
  }
})();
