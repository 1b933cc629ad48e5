/**
 * Parses server-sent events from the body of a response.
 *
 * The law: a message is delivered when it is complete, wherever its pieces were cut and however its lines end. A message
 * without a name or without a JSON object is left out. Messages of one piece are delivered together, so that the page is
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
  const [name, data] = [of("event").at(-1), object(of("data").join("\n"))];
  return name && data ? { name, data } : null;
}

function object(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
