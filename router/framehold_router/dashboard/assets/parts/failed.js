/** The part of calls that ended with an error: as a number of a page, and in a table. */
import { html } from "../lib/html.js";
import { number, percent } from "../lib/words.js";
import { Stat } from "./stat.js";

/** More failed calls than this, and a larger share, need an operator: as the verdict and the alert FrameholdCallsFail say. */
const [FEW, LARGE] = [5, 0.2];
const isBad = (failed, share) => failed > FEW && share > LARGE;

/** Of the calls of the last ten minutes. `query` narrows the calls that it leads to. */
export function FailedStat({ failed, ended, query = {} }) {
  const share = ended ? failed / ended : null;
  const tone = failed ? (isBad(failed, share) ? "bad" : "warn") : undefined;
  return html`<${Stat} label="Failed calls" value=${percent(share)} note=${ended ? `${number(failed)} of ${number(ended)}, 10 min` : "none ended, 10 min"} tone=${tone} to=${[["calls"], { ...query, failed: "true" }]} />`;
}

export function FailedShare({ failed, ended }) {
  const share = ended ? failed / ended : null;
  return html`<span class=${isBad(failed, share) ? "bad-share" : undefined} title=${ended ? `${number(failed)} of ${number(ended)}` : "none ended"}>${percent(share)}</span>`;
}
