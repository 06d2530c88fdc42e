// What every page needs, on the server and in a file: theme, search, copying, figures.
// A plain script and no module: browsers load no modules from the file system.
"use strict";

globalThis.principia = (() => {
  const page = document.documentElement;
  const root = page.dataset.root;
  const announce = (text) => (document.getElementById("announce").textContent = text);

  // Theme

  const drawn = new Map(); // element -> figure, to draw again in other colors

  document.getElementById("theme").addEventListener("click", () => {
    page.dataset.theme = page.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("principia-theme", page.dataset.theme);
    } catch {
      // then it lasts as long as the page
    }
    for (const [element, figure] of drawn) drawFigure(element, figure);
    document.dispatchEvent(new Event("themechange"));
  });

  // Search

  const input = document.getElementById("search");
  const list = document.getElementById("found");
  const MOST = 12;

  function matches(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const rank = { page: 0, claim: 1, experiment: 2, code: 3 };
    return (globalThis.principiaIndex ?? [])
      .map((entry) => {
        const title = entry.title.toLowerCase();
        const all = `${title} ${entry.where} ${entry.text ?? ""}`.toLowerCase().replaceAll("_", " ");
        if (!words.every((word) => all.includes(word) || entry.where.includes(word))) return null;
        const inTitle = words.filter((word) => title.includes(word)).length;
        return { entry, score: rank[entry.kind] - 3 * inTitle };
      })
      .filter(Boolean)
      .sort((a, b) => a.score - b.score)
      .slice(0, MOST)
      .map((one) => one.entry);
  }

  function search() {
    const entries = matches(input.value);
    const asked = input.value.trim() !== "";
    list.replaceChildren(
      ...entries.map((entry, place) => {
        const item = document.createElement("li");
        const link = document.createElement("a");
        const detail = document.createElement("small");
        item.role = "option";
        item.id = `found-${place}`;
        item.ariaSelected = "false";
        link.href = entry.url.replace(/^\/?/, root);
        link.tabIndex = -1;
        link.textContent = entry.title;
        detail.textContent = `${entry.kind} · ${entry.where}${entry.text ? " · " + entry.text : ""}`;
        link.append(detail);
        item.append(link);
        return item;
      }),
    );
    if (asked && !entries.length) {
      const item = document.createElement("li");
      item.role = "option";
      item.ariaDisabled = "true";
      item.textContent = "Nothing has these words.";
      list.append(item);
    }
    list.hidden = !asked;
    input.ariaExpanded = String(asked);
    input.removeAttribute("aria-activedescendant");
  }

  function choose(step) {
    const items = [...list.querySelectorAll("[aria-selected]")];
    if (!items.length) return;
    const now = items.findIndex((item) => item.ariaSelected === "true");
    const next = (now + step + items.length + (now < 0 && step < 0 ? 1 : 0)) % items.length;
    items.forEach((item, place) => (item.ariaSelected = String(place === next)));
    items[next].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", items[next].id);
  }

  function close() {
    list.hidden = true;
    input.ariaExpanded = "false";
  }

  input.addEventListener("input", search);
  input.addEventListener("focus", () => input.value && search());
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") choose(1);
    else if (event.key === "ArrowUp") choose(-1);
    else if (event.key === "Escape") close();
    else if (event.key === "Enter") {
      const selected = list.querySelector('[aria-selected="true"] a') ?? list.querySelector("a");
      if (selected && !list.hidden) selected.click();
      close();
    } else return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".search") || event.target.closest("#found a")) close();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      input.focus();
      input.select();
    }
  });

  // Commands to copy

  document.addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    const text = button.parentElement.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const range = document.createRange(); // no clipboard from a file: mark it instead
      range.selectNodeContents(button.parentElement.querySelector("code"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    announce("Copied the command.");
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });

  // A link to a folded part unfolds it

  function unfold() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) target.open = true;
  }
  addEventListener("hashchange", unfold);
  unfold();

  // Figures: Plotly's own script, loaded when the first figure comes into view

  let plotly = null;

  function loadPlotly() {
    plotly ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${root}assets/plotly.min.js`;
      script.onload = () => resolve(globalThis.Plotly);
      script.onerror = () => reject(new Error("Plotly's script could not be loaded."));
      document.head.append(script);
    });
    return plotly;
  }

  // the colors of the figures, as they look on dark paper
  const DARK = {
    "#111827": "#e6e9ef", "#2563eb": "#7aa7ff", "#dc2626": "#ff8a80", "#059669": "#4fd1a1", "#d97706": "#f5b04d",
    "#7c3aed": "#b79bff", "#0891b2": "#4cc9e6", "#be185d": "#f584b6", "#65a30d": "#a5d65a", "#e5e7eb": "#313947",
    "#93c5fd": "#27456e", "#fdba74": "#7a4a1c", "#86efac": "#1f5c39", "#f9a8d4": "#6e2a50", "#c4b5fd": "#463a78",
    "#fde047": "#6b5a12", "#67e8f9": "#155e6b", "#fca5a5": "#7a2f2f", "#bef264": "#4a6118", "#d6d3d1": "#4a4a4a",
    "#a5b4fc": "#343f7a", "#5eead4": "#146157", "#fdfdfd": "#20262f",
    "#f1f5f9": "#1a2230", "#60a5fa": "#3b82f6", "#1e3a8a": "#bfdbfe",
  };

  function recolored(value) {
    if (typeof value === "string") {
      const low = value.toLowerCase();
      return DARK[low] ?? value.replace(/#[0-9a-f]{6}/gi, (color) => DARK[color.toLowerCase()] ?? color);
    }
    if (Array.isArray(value)) return value.length > 300 || (typeof value[0] === "number" && typeof value[1] !== "string") ? value : value.map(recolored);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, recolored(inner)]));
    }
    return value;
  }

  function dressed(figure) {
    const style = getComputedStyle(page);
    const color = (name) => style.getPropertyValue(name).trim();
    const { template, ...rest } = figure.layout ?? {};
    const layout = page.dataset.theme === "dark" ? recolored(rest) : structuredClone(rest);
    const data = page.dataset.theme === "dark" ? recolored(figure.data) : figure.data;
    layout.paper_bgcolor = "rgba(0,0,0,0)";
    layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { ...layout.font, color: color("--ink") };
    layout.autosize = true;
    layout.hoverlabel = { bgcolor: color("--raised"), font: { color: color("--ink") } };
    const axes = Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key));
    for (const axis of new Set([...axes, "xaxis", "yaxis"])) {
      layout[axis] = {
        gridcolor: color("--line"), zerolinecolor: color("--line"), linecolor: color("--line"), automargin: true,
        ...layout[axis],
      };
    }
    return { data, layout };
  }

  // nothing leaves this host: Plotly's own sharing would upload the figure to its makers
  const CONFIG = {
    responsive: true, displaylogo: false, displayModeBar: "hover", plotlyServerURL: "",
    modeBarButtonsToRemove: ["sendChartToCloud", "sendDataToCloud", "lasso2d", "select2d"],
  };

  const BETWEEN = 68; // pixels between two panels, one below the other: numbers, words, a title
  const NARROW = 560; // pixels, below which panels stand under each other
  // the axes of the panels, in the order in which they were made
  function panels(layout) {
    const number = (key) => Number(key.replace(/\D/g, "") || 1);
    const flat = Object.keys(layout).filter((key) => /^xaxis\d*$/.test(key)).map((key) => [layout[key], layout[key.replace("x", "y")]]);
    const spatial = Object.keys(layout).filter((key) => /^scene\d*$/.test(key)).sort((a, b) => number(a) - number(b))
      .map((key) => [(layout[key].domain ??= {}), null]);
    const start = ([x, y]) => (y ? [-(y.domain?.[1] ?? 1), x.domain?.[0] ?? 0] : [-(x.y?.[1] ?? 1), x.x?.[0] ?? 0]);
    return [...flat, ...spatial].sort((a, b) => {
      const [one, other] = [start(a), start(b)];
      return Math.abs(one[0] - other[0]) > 0.05 ? one[0] - other[0] : one[1] - other[1];
    });
  }

  // panels that stand side by side stand below each other where there is no room, or two in a row
  function stacked(layout, height) {
    const all = panels(layout);
    const columns = all.length > 3 ? 2 : 1;
    const rows = Math.ceil(all.length / columns);
    const titles = (layout.annotations ?? []).filter((one) => one.xref === "paper" && one.yref === "paper");
    const [gap, between] = [columns > 1 ? 0.14 : 0, BETWEEN / (height - layout.margin.t - layout.margin.b)];
    const moved = new Set();
    all.forEach(([x, y], place) => {
      const [row, column] = [Math.floor(place / columns), place % columns];
      const across = [column * (0.5 + gap / 2), columns > 1 ? column * 0.5 + 0.5 - (1 - column) * gap / 2 : 1];
      const tall = (1 - (rows - 1) * between) / rows;
      const down = [1 - (row + 1) * tall - row * between, 1 - row * (tall + between)].map((one) => Math.max(0, one));
      const old = y ? [x.domain ?? [0, 1], y.domain ?? [0, 1]] : [x.x ?? [0, 1], x.y ?? [0, 1]];
      const title = titles.find((one) => !moved.has(one) && Math.abs(one.x - (old[0][0] + old[0][1]) / 2) < 0.02 && Math.abs(one.y - old[1][1]) < 0.02);
      if (title) {
        Object.assign(title, { x: (across[0] + across[1]) / 2, y: down[1], font: { size: columns > 1 ? 9 : 12 } });
        moved.add(title);
      }
      if (y) [x.domain, y.domain] = [across, down];
      else [x.x, x.y] = [across, down];
    });
  }

  // what an element can play: recordings have a button each
  function showSounds(element, sounds) {
    element.parentElement.querySelectorAll(":scope > audio").forEach((one) => one.remove());
    for (const [name, address] of sounds ?? []) {
      const audio = document.createElement("audio");
      audio.controls = true;
      audio.src = address;
      audio.ariaLabel = name || "recording";
      element.after(audio);
    }
  }

  async function drawFigure(element, figure) {
    drawn.set(element, figure);
    const Plotly = await loadPlotly();
    if (drawn.get(element) !== figure) return; // a newer one is on its way
    const { data, layout } = dressed(figure);
    const many = (figure.layout?.meta?.panels ?? 1) > 1;
    if (many && element.clientWidth < NARROW) stacked(layout, element.clientHeight);
    const tall = Number.parseFloat(getComputedStyle(element).height) < layout.height; // rows, or a slider
    const stacks = many && element.clientWidth < NARROW && element.closest(".hero"); // which has room for them
    if (tall && !stacks) element.style.height = `${layout.height}px`;
    delete layout.height; // the place on the page has it
    const dark = page.dataset.theme === "dark";
    const titled = (said) => layout.annotations.map((one, place) => ({ ...one, text: said[place].text }));
    const frames = (figure.frames ?? []).map((one) => ({
      ...one, data: dark ? recolored(one.data) : one.data,
      ...(one.layout ? { layout: { annotations: titled(one.layout.annotations) } } : {}),
    }));
    await Plotly.react(element, { data, layout, config: CONFIG, frames });
    showSounds(element, figure.layout?.meta?.sounds);
    element.dataset.drawn = String(Number(element.dataset.drawn ?? 0) + 1);
  }

  function whenSeen(element, act) {
    const watcher = new IntersectionObserver(
      (entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        watcher.disconnect();
        act();
      },
      { rootMargin: "200px" },
    );
    watcher.observe(element);
  }

  // Evidence on a card: the same for a measurement from the server and one in a file

  // an element with a text
  const cell = (tag, text, className = "") => {
    const made = document.createElement(tag);
    made.textContent = text;
    made.className = className;
    return made;
  };

  const said = (words, stale) => (stale ? `measured on an earlier version: ${words}` : words);

  function showEvidence(card, found) {
    const { observation, summary, figure, stale } = found;
    const verdict = card.querySelector(".verdict");
    verdict.className = `verdict ${stale ? "stale" : observation.verdict}`;
    verdict.textContent = said(observation.verdict, stale);
    card.querySelector(".numbers").textContent = summary;
    const why = observation.why ? `Tolerance because: ${observation.why}` : "";
    card.querySelector(".why").textContent = observation.parts ? "" : why;
    const parts = card.querySelector(".parts");
    parts.replaceChildren();
    if (observation.parts) {
      const table = document.createElement("table");
      const head = document.createElement("tr");
      head.append(...["part", "verdict", "measured", "expected", "tolerance because"].map((text) => cell("th", text)));
      table.append(head, ...observation.parts.flatMap((part) => rows(part, "")));
      parts.append(table);
    }
    const place = card.querySelector(".figure");
    if (figure) drawFigure(place, figure);
    place.setAttribute("aria-label", `Figure: ${observation.verdict}. ${summary}`);
  }

  function rows(part, before) {
    const name = before ? `${before}, ${part.name}` : part.name;
    if (part.parts) return part.parts.flatMap((inner) => rows(inner, name));
    const row = document.createElement("tr");
    const slack = Number(part.tolerance) ? ` ± ${short(part.tolerance)}` : "";
    row.append(
      cell("td", name), cell("td", part.verdict, part.verdict), cell("td", short(part.measured)),
      cell("td", `${part.relation} ${short(part.expected)}${slack}`), cell("td", part.why, "soft"),
    );
    return [row];
  }

  function short(value) {
    const number = Number(value);
    return Number.isInteger(number) ? String(number) : String(Number(number.toPrecision(5)));
  }

  function showControls(card, all) {
    card.querySelectorAll(".control-numbers").forEach((element, place) => {
      const { observation, summary, stale } = all[place];
      element.textContent = said(`${observation.verdict}, ${summary}`, stale);
    });
    const decides = card.querySelector(".decides");
    if (decides) decides.textContent = said(all[0].summary, all[0].stale);
  }

  // a button that breaks a claim, or mends it once it is broken
  function press(button, broken) {
    button.ariaPressed = String(broken);
    button.textContent = button.textContent.replace(/^(Break|Mend) it/, broken ? "Mend it" : "Break it");
  }

  return { announce, cell, drawFigure, dressed, loadPlotly, press, root, short, showControls, showEvidence, whenSeen };
})();
