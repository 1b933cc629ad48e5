/** A text that is too long to show, with a button that copies it. */
import { html, useState } from "../lib/html.js";

export function Copy({ text, what }) {
  const [done, setDone] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone("Copied");
    } catch {
      setDone("Not copied: the browser refused");
    }
    setTimeout(() => setDone(""), 2000);
  };
  return html`<button type="button" class="quiet" onClick=${copy} aria-label=${`Copy ${what}`} title=${`Copy ${what}`}>
    <span aria-live="polite">${done || "Copy"}</span>
  </button>`;
}
