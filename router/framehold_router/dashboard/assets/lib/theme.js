/**
 * Sets the light or dark scheme before anything is drawn: the system's, unless the user has chosen one in this browser.
 * A plain script, so that no page flashes in the other scheme.
 */
(() => {
  try {
    const wanted = localStorage.getItem("framehold-theme");
    if (wanted === "light" || wanted === "dark") document.documentElement.dataset.theme = wanted;
  } catch {
    // Without storage the scheme follows the system.
  }
})();
