// The examples of the README of @openai/codex-sdk, with swarm as its executable: run, runStreamed, structured output, images,
// resume, abort, and what goes wrong. Arguments: the swarm command, an empty folder to work in.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { Codex } from "@openai/codex-sdk";

const [swarm, folder] = process.argv.slice(2);
const work = path.join(folder, "work");
const script = path.join(folder, "answers.yaml");
fs.mkdirSync(work);
execFileSync("git", ["init", "-q", work]);
const pixel = path.join(folder, "pixel.png");
fs.writeFileSync(
  pixel,
  Buffer.from(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "base64",
  ),
);
const usage = { input_tokens: 10, output_tokens: 5 };
const call = (cmd) => [{ name: "exec_command", arguments: { cmd } }];
fs.writeFileSync(
  script,
  JSON.stringify({
    turns: [
      { agent: "/root", reasoning: "a look first", calls: call("echo hi"), usage },
      { agent: "/root", text: "It prints hi.", usage },
      { agent: "/root", text: "again: {last_user}", usage },
      { agent: "/root", text: '{"summary": "fine"}', usage },
      { agent: "/root", text: "a pixel", usage },
      { agent: "/root", calls: call("sleep 60") },
      { agent: "/root", text: "gone on" },
      { agent: "/root", fault: { status: 400, message: "no such thing" } },
    ],
  }),
);
const codex = new Codex({
  codexPathOverride: swarm,
  apiKey: "sk-none-0123456789abcdef",
  env: { ...process.env, SWARM_HOME: path.join(folder, "home") },
  config: { model_provider: `scripted:${script}`, sandbox_workspace_write: { network_access: false } },
});
const options = { workingDirectory: work, modelReasoningEffort: "low", webSearchMode: "disabled", approvalPolicy: "never" };
const thread = codex.startThread({ ...options, sandboxMode: "workspace-write", threadSource: "user" });

// runStreamed: exactly these events, in this order
const seen = [];
const { events } = await thread.runStreamed("What does it print?");
for await (const event of events) seen.push(event);
const kinds = seen.map((event) => event.item ? `${event.type} ${event.item.type}` : event.type);
assert.deepEqual(kinds, [
  "thread.started", "turn.started", "item.completed reasoning", "item.started command_execution",
  "item.completed command_execution", "item.completed agent_message", "turn.completed",
]);
assert.deepEqual(Object.keys(seen[4].item).sort(), ["aggregated_output", "command", "exit_code", "id", "status", "type"]);
assert.deepEqual([seen[4].item.aggregated_output, seen[4].item.exit_code, seen[4].item.status], ["hi\n", 0, "completed"]);
assert.equal(seen[3].item.id, seen[4].item.id);
assert.equal(seen.at(-1).usage.input_tokens, 20);

// run: the same thread goes on, and usage counts on
let turn = await thread.run("And now?");
assert.equal(turn.finalResponse, "again: And now?");
assert.equal(turn.usage.input_tokens, 30);

// structured output, on a thread that another process resumes by its id; an option that is not known yet
const again = codex.resumeThread(thread.id, options);
const schema = { type: "object", properties: { summary: { type: "string" } }, required: ["summary"], additionalProperties: false };
turn = await again.run("Summarize.", { outputSchema: schema, cyberAccessProgram: "standard" });
assert.deepEqual(JSON.parse(turn.finalResponse), { summary: "fine" });

// images
turn = await again.run([{ type: "text", text: "What is this?" }, { type: "local_image", path: pixel }]);
assert.equal(turn.finalResponse, "a pixel");

// abort: the command ends, and the thread can be resumed
const stop = new AbortController();
const aborted = await again.runStreamed("Sleep.", { signal: stop.signal });
await assert.rejects(async () => {
  for await (const event of aborted.events) if (event.type === "item.started") stop.abort();
}, { name: "AbortError" });
const env = { ...process.env, SWARM_HOME: path.join(folder, "home") };
while (String(execFileSync(swarm, ["ps", "--json"], { env })).includes('"state":"running"')) {
  await new Promise((done) => setTimeout(done, 100)); // it ends in order
}
assert.equal((await again.run("Go on.")).finalResponse, "gone on");

// errors: of the model, of the thread's id, of the folder, of a prompt over the limit
await assert.rejects(again.run("Fail."), /no such thing/);
await assert.rejects(codex.resumeThread("00000000-none", options).run("x"), /no run '00000000-none'/);
await assert.rejects(codex.startThread({ workingDirectory: folder }).run("x"), /not inside a git repository/);
await assert.rejects(codex.startThread(options).run("x".repeat(50 << 20)), /over 1 MiB/);
await assert.rejects(codex.startThread(options).run(""), /empty/);
console.log("codex-sdk: run, runStreamed, structured output, images, resume, abort and five errors as its README says");
