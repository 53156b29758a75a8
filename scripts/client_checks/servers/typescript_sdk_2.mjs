// A server of the TypeScript SDK's second line, for clients of all revisions. Arguments: `http`, or the file to write at the end.
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { addTools, ownParts, saveAtEnd, serveHttp } from "./typescript_tools.mjs";

const [place] = process.argv.slice(2);
const { version, zod: z } = ownParts("@modelcontextprotocol/server");

function newServer() {
  const server = new McpServer({ name: "typescript", version }, { capabilities: { logging: {} } });
  addTools(
    (tool, description, input, output, run) => {
      const tell = (ctx) => (progress, total, message) => {
        const progressToken = ctx.mcpReq._meta?.progressToken;
        return ctx.mcpReq.notify({ method: "notifications/progress", params: { progress, total, message, progressToken } });
      };
      const about = { description, ...(input && { inputSchema: z.object(input) }), ...(output && { outputSchema: z.object(output) }) };
      const called = input ? (given, ctx) => run(given, tell(ctx)) : (ctx) => run({}, tell(ctx));
      server.registerTool(tool, about, called);
    },
    z,
    version,
  );
  return server;
}

if (place === "http") {
  const handler = toNodeHandler(createMcpHandler(newServer));
  await serveHttp(async (request, response) => handler(request, response));
} else {
  saveAtEnd(place);
  serveStdio(newServer);
}
