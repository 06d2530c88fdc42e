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
