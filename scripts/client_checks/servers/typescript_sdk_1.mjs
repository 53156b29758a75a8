// A server of the TypeScript SDK's first line, as its README writes one. Arguments: the SDK's folder below node_modules, then `http`
// or the file to write at the end.
import { randomUUID } from "node:crypto";
import { addTools, ownParts, saveAtEnd, serveHttp } from "./typescript_tools.mjs";

const [name, place] = process.argv.slice(2);
const { McpServer } = await import(`${name}/server/mcp.js`);
const { StdioServerTransport } = await import(`${name}/server/stdio.js`);
const { StreamableHTTPServerTransport } = await import(`${name}/server/streamableHttp.js`);
const { version, zod } = ownParts(name);

function newServer() {
  const server = new McpServer({ name: "typescript", version }, { capabilities: { logging: {} } });
  addTools(
    (tool, description, inputSchema, outputSchema, run) => {
      const tell = (extra) => (progress, total, message) => {
        const progressToken = extra._meta?.progressToken;
        return extra.sendNotification({ method: "notifications/progress", params: { progress, total, message, progressToken } });
      };
      const about = { description, ...(inputSchema && { inputSchema }), ...(outputSchema && { outputSchema }) };
      const called = inputSchema ? (given, extra) => run(given, tell(extra)) : (extra) => run({}, tell(extra));
      server.registerTool(tool, about, called);
    },
    zod,
    version,
  );
  return server;
}

// The pattern of the SDK's example: a transport for each session, in a table of this process.
const sessions = new Map();
async function handle(request, response) {
  const session = request.headers["mcp-session-id"];
  if (sessions.has(session)) return await sessions.get(session).handleRequest(request, response);
  if (session !== undefined) {
    const error = { code: -32000, message: "Bad Request: No valid session ID provided" };
    response.writeHead(400, { "content-type": "application/json" });
    return response.end(JSON.stringify({ jsonrpc: "2.0", error, id: null }));
  }
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  await newServer().connect(transport);
  return await transport.handleRequest(request, response);
}

if (place === "http") await serveHttp(handle);
else {
  saveAtEnd(place);
  await newServer().connect(new StdioServerTransport());
}
