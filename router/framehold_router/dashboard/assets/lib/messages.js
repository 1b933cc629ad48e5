/**
 * Parses server-sent events from the body of a response.
 *
 * The law: a message is delivered when it is complete, wherever its pieces were cut and however its lines end. A message
 * without a JSON object is left out; without a name its name is "message", as the standard has it. Messages of one piece are delivered together, so that the page is
 * drawn once for them.
 */
const BREAK = /\r\n\r\n|\n\n|\r\r/;
const LINE = /\r\n|\n|\r/;

/** Messages as `{name, data}`, a list for each piece that comes, until the body ends. Throws if it breaks off. */
export async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const found = (text + value).split(BREAK);
    text = found.pop();
    yield found.map(parsed).filter(Boolean);
  }
}

function parsed(message) {
  const fields = message.split(LINE).map((line) => /^(event|data): ?(.*)$/.exec(line)).filter(Boolean);
  const of = (wanted) => fields.filter(([, name]) => name === wanted).map(([, , value]) => value);
  const data = object(of("data").join("\n"));
  return data ? { name: of("event").at(-1) || "message", data } : null;
}

/** The object that a text of JSON holds; null if it holds none. */
export function object(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
