// Runs before the first paint, so that a dark page never flashes white.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("principia-theme");
  } catch {
    // a browser that keeps nothing follows the system
  }
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}
{
  // Formulas change their width when their font comes, and what stands around them would jump.
  const page = document.documentElement;
  const ready = () => delete page.dataset.waiting;
  page.dataset.waiting = "";
  document.fonts.load('1rem "Principia Math"').finally(ready);
  setTimeout(ready, 1000);
}
