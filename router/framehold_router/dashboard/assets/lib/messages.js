/**
 * Server-sent events, as they come in the body of an answer.
 *
 * The law: a message is told when it is whole, wherever its pieces were cut and whichever way its lines end. What has no
 * name or no JSON object is left out. What came together is told together, so that a page is drawn once for it.
 */
const BREAK = /\r\n\r\n|\n\n|\r\r/;
const LINE = /\r\n|\n|\r/;

/** Messages as `{name, data}`, a list for each piece that comes, until the body ends. Throws where it breaks. */
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
