/* The tool under test, as the TypeScript SDK's guide has its authors write it: it prints its port, and serves.
   Its argument is the handler's response mode, of which the SDK has one by default. What can be made once is made once: schema, question, codec. Its state is signed, as the SDK's own codec does it. */

import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import {
  acceptedContent,
  createMcpHandler,
  createRequestStateCodec,
  inputRequired,
  McpServer,
} from "@modelcontextprotocol/server";
import { z } from "zod";

const IDLE_MS = 300_000; // a connection waits for its turn while other servers are measured
const inputSchema = z.object({ location: z.string() });
const units = z.object({ units: z.string() });
const question = inputRequired.elicit({ message: "Which units?", requestedSchema: units });
const codec = createRequestStateCodec({ key: randomBytes(32) });

function server() {
  const made = new McpServer({ name: "bench", version: "0" }, { requestState: { verify: codec.verify } });
  made.registerTool("weather", { inputSchema }, async ({ location }, ctx) => {
    const answer = acceptedContent(ctx.mcpReq.inputResponses, "units", units);
    if (answer === undefined) {
      return inputRequired({ inputRequests: { units: question }, requestState: await codec.mint("asked units", ctx) });
    }
    return { content: [{ type: "text", text: `${location}: 21 ${answer.units}` }] };
  });
  return made;
}

const http = createServer(toNodeHandler(createMcpHandler(server, { responseMode: process.argv[2] })));
http.keepAliveTimeout = IDLE_MS;
http.listen(0, "127.0.0.1", () => console.log(http.address().port));
