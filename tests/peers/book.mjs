// Usage: node book.mjs PACKAGES URL MODE
// Connects to URL, negotiating as MODE says (auto, legacy, or a version to be pinned to), calls `book`, answers each
// question, prints one line of JSON. PACKAGES is the folder that holds node_modules: this file lies outside it.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [packages, url, mode] = process.argv.slice(2);
const resolve = createRequire(pathToFileURL(`${packages}/package.json`)).resolve;
const sdk = await import(pathToFileURL(resolve('@modelcontextprotocol/client')));

const wishes = { guests: 4, evening: 'saturday', place: 'garden', candles: true, name: 'Ana' };
const asked = [];

const client = new sdk.Client(
    { name: 'framehold-peer', version: '1' },
    {
        capabilities: { elicitation: { form: {} } },
        versionNegotiation: { mode: mode.startsWith('2') ? { pin: mode } : mode }
    }
);
client.setRequestHandler('elicitation/create', async request => {
    const fields = Object.keys(request.params.requestedSchema.properties);
    asked.push(fields);
    return { action: 'accept', content: Object.fromEntries(fields.map(field => [field, wishes[field]])) };
});

await client.connect(new sdk.StreamableHTTPClientTransport(new URL(url)));
try {
    const result = await client.callTool({ name: 'book', arguments: { restaurant: 'Luna' } });
    const version = client.getNegotiatedProtocolVersion();
    console.log(JSON.stringify({ version, asked, isError: result.isError ?? false, content: result.content }));
} finally {
    await client.close();
}
