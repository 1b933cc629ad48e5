/**
 * The playground: call a tool, a prompt or a resource of this fleet, answer what it asks, and see where its rounds run.
 *
 * The law: nothing is called before one says so. What is shown of a server is text. The call outlives this page, not its tab.
 */
import { setQuery, useAddress } from "../lib/address.js";
import { useAccess } from "../lib/api.js";
import { html } from "../lib/html.js";
import { usePlaying } from "../lib/playing.js";
import { Present } from "../parts/calling.js";
import { Callout, Empty, Loading } from "../parts/notice.js";
import { Choose, useOffered } from "../parts/offered.js";
import { Card, Page } from "../parts/page.js";

const LEAD = "Call what this fleet serves, answer what it asks, and see which node runs each round.";

export default function Playground() {
  const { playground } = useAccess();
  return html`<${Page} title="Playground" lead=${LEAD}>${playground === "off" ? html`<${Off} />` : html`<${On} />`}</${Page}>`;
}

const Off = () => html`<${Card} label="Playground"><${Empty} title="The playground of this router is off">
  It calls tools, and a tool may do anything. <code>framehold up</code> switches it on. On a fleet of your own set <code>FRAMEHOLD_PLAYGROUND=call</code> on the routers.
</${Empty}></${Card}>`;

function On() {
  const { query } = useAddress();
  const { data, error, again } = useOffered();
  const call = usePlaying();
  const choose = (kind, name) => setQuery({ kind, name }, { replace: true });
  return html`<div class="columns playground">
    <div class="side-by">
      ${error && html`<${Callout} tone="bad" role="alert" title="What is served can't be listed"><p>${error.message}</p><p><button type="button" onClick=${again}>Try again</button></p></${Callout}>`}
      ${data === null && !error && html`<${Loading} what="what is served" />`}
      ${data !== null && html`<${Choose} offered=${data} kind=${query.kind} name=${query.name} onChoose=${choose} again=${again} call=${call} />`}
    </div>
    <${Present} call=${call} />
  </div>`;
}
