// Usage: node half_pairs.mjs PACKAGES URL COUNT
// Connects to URL as a 2026-07-28 client and calls `ask` COUNT times, one after the other. Each argument and each answer
// is a text that was cut inside of an emoji. Prints what each call said, as one line of JSON. PACKAGES is the folder
// that holds node_modules: this file lies outside it.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [packages, url, count] = process.argv.slice(2);
const resolve = createRequire(pathToFileURL(`${packages}/package.json`)).resolve;
const sdk = await import(pathToFileURL(resolve('@modelcontextprotocol/client')));

const cut = text => `${text}😀`.slice(0, -1);
const client = new sdk.Client(
    { name: 'framehold-peer', version: '1' },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } }
);
client.setRequestHandler('elicitation/create', async request => ({
    action: 'accept',
    content: { word: cut(request.params.message), n: 1 }
}));

await client.connect(new sdk.StreamableHTTPClientTransport(new URL(url)));
const said = [];
for (let number = 0; number < Number(count); number++) {
    try {
        const result = await client.callTool({ name: 'ask', arguments: { value: cut(`${number} `) } });
        said.push(result.content[0].text);
    } catch (error) {
        said.push(String(error));
    }
}
await client.close();
console.log(JSON.stringify(said));
