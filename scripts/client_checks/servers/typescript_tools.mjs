// The tools that the TypeScript servers offer, each a thing that clients were seen to get wrong. And what they share besides.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

export const LONG = Array.from({ length: 4000 }, (_, line) => `line ${line} of a long text, which goes on and on`).join("\n");
const RESTART = 75;
export const state = { transport: "stdio", mustRestart: false };

// The zod of an SDK's own version, and that version.
export function ownParts(name) {
  const folder = path.join(import.meta.dirname, "..", "node_modules", name);
  const { version } = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
  return { version, zod: createRequire(path.join(folder, "index.js"))("zod").z };
}

// `register(name, description, shape, outputShape, run)`; `run(args, tell)` gives a result, `tell(done, total, words)` reports.
export function addTools(register, z, version) {
  const said = (text) => ({ content: [{ type: "text", text }] });
  const shown = (value) => said(JSON.stringify(value));
  const node = z.object({ name: z.string(), children: z.array(z.lazy(() => node)).optional() });
  register("nothing", "No arguments", undefined, undefined, () => said(`nothing needed, says ${version}`));
  register("maybe", "All optional", { note: z.string().optional() }, undefined, (given) => shown(given));
  register(
    "odd",
    "A schema that few write",
    {
      pair: z.tuple([z.number(), z.string()]),
      tree: node,
      either: z.union([z.number(), z.array(z.string()), z.null()]).optional(),
      more: z.record(z.string(), z.any()).default({}),
      bare: z.array(z.any()).optional(),
    },
    undefined,
    (given) => shown(given),
  );
  register("measure", "Structured", {}, { width: z.number(), unit: z.string() }, () => ({
    ...shown({ width: 3, unit: "m" }),
    structuredContent: { width: 3, unit: "m" },
  }));
  register("fails", "Always an error", {}, undefined, () => {
    throw new Error("it is out of paper");
  });
  register("long", "A long text", {}, undefined, () => said(LONG));
  register("slow", "Tells how far it is", {}, undefined, async (_, tell) => {
    for (const step of [1, 2, 3]) await tell(step, 3, `step ${step}`);
    return said("all steps");
  });
  register("leave", "Ends the server", {}, undefined, () => {
    if (state.transport === "stdio") process.exit(1);
    state.mustRestart = true;
    return said("the server starts anew");
  });
}

// Over stdio: what a server does that has something to save when its input ends.
export function saveAtEnd(file) {
  process.stdin.on("end", () => {
    setTimeout(() => {
      fs.writeFileSync(file, "saved");
      process.exit(0);
    }, 100);
  });
}

// Serve on the socket that LISTEN_FD names. After `leave` was answered the process ends, and whoever started it starts it again.
export async function serveHttp(handle) {
  const http = await import("node:http");
  state.transport = "http";
  const server = http.createServer((request, response) => {
    response.on("finish", () => state.mustRestart && process.exit(RESTART));
    handle(request, response).catch((error) => {
      console.error(error);
      response.headersSent || response.writeHead(500).end();
    });
  });
  server.listen({ fd: Number(process.env.LISTEN_FD) });
}
