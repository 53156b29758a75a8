// A client of the TypeScript SDK with `swarm mcp-server` as its server. Arguments: the SDK's folder below node_modules (or `2` for its
// second line), the swarm command, its options. Prints one JSON object: the tools, and the results of the calls.
const [name, swarm, ...options] = process.argv.slice(2);
const isNewest = name === "2";
const { Client } = await import(isNewest ? "@modelcontextprotocol/client" : `${name}/client/index.js`);
const { StdioClientTransport } = await import(isNewest ? "@modelcontextprotocol/client/stdio" : `${name}/client/stdio.js`);
const elicitation = isNewest ? "elicitation/create" : (await import(`${name}/types.js`)).ElicitRequestSchema;

// One client that never said it could be asked, and one that says so and then fails at every question.
async function run(capabilities) {
  const client = new Client({ name: "check", version: "1" }, { capabilities });
  let asked = 0;
  if (capabilities.elicitation) {
    client.setRequestHandler(elicitation, () => {
      asked += 1;
      throw new Error("no form can be shown here");
    });
  }
  await client.connect(new StdioClientTransport({ command: swarm, args: ["mcp-server", ...options], env: process.env, stderr: "inherit" }));
  const tools = (await client.listTools()).tools.map((tool) => tool.name);
  const called = await client.callTool({ name: "swarm_run", arguments: { task: "Clean." } });
  const status = await client.callTool({ name: "swarm_status" });
  await client.close();
  return { tools, asked, run: called.structuredContent, hasRuns: status.structuredContent.runs.length > 0 };
}
console.log(JSON.stringify([await run({}), await run({ elicitation: {} })]));
