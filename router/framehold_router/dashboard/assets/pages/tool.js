/** One tool: how it does now and over time, whom it keeps waiting, and pause and resume. */
import { Link } from "../lib/address.js";
import { useRead } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { bytes, number, rate, seconds, span } from "../lib/words.js";
import { FailedStat } from "../parts/failed.js";
import { History } from "../parts/history.js";
import { Name } from "../parts/name.js";
import { Callout, Empty, LastAnswer, Loading, Problem } from "../parts/notice.js";
import { Page } from "../parts/page.js";
import { OnTool, PauseButton } from "../parts/pause.js";
import { Stat, Stats } from "../parts/stat.js";
import { State } from "../parts/state.js";
import { Ago } from "../parts/time.js";
import { sentence } from "../parts/sentence.js";

const EVERY = 5_000;

const CHARTS = [
  { label: "Rounds", series: [{ name: "per second", of: "rounds", hue: 2, area: true }], write: rate },
  { label: "Failed calls", series: [{ name: "per second", of: "failed", hue: 6, area: true }], write: rate },
  { label: "Round", series: [{ name: "p50", of: "p50", hue: 1 }, { name: "p99", of: "p99", hue: 3 }], write: seconds, logarithmic: true },
  { label: "Parked calls", series: [{ name: "parked", of: "parked", hue: 1, area: true }], write: number, whole: true },
  { label: "Thinking time", series: [{ name: "p50", of: "think", hue: 4 }], write: seconds, logarithmic: true },
  { label: "Refused", series: [{ name: "per second", of: "refused", hue: 3, area: true }], write: rate },
];

const Back = () => html`<p class="back"><${Link} to=${["tools"]}>Tools</${Link}></p>`;

export default function Tool({ about: tool }) {
  const { data, error, again } = useRead("tools", { tool }, { every: EVERY });
  const [wanted, setWanted] = useState(null);
  const [message, setMessage] = useState("");
  const done = (text) => {
    setMessage(text);
    setWanted(null);
    again();
  };
  const back = html`<${Back} />`;
  if (data === null) return html`<${Page} title=${tool} back=${back}>${error ? html`<${Problem} error=${error} again=${again} />` : html`<${Loading} what="the tool" />`}</${Page}>`;
  const [found] = data.tools;
  if (!found) return html`<${Page} title=${tool} name=${html`<bdi>${tool}</bdi>`} back=${back}><${Empty} title="No node tells of a tool of this name">See <${Link} to=${["tools"]}>all tools</${Link}>, or <${Link} to=${["calls"]} query=${{ tool }}>calls of it that ended</${Link}>.</${Empty}></${Page}>`;
  const actions = html`<${Link} to=${["calls"]} query=${{ tool }}>Ended calls</${Link}> <${Link} to=${["leases"]} query=${{ tool }}>Open calls</${Link}> <${PauseButton} tool=${tool} onAsk=${setWanted} />`;
  return html`<${Page} title=${tool} name=${html`<bdi>${tool}</bdi>${found.paused && html` <${State} name="paused" />`}`} back=${back} actions=${actions}>
    <${LastAnswer} error=${error} again=${again} />
    <div role="status">${message && html`<${Callout} tone="good"><p>${sentence(message)}</p></${Callout}>`}</div>
    ${found.paused && html`<${Callout} tone="warn" title=${html`It is paused since <${Ago} at=${found.paused.at} />`}><p>${found.paused.why ? html`<${Name} text=${found.paused.why} />` : "New calls of it are refused; parked ones wait."}</p></${Callout}>`}
    <${Numbers} of=${found} />
    <${History} params=${{ tool }} charts=${CHARTS} />
    ${wanted && html`<${OnTool} what=${wanted} tool=${tool} onDone=${done} onClose=${() => setWanted(null)} />`}
  </${Page}>`;
}

function Numbers({ of: { tool, rounds_per_second: now, ended, failed, p50, p99, call_p50, call_p99, think_p50: think, parked, oldest, journal, replays, diverged, refused } }) {
  return html`<${Stats} label="The tool in numbers">
    <${Stat} label="Rounds/s" value=${rate(now)} note="last minute" />
    <${FailedStat} failed=${failed} ended=${ended} query=${{ tool }} />
    <${Stat} label="Round p99" value=${seconds(p99)} note=${`p50 ${seconds(p50)}`} title="Of the requests of the last ten minutes." />
    <${Stat} label="Whole call p99" value=${seconds(call_p99)} note=${`p50 ${seconds(call_p50)}`} title="From the beginning of a call to its end, users' thinking time included, in the last hour." />
    <${Stat} label="Thinking time" value=${seconds(think)} note="median, last hour" title="How long users take for an answer." />
    <${Stat} label="Parked calls" value=${number(parked)} note=${parked ? `oldest ${span(oldest)}` : "none waits"} to=${[["leases"], { tool, state: "parked" }]} />
    <${Stat} label="Journals" value=${bytes(journal)} note="of parked calls" />
    <${Stat} label="Replays" value=${number(replays)} note=${diverged ? `${number(diverged)} failed, last hour` : "last hour"} tone=${diverged ? "bad" : undefined} />
    <${Stat} label="Refused" value=${number(refused)} note="requests, 10 min" tone=${refused ? "warn" : undefined} />
  </${Stats}>`;
}
