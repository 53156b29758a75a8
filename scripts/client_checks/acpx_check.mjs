// `acpx`, a headless client of the Agent Client Protocol, with `swarm acp` as its agent: one prompt whose turn thinks, runs a command
// and edits a file. Arguments: the swarm command, an empty folder to work in.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

const [swarm, folder] = process.argv.slice(2);
const work = path.join(folder, "acpx-work");
const home = path.join(folder, "acpx-home");
const script = path.join(folder, "acpx-answers.yaml");
fs.mkdirSync(work);
fs.mkdirSync(home);
const patch = "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** End Patch";
fs.writeFileSync(
  script,
  JSON.stringify({
    turns: [
      { agent: "/root", reasoning: "a look first", calls: [{ name: "exec_command", arguments: { cmd: "echo hi" } }] },
      { agent: "/root", calls: [{ name: "apply_patch", custom: true, arguments: patch }] },
      { agent: "/root", text: "It prints hi." },
    ],
  }),
);
fs.writeFileSync(path.join(home, "config.toml"), `model_provider = ${JSON.stringify(`scripted:${script}`)}\n`);
const out = execFileSync(
  process.execPath,
  ["node_modules/acpx/dist/cli.js", "--cwd", work, "--agent", `'${swarm}' acp`, "--approve-all", "exec", "What does it print?"],
  { env: { ...process.env, SWARM_HOME: home, HOME: home }, encoding: "utf8", timeout: 60_000 },
);
for (const words of ["a look first", "echo hi (completed)", "Edit a.txt (completed)", "It prints hi.", "end_turn"]) {
  assert.ok(out.includes(words), `${words} is missing in:\n${out}`);
}
assert.equal(fs.readFileSync(path.join(work, "a.txt"), "utf8"), "hello\n");
console.log("acpx: a prompt with thoughts, a command and a patch, over the Agent Client Protocol");
