// Usage: node three_rounds.mjs PACKAGES URL
// Connects to URL as a 2026-07-28 client, calls `plan_trip`, answers each question, prints one line of JSON.
// PACKAGES is the folder that holds node_modules: this file lies outside it, so bare imports would not resolve.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [packages, url] = process.argv.slice(2);
const resolve = createRequire(pathToFileURL(`${packages}/package.json`)).resolve;
const sdk = await import(pathToFileURL(resolve('@modelcontextprotocol/client')));

const answers = { place: 'Lisbon', nights: 3, quiet: true };
const asked = [];

const client = new sdk.Client(
    { name: 'framehold-peer', version: '1' },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } }
);
client.setRequestHandler('elicitation/create', async request => {
    const fields = Object.keys(request.params.requestedSchema.properties);
    asked.push({ message: request.params.message, fields });
    return { action: 'accept', content: Object.fromEntries(fields.map(field => [field, answers[field]])) };
});

await client.connect(new sdk.StreamableHTTPClientTransport(new URL(url)));
try {
    const result = await client.callTool({ name: 'plan_trip', arguments: { traveller: 'Ana' } });
    console.log(JSON.stringify({ asked, isError: result.isError ?? false, content: result.content }));
} finally {
    await client.close();
}
