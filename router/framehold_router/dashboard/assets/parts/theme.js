/** Light, dark, or as the system is. */
import { html, useState } from "../lib/html.js";

const NAMES = { auto: "Auto", light: "Light", dark: "Dark" };

export function Theme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "auto");
  const choose = (event) => {
    const wanted = event.currentTarget.value;
    setTheme(wanted);
    if (wanted === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = wanted;
    try {
      localStorage.setItem("framehold-theme", wanted);
    } catch {
      // It lasts as long as the page, then.
    }
  };
  return html`<label class="theme">Colours
    <select value=${theme} onChange=${choose}>
      ${Object.entries(NAMES).map(([value, name]) => html`<option value=${value} selected=${value === theme}>${name}</option>`)}
    </select>
  </label>`;
}
