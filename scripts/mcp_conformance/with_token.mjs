// Passes requests on to `swarm mcp-server --http` with its token, which the suite cannot send.
// Usage: with_token.mjs PORT TOKEN. Prints its own port. Host and Origin stay what the suite says, but for the port.
import http from "node:http";

const [port, token] = process.argv.slice(2);
const proxy = http.createServer((request, response) => {
  const own = String(proxy.address().port);
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  for (const name of ["host", "origin"]) if (headers[name]) headers[name] = headers[name].replace(`:${own}`, `:${port}`);
  const onward = http.request({ host: "127.0.0.1", port, path: request.url, method: request.method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  request.pipe(onward);
});
proxy.listen(0, "127.0.0.1", () => console.log(proxy.address().port));
