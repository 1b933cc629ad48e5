/**
 * Pause a tool and resume it, and which tools are paused.
 *
 * The law: the dialog says first what becomes of the calls of this very tool.
 */
import { act } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { useLive } from "../lib/live.js";
import { Confirm } from "./dialog.js";
import { Name } from "./name.js";
import { Callout } from "./notice.js";
import { Card } from "./page.js";
import { Table } from "./table.js";
import { Ago } from "./time.js";
import { sentence } from "./sentence.js";

/** Asks before `tool` is paused, or resumed (`what`). `onDone` gets the sentence that came of it. */
export function OnTool({ what, tool, onDone, onClose }) {
  const send = () => act(`tools/${what}`, { tool });
  const [title, label, About] = what === "pause" ? [`Pause ${tool}?`, "Pause the tool", Stops] : [`Resume ${tool}?`, "Resume the tool", GoesOn];
  return html`<${Confirm} title=${title} label=${label} act=${send} onDone=${onDone} onClose=${onClose}><${About} tool=${tool} /></${Confirm}>`;
}

const Stops = ({ tool }) => html`
  <p>All nodes refuse new calls of <${Name} text=${tool} />, and their clients are told that it is paused.</p>
  <ul class="points">
    <li>rounds that run go on to their end;</li>
    <li>parked calls wait: their clients are asked to come back later. One whose token expires meanwhile is over.</li>
  </ul>
  <p>It stays paused, whatever is restarted, until somebody resumes it.</p>`;

const GoesOn = ({ tool }) => html`<p>New calls of <${Name} text=${tool} /> are taken again, and parked ones go on at their clients' next retries.</p>`;

/** The button of a call's tool. `onAsk` gets what is wanted: pause or resume. */
export function PauseButton({ tool, onAsk }) {
  const { overview } = useLive();
  const paused = (overview?.paused ?? []).some((one) => one.tool === tool);
  return paused
    ? html`<button type="button" title="Take calls of it again" onClick=${() => onAsk("resume")}>Resume tool</button>`
    : html`<button type="button" title="Refuse new calls of it on all nodes, and let the others wait" onClick=${() => onAsk("pause")}>Pause tool</button>`;
}

const BY = { operator: "an operator", framehold: "itself" };

/** The paused tools, each with the way back; nothing where there is none. */
export function Paused({ paused = [] }) {
  const [wanted, setWanted] = useState(null);
  const [message, setMessage] = useState("");
  const done = (text) => {
    setMessage(text);
    setWanted(null);
  };
  const columns = [
    { name: "Tool", head: true, cell: ({ tool }) => html`<${Name} text=${tool} />` },
    { name: "Paused", cell: ({ at }) => html`<${Ago} at=${at} />` },
    { name: "By", cell: ({ by }) => BY[by] ?? by },
    { name: "Why", cell: ({ why }) => html`<${Name} text=${why || "–"} />` },
    { name: "Action", cell: ({ tool }) => html`<button type="button" aria-label=${`Resume ${tool}`} onClick=${() => setWanted(tool)}>Resume</button>` },
  ];
  return html`
    <div role="status">${message && html`<${Callout} tone="good"><p>${sentence(message)}</p></${Callout}>`}</div>
    ${paused.length > 0 && html`<${Card} title="Paused tools"><${Table} label="Paused tools" columns=${columns} rows=${paused} keyOf=${({ tool }) => tool} /></${Card}>`}
    ${wanted && html`<${OnTool} what="resume" tool=${wanted} onDone=${done} onClose=${() => setWanted(null)} />`}`;
}
