/**
 * The state of the view in the URL: the page, and its filters, order and position.
 *
 * The law: everything that a link should keep is in the URL; a secret never is. A change of page adds a step to the
 * history, which Back undoes. A change that comes with each keystroke replaces the last step.
 */
import { html } from "./html.js";
import { search } from "./search.js";
import { shared } from "./signal.js";

const BASE = "/dashboard";

const address = shared(read());
addEventListener("popstate", () => address.set(read()));

function read() {
  const path = location.pathname.slice(BASE.length).split("/").filter(Boolean).map(decoded);
  return { path, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** A part of a path as it was before it was quoted. */
export function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The present address: `path` as its parts (`["nodes", "a"]`), `query` as an object of texts. */
export const useAddress = () => address.use();

/** The URL of a page. Parameters that are undefined, null or empty are left out. */
export function href(path, query = {}) {
  return BASE + path.map((part) => `/${encodeURIComponent(part)}`).join("") + search(query);
}

/** Go to a page. */
export function go(path, query = {}, { replace = false } = {}) {
  const leaves = path.join("/") !== address.get().path.join("/");
  history[replace ? "replaceState" : "pushState"](null, "", href(path, query));
  address.set(read());
  if (leaves) scrollTo(0, 0);
}

/** Change some parameters of the present page, and keep the others. */
export function setQuery(changes, { replace = false } = {}) {
  const { path, query } = address.get();
  go(path, { ...query, ...changes }, { replace });
}

/** A link to a page of the dashboard: an ordinary one, which a plain click follows without a new load. */
export function Link({ to, query, children, ...more }) {
  const follow = (event) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to, query);
  };
  return html`<a href=${href(to, query)} onClick=${follow} ...${more}>${children}</a>`;
}
