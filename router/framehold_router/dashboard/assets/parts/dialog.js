/**
 * Dialogs: the browser's own, which keep the focus inside and give it back, and close on Escape.
 *
 * The law: an action says what it will do before it is done, and stays open until its answer is here. Of one that was not
 * answered the dialog says that nobody knows.
 */
import { Trouble, useAccess } from "../lib/api.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { Callout } from "./notice.js";

/**
 * Gives the focus back to `before`. A row of a list may have been drawn anew meanwhile, because its node was silent for
 * one look: then to the button of the same name, and without one to the page.
 */
function focusAgain(before) {
  if (before.isConnected && before !== document.body) return before.focus();
  const name = before.getAttribute("aria-label");
  const same = /** @type {HTMLElement | null} */ (name && document.querySelector(`[aria-label="${CSS.escape(name)}"]`));
  (same || document.getElementById("main")).focus();
}

/** A dialog that is open for as long as it is drawn. Without `onClose` nothing that its user does closes it. */
export function Dialog({ title, children, onClose }) {
  const own = useRef(null);
  // When it is drawn first: by the time of the effect the row of the button may have been drawn anew.
  const [before] = useState(() => document.activeElement);
  useEffect(() => {
    const dialog = own.current;
    dialog.showModal();
    return () => {
      dialog.close();
      // It is off the page by now, so the browser no longer gives the focus back.
      focusAgain(before);
    };
  }, []);
  const close = (event) => {
    event.preventDefault();
    onClose?.();
  };
  // At a second Escape in a row a browser asks nobody, and closes it.
  const closed = () => (onClose ? own.current && onClose() : own.current?.showModal());
  return html`<dialog ref=${own} aria-labelledby="dialog-title" onCancel=${close} onClose=${closed}>
    <h2 id="dialog-title">${title}</h2>
    ${children}
  </dialog>`;
}

/** What a form does: `act`, once at a time; `onDone` gets its answer, and where there is none the form stays. */
function useSubmit(act, onDone) {
  const [state, setState] = useState({ busy: false, error: null });
  const run = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try {
      onDone(await act());
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  return { ...state, run };
}

/**
 * Asks before `act` (a function that answers with a sentence) is done. `onDone` gets the sentence; `ready`: it may be done.
 * Until the answer is here it can't be closed, and `onStop`, if given, ends `act` early.
 */
export function Confirm({ title, children, label, act, ready = true, onStop, onDone, onClose }) {
  const { signedIn, acts, tokenSet } = useAccess();
  const { busy, error, run } = useSubmit(act, onDone);
  if (tokenSet === false) return html`<${Impossible} title=${title} onClose=${onClose} />`;
  if (!signedIn || acts === false) return html`<${SignIn} acting why=${`To ${label.toLowerCase()}, show the admin token first.`} onClose=${onClose} onDone=${() => {}} />`;
  return html`<${Dialog} title=${title} onClose=${busy ? null : onClose}>
    <form onSubmit=${run}>
      <div class="says">${children}</div>
      ${error && html`<${Callout} tone="bad" role="alert"><p>${explained(error)}</p></${Callout}>`}
      <div class="buttons">
        ${busy && onStop ? html`<${Stop} onStop=${onStop} />` : html`<button type="button" disabled=${busy} onClick=${onClose}>Keep as it is</button>`}
        <button type="submit" class="act" disabled=${busy || !ready}>${busy ? "Asking …" : label}</button>
      </div>
    </form>
  </${Dialog}>`;
}

function Stop({ onStop }) {
  const [stopped, setStopped] = useState(false);
  const stop = () => {
    setStopped(true);
    onStop();
  };
  return html`<button type="button" disabled=${stopped} onClick=${stop}>${stopped ? "Stopping …" : "Stop"}</button>`;
}

function explained(error) {
  if (!(error instanceof Trouble)) return String(error);
  return error.status === 0 ? `${error.message} Whether it was done is not known: look before you do it again.` : error.message;
}

function Impossible({ title, onClose }) {
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <p>This router has no admin token, so it does nothing for anybody. Set <code>FRAMEHOLD_ADMIN_TOKEN</code> on routers and nodes, and start them again.</p>
    <div class="buttons"><button type="button" onClick=${onClose}>Close</button></div>
  </${Dialog}>`;
}

/** Asks for a token; `acting`: for the admin token. */
export function SignIn({ why, acting = false, onClose, onDone }) {
  const { signIn } = useAccess();
  const field = useRef(null);
  const { busy, error, run } = useSubmit(() => signIn(field.current.value.trim(), acting), onDone);
  return html`<${Dialog} title="Admin token" onClose=${onClose}>
    <form onSubmit=${run}>
      <p>${why} It is what <code>FRAMEHOLD_ADMIN_TOKEN</code> was set to, or what <code>framehold up</code> printed. It is kept until this tab is closed.</p>
      <label for="token">Token</label>
      <input id="token" ref=${field} type="password" autocomplete="current-password" required spellcheck=${false} />
      ${error && html`<${Callout} tone="bad" role="alert"><p>${error.message}</p></${Callout}>`}
      <div class="buttons">
        <button type="button" onClick=${onClose}>Not now</button>
        <button type="submit" class="act" disabled=${busy}>Sign in</button>
      </div>
    </form>
  </${Dialog}>`;
}
