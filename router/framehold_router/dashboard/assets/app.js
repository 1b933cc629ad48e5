/** The dashboard of a Framehold router: its frame, and which page stands in it. */
import { Link, useAddress } from "./lib/address.js";
import { useAccess } from "./lib/api.js";
import { html, render, useEffect, useRef, useState } from "./lib/html.js";
import { useFollowing, useLive } from "./lib/live.js";
import Call from "./pages/call.js";
import Calls from "./pages/calls.js";
import Failovers from "./pages/failovers.js";
import Leases from "./pages/leases.js";
import Node from "./pages/node.js";
import Nodes from "./pages/nodes.js";
import Overview from "./pages/overview.js";
import Ring from "./pages/ring.js";
import Tradeoff from "./pages/tradeoff.js";
import { SignIn } from "./parts/dialog.js";
import { Guard } from "./parts/guard.js";
import { LinkState, Old } from "./parts/link.js";
import { Empty, Loading } from "./parts/notice.js";
import { Card, Page } from "./parts/page.js";
import { Theme } from "./parts/theme.js";

const PAGES = [
  { path: [], name: "Overview", page: Overview },
  { path: ["ring"], name: "Ring", page: Ring },
  { path: ["nodes"], name: "Nodes", page: Nodes, one: Node },
  { path: ["leases"], name: "Leases", page: Leases },
  { path: ["calls"], name: "Calls", page: Calls, one: Call },
  { path: ["failovers"], name: "Failovers", page: Failovers },
  { path: ["tradeoff"], name: "Trade-off", page: Tradeoff },
];

function Unknown() {
  return html`<${Page} title="No such page"><${Empty} title="There is nothing here">
    <${Link} to=${[]}>Go to the overview</${Link}>
  </${Empty}></${Page}>`;
}

/** The page of an address, and what it is told: the name of the one thing that it is about. */
function placed(path) {
  const entry = PAGES.find((one) => one.path[0] === path[0]);
  if (entry === undefined || path.length > 2) return [Unknown];
  return path.length === 2 ? [entry.one ?? Unknown, path[1]] : [entry.page ?? Unknown];
}

function Navigation({ here }) {
  return html`<nav aria-label="Pages"><ul>
    ${PAGES.filter(({ name }) => name).map(({ path, name }) => {
      const current = here === (path[0] ?? "");
      return html`<li><${Link} to=${path} class="page-link" aria-current=${current ? "page" : undefined}>${name}</${Link}></li>`;
    })}
  </ul></nav>`;
}

function Side({ here, onSignIn, onSignOut }) {
  const { tokenSet, signedIn } = useAccess();
  const { link, overview } = useLive();
  return html`<div class="side">
    <p class="brand"><img src="/dashboard/assets/style/mark.svg" alt="" width="26" height="26" />Framehold</p>
    <${Navigation} here=${here} />
    <div class="foot">
      <${LinkState} link=${link} />
      ${tokenSet && (signedIn
        ? html`<button type="button" onClick=${onSignOut}>Sign out</button>`
        : html`<button type="button" onClick=${onSignIn}>Sign in</button>`)}
      <${Theme} />
      ${overview && html`<p class="version">version ${overview.version}</p>`}
    </div>
  </div>`;
}

/** `refused`: what was shown so far is not the token, or not any more. */
function Locked({ refused, onSignIn }) {
  return html`<${Page} title="Sign in"><${Card} label="Sign in"><${Empty} title=${refused ? "This router no longer takes the admin token of this tab" : "This router shows its fleet to those who have its admin token"}>
    ${refused ? "It may have been started with another one. Nothing is shown until you sign in again." : "It is the FRAMEHOLD_ADMIN_TOKEN of its routers; the link that framehold up prints brings it along."}${" "}
    <button type="button" class="act" onClick=${onSignIn}>Sign in</button>
  </${Empty}></${Card}></${Page}>`;
}

/** Whether the router stopped taking the token by itself: signing out is no refusal. */
function useRefused() {
  const { locked, signedIn, signOut } = useAccess();
  const taken = useRef(false);
  if (signedIn) taken.current = true;
  const leave = () => {
    taken.current = false;
    signOut();
  };
  return [locked && taken.current, leave];
}

function App() {
  useFollowing();
  const { path } = useAddress();
  const { asked: known, locked } = useAccess();
  const { link, overview } = useLive();
  const [refused, leave] = useRefused();
  const [asking, setAsking] = useState(false);
  const main = useRef(null);
  const [page, about] = placed(path);
  const at = path.join("/");
  const first = useRef(true);
  useEffect(() => {
    // Whoever listens to the page rather than sees it is told where they are; at the first page the browser does so.
    if (!first.current) main.current.querySelector("h1")?.focus({ preventScroll: true });
    first.current = false;
  }, [at]);
  const here = path[0] ?? "";
  return html`
    <a class="skip" href="#main">Skip to the page</a>
    <${Side} here=${here} onSignIn=${() => setAsking(true)} onSignOut=${leave} />
    <main id="main" ref=${main} tabindex="-1">
      <${Old} link=${link} known=${overview !== null} />
      ${known ? (locked ? html`<${Locked} refused=${refused} onSignIn=${() => setAsking(true)} />` : html`<${Guard} key=${at}><${page} about=${about} /></${Guard}>`) : html`<${Loading} what="what this router wants first" />`}
    </main>
    ${asking && html`<${SignIn} why="This router wants its admin token." onClose=${() => setAsking(false)} onDone=${() => setAsking(false)} />`}`;
}

render(html`<${App} />`, document.body);
