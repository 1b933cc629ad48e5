/**
 * What an operator can do to all calls that the filters of a list let through.
 *
 * The law: the calls are read once, when one asks, and counted before anything is done. It is done to these calls alone,
 * after their number was typed, until one stops it or leaves, and what came of it is shown with numbers.
 */
import { act, part, read } from "../lib/api.js";
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { number, plural } from "../lib/words.js";
import { Confirm } from "./dialog.js";
import { Name } from "./name.js";
import { Problem } from "./notice.js";
import { keeps, stays } from "./oncall.js";

/** The API gives this many calls at most, and is asked to act on this many at once. */
const MOST = 1000;
const AT_ONCE = 8;
const TOOLS = 5;

const WAYS = {
  evict: {
    verb: "Evict", done: "Evicted", not: keeps,
    means: "Their frames are dropped, and their memory is free. Their journals stay: when its client next answers, each is replayed.",
  },
  cancel: {
    verb: "Cancel", done: "Cancelled", not: stays,
    means: "Their handlers are stopped where they stand, and their clients are told that an operator cancelled them. What they did stays done. There is no way back.",
  },
};

/** The buttons of a list; `total` is how many calls its filters let through. */
export const BulkButtons = ({ total, onAsk }) => Object.entries(WAYS).map(([what, { verb }]) => html`<button type="button" class=${what === "cancel" ? "danger" : ""} disabled=${!total} onClick=${() => onAsk(what)}>${verb} all ${number(total)} …</button>`);

/** How many there are of each value, the most first. */
function counted(values) {
  const found = new Map();
  for (const value of values) found.set(value, (found.get(value) ?? 0) + 1);
  return [...found].sort(([, one], [, other]) => other - one);
}

/** Do it to each of `calls`, a few at a time, until `signal` fires; `onStep` gets the number of those that are through. */
async function each(what, calls, signal, onStep) {
  const [waiting, errors] = [[...calls], []];
  const work = async () => {
    while (waiting.length > 0 && !signal.aborted) {
      await act(`leases/${part(waiting.shift().call_id)}/${what}`).catch((error) => errors.push(error));
      onStep(calls.length - waiting.length);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const refused = errors.filter(({ status }) => status !== 0);
  const unknown = errors.length - refused.length;
  return [
    `${WAYS[what].done} ${number(calls.length - errors.length - waiting.length)} of ${plural(calls.length, "call")}`,
    refused.length > 0 && `${plural(refused.length, "call was", "calls were")} not: ${refused[0].message}`,
    unknown > 0 && `of ${plural(unknown, "call")} it is not known`,
    waiting.length > 0 && `${plural(waiting.length, "call was", "calls were")} left alone: you stopped`,
  ].filter(Boolean).join("; ");
}

/** Asks before `what` is done to the calls that `params`, the filters of the list, let through. */
export function Bulk({ what, params, onDone, onClose }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const [typed, setTyped] = useState("");
  const [step, setStep] = useState(0);
  const end = useMemo(() => new AbortController(), []);
  useEffect(() => {
    read("leases", { ...params, after: undefined, limit: MOST }, end.signal).then(setFound, (trouble) => end.signal.aborted || setError(trouble));
    return () => end.abort();
  }, []);
  const { verb, not, means } = WAYS[what];
  const calls = found?.items.filter((call) => !not(call)) ?? [];
  const ready = calls.length > 0 && typed === String(calls.length);
  return html`<${Confirm} title=${`${verb} all that the filters let through?`} label=${`${verb} ${found ? plural(calls.length, "call") : "them"}`} ready=${ready}
    act=${() => each(what, calls, end.signal, setStep)} onStop=${() => end.abort()} onDone=${onDone} onClose=${onClose}>
    ${error && html`<${Problem} error=${error} />`}
    ${!found && !error && html`<p role="status">Counting …</p>`}
    ${found && html`<${Counts} found=${found} calls=${calls} not=${not} />
      ${calls.length > 0 && html`<p>${means}</p>
        <label>Type <b>${calls.length}</b> to go on
          <input inputmode="numeric" autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.currentTarget.value.trim())} /></label>`}`}
    ${step > 0 && html`<p role="status">${number(step)} of ${number(calls.length)} …</p>`}
  </${Confirm}>`;
}

function Counts({ found: { items, total }, calls, not }) {
  const tools = counted(calls.map(({ tool }) => tool));
  const others = counted(items.map(not).filter(Boolean));
  return html`
    <p><b>${plural(calls.length, "call")}</b>${calls.length > 0 && html`: ${tools.slice(0, TOOLS).map(([tool, count], n) => html`${n > 0 && ", "}${number(count)} of <${Name} text=${tool} />`)}${tools.length > TOOLS && `, and of ${plural(tools.length - TOOLS, "other tool")}`}`}.</p>
    ${total > items.length && html`<p>The filters let ${number(total)} through; this many can be done at once. Do it again for the others.</p>`}
    ${others.map(([why, count]) => html`<p>Not ${plural(count, "call")}: ${why}</p>`)}`;
}
