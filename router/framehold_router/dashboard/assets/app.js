/** The dashboard of a Framehold router: its frame, and which page stands in it. */
import { go, Link, useAddress } from "./lib/address.js";
import { useAccess } from "./lib/api.js";
import { html, render, useEffect, useMemo, useRef, useState } from "./lib/html.js";
import { useKeys } from "./lib/keys.js";
import { useFollowing, useLive } from "./lib/live.js";
import Call from "./pages/call.js";
import Capacity from "./pages/capacity.js";
import Calls from "./pages/calls.js";
import Failovers from "./pages/failovers.js";
import Leases from "./pages/leases.js";
import Node from "./pages/node.js";
import Nodes from "./pages/nodes.js";
import Overview from "./pages/overview.js";
import Playground from "./pages/playground.js";
import Ring from "./pages/ring.js";
import Tool from "./pages/tool.js";
import Tools from "./pages/tools.js";
import { SignIn } from "./parts/dialog.js";
import { Finder, Keys } from "./parts/finder.js";
import { Guard } from "./parts/guard.js";
import { LinkState, Old } from "./parts/link.js";
import { Empty, Loading } from "./parts/notice.js";
import { Card, Page } from "./parts/page.js";
import { Theme } from "./parts/theme.js";

/** `key` opens the page after a `g`. A new page: a module in `pages/`, and a line here; tests name the rest. */
const PAGES = [
  { path: [], name: "Overview", key: "o", page: Overview },
  { path: ["ring"], name: "Ring", key: "r", page: Ring },
  { path: ["nodes"], name: "Nodes", key: "n", page: Nodes, one: Node },
  { path: ["leases"], name: "Leases", key: "l", page: Leases },
  { path: ["calls"], name: "Calls", key: "c", page: Calls, one: Call },
  { path: ["tools"], name: "Tools", key: "t", page: Tools, one: Tool },
  { path: ["capacity"], name: "Capacity", key: "a", page: Capacity },
  { path: ["failovers"], name: "Failovers", key: "f", page: Failovers },
  { path: ["playground"], name: "Playground", key: "p", page: Playground, where: ({ playground }) => playground !== "off" },
];

function Unknown() {
  return html`<${Page} title="No such page"><${Empty} title="There is nothing here">
    <${Link} to=${[]}>Go to the overview</${Link}>
  </${Empty}></${Page}>`;
}

/** The page of an address, and its parameter: the name of the one thing that it is about. */
function placed(path) {
  const entry = PAGES.find((one) => one.path[0] === path[0]);
  if (entry === undefined || path.length > 2) return [Unknown];
  return path.length === 2 ? [entry.one ?? Unknown, path[1]] : [entry.page ?? Unknown];
}

/** The pages that this router shows. */
function usePages() {
  const access = useAccess();
  return useMemo(() => PAGES.filter(({ where }) => where?.(access) ?? true), [access.playground]);
}

/** The dialogs that a key opens, and a button for those who have none. */
function useShortcuts(pages) {
  const [open, setOpen] = useState("");
  const { locked } = useAccess();
  const close = () => setOpen("");
  useKeys({ "/": () => locked || setOpen("find"), "?": () => setOpen("keys"), ...Object.fromEntries(pages.map(({ key, path }) => [`g ${key}`, () => go(path)])) });
  const keys = [["/", "Find a call, a token, a tool, a node or a page"], ["?", "These keys"], ...pages.map(({ key, name }) => [`g ${key}`, name]), ["Esc", "Close a dialog"]];
  return {
    onFind: () => setOpen("find"),
    dialog: (open === "find" && html`<${Finder} pages=${pages} onClose=${close} />`) || (open === "keys" && html`<${Keys} keys=${keys} onClose=${close} />`),
  };
}

function Navigation({ here, pages: shown }) {
  return html`<nav aria-label="Pages"><ul>
    ${shown.map(({ path, name }) => {
      const current = here === (path[0] ?? "");
      return html`<li><${Link} to=${path} class="page-link" aria-current=${current ? "page" : undefined}>${name}</${Link}></li>`;
    })}
  </ul></nav>`;
}

function Side({ here, pages, onFind, onSignIn, onSignOut }) {
  const { tokenSet, signedIn } = useAccess();
  const { link, overview } = useLive();
  return html`<div class="side">
    <p class="brand"><img src="/dashboard/assets/style/mark.svg" alt="" width="26" height="26" />Framehold</p>
    ${onFind && html`<button type="button" class="find" aria-keyshortcuts="/" onClick=${onFind}>Find <kbd>/</kbd></button>`}
    <${Navigation} here=${here} pages=${pages} />
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

/** A router that other machines reach, and that has no token, shows nothing to anybody. */
function Closed() {
  return html`<${Page} title="Closed"><${Card} label="Closed"><${Empty} title="This router shows its fleet to nobody">
    It has no token, and listens beyond its own machine. Set FRAMEHOLD_ADMIN_TOKEN or FRAMEHOLD_READ_TOKEN, or bind it to 127.0.0.1, and start it again.
  </${Empty}></${Card}></${Page}>`;
}

/** `refused`: what was shown so far is not the token, or not any more. */
function Locked({ refused, onSignIn }) {
  const { tokenSet } = useAccess();
  if (tokenSet === false) return html`<${Closed} />`;
  return html`<${Page} title="Sign in"><${Card} label="Sign in"><${Empty} title=${refused ? "This router no longer takes the admin token of this tab" : "This router shows its fleet to those who have its admin token"}>
    ${refused ? "It may have been started with another one. Nothing is shown until you sign in again." : "It is the FRAMEHOLD_ADMIN_TOKEN of its routers, or their FRAMEHOLD_READ_TOKEN to look only; the link that framehold up prints brings it along."}${" "}
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
  const { link, heard } = useLive();
  const [refused, leave] = useRefused();
  const [asking, setAsking] = useState(false);
  const main = useRef(null);
  const pages = usePages();
  const { onFind, dialog } = useShortcuts(pages);
  const [page, about] = placed(path);
  const at = path.join("/");
  const first = useRef(true);
  useEffect(() => {
    // A screen reader announces the new page; at the first page the browser does so.
    if (!first.current) main.current.querySelector("h1")?.focus({ preventScroll: true });
    first.current = false;
  }, [at]);
  const here = path[0] ?? "";
  return html`
    <a class="skip" href="#main">Skip to the page</a>
    <${Side} here=${here} pages=${pages} onFind=${!locked && onFind} onSignIn=${() => setAsking(true)} onSignOut=${leave} />
    <main id="main" ref=${main} tabindex="-1">
      <${Old} link=${link} heard=${heard} />
      ${known ? (locked ? html`<${Locked} refused=${refused} onSignIn=${() => setAsking(true)} />` : html`<${Guard} key=${at}><${page} about=${about} /></${Guard}>`) : html`<${Loading} what="what this router wants first" />`}
    </main>
    ${dialog}
    ${asking && html`<${SignIn} why="This router wants its admin token." onClose=${() => setAsking(false)} onDone=${() => setAsking(false)} />`}`;
}

render(html`<${App} />`, document.body);
