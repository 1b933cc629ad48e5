/**
 * Light or dark, before anything is drawn: what the system says, unless this browser was told otherwise.
 * A plain script, so that no page flashes in the other scheme.
 */
(() => {
  try {
    const wanted = localStorage.getItem("framehold-theme");
    if (wanted === "light" || wanted === "dark") document.documentElement.dataset.theme = wanted;
  } catch {
    // A browser that keeps nothing follows the system.
  }
})();
