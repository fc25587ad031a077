/** Tests retries against a server that fails as a test says. */

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Client, ProblemError, UnreachableError } from "../src/index.js";

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const MESSAGE = JSON.stringify({ topic: "t", id: "made", state: "waiting" });
const accept: Answer = (_, response) =>
  void response.writeHead(201, { "content-type": "application/json" }).end(MESSAGE);
const breakOff: Answer = (request) => void request.socket.destroy();
const breakOffInTheBody: Answer = (_, response) => {
  response.writeHead(201, { "content-type": "application/json", "content-length": 999 });
  response.write(MESSAGE.slice(0, 5), () => response.destroy());
};
const never: Answer = () => {};

function refuse(status: number, headers: Record<string, string> = {}): Answer {
  return (_, response) => {
    const problem = { type: "urn:problem-type:delaybridge:unavailable", title: "t", status, detail: "d", errors: [] };
    response.writeHead(status, { "content-type": "application/problem+json", ...headers }).end(JSON.stringify(problem));
  };
}

/** Runs `use` with a client of a server that gives these answers in turn. Returns the bodies of all requests. */
async function bodies(answers: Answer[], use: (client: Client) => Promise<unknown>): Promise<string[]> {
  const seen: string[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    seen.push(Buffer.concat(chunks).toString());
    (answers.shift() ?? assert.fail("one request too many"))(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  try {
    await use(new Client({ url: `http://127.0.0.1:${port}`, retries: 3, timeoutMs: 2_000 }));
    assert.equal(answers.length, 0, "a request is missing");
    return seen;
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("a send is repeated with the same id after each kind of failure", async () => {
  const seen = await bodies([breakOff, breakOffInTheBody, refuse(503), accept], (client) =>
    client.send("t", { body: 1 }),
  );
  assert.equal(new Set(seen).size, 1);
  assert.match(JSON.parse(seen[0] ?? "").id, /^[0-9a-f-]{36}$/);
});

test("a try that takes too long is repeated", async () => {
  assert.equal((await bodies([never, accept], (client) => client.send("t", { body: 1 }))).length, 2);
});

test("Retry-After is heeded", async () => {
  const began = performance.now();
  await bodies([refuse(429, { "retry-after": "1" }), accept], (client) => client.send("t", { body: 1 }));
  assert.ok(performance.now() - began >= 990);
});

test("a pull without retries is tried once", async () => {
  const once = (client: Client) => client.settleAndPull("t", { ack: [] }, {}, { retries: 0 });
  for (const failure of [refuse(429, { "retry-after": "1" }), refuse(503), breakOff]) {
    await bodies([failure], (client) => assert.rejects(once(client)));
  }
});

test("a wait of more than a minute is left to the caller", async () => {
  await bodies([refuse(503, { "retry-after": "61" })], (client) =>
    assert.rejects(client.send("t", {}), { status: 503 }),
  );
});

test("the last failure is thrown when the retries are used up", async () => {
  await bodies([breakOff, breakOff, breakOff, breakOff], (client) =>
    assert.rejects(client.send("t", { body: 1 }), UnreachableError),
  );
});

test("a call that would do more the second time is not repeated", async () => {
  const path = { topic: "t" };
  await bodies([breakOff, refuse(503)], async (client) => {
    await assert.rejects(client.api.DELETE("/v1/topics/{topic}/dead", { params: { path } }), UnreachableError);
    await assert.rejects(client.api.POST("/v1/messages:move", { body: { delay: "1h" } }), ProblemError);
  });
});

test("a request with an error of its own is not repeated", async () => {
  await bodies([refuse(422)], (client) => assert.rejects(client.send("t", {}), { status: 422 }));
});

for (const status of [200, 302, 404]) {
  test(`an answer of another server is named as such: ${status}`, async () => {
    const other: Answer = (_, response) =>
      void response.writeHead(status, { "content-type": "text/html", location: "/" }).end("<h1>welcome</h1>");
    await bodies([other], (client) =>
      assert.rejects(client.send("t", {}), { name: "UnexpectedAnswerError", status, message: /text\/html/ }),
    );
  });
}

test("a gateway without a bridge is tried again", async () => {
  const gateway: Answer = (_, response) => void response.writeHead(502, { "content-type": "text/html" }).end("bad");
  assert.equal((await bodies([gateway, accept], (client) => client.send("t", { body: 1 }))).length, 2);
});

test("a body of bytes is sent as base64", async () => {
  const view = new Uint8Array([0, 1, 255, 2]).subarray(1, 3);
  for (const body of [view, Buffer.from(view), view.slice().buffer]) {
    const [sent] = await bodies([accept], (client) => client.send("t", { body }));
    const { id, ...rest } = JSON.parse(sent ?? "");
    assert.deepEqual(rest, { body_base64: "Af8=" });
  }
});

for (const url of ["127.0.0.1:8080", "redis://127.0.0.1", "", "http://", "http://127.0.0.1?a=b"]) {
  test(`a wrong address is refused at once: ${url}`, () => {
    assert.throws(() => new Client({ url }), { name: "InvalidArgumentError", message: /^url: / });
  });
}

test("an aborted call ends at once", async () => {
  const abort = new AbortController();
  const stop: Answer = () => abort.abort();
  await bodies([stop], (client) =>
    assert.rejects(client.send("t", {}, { signal: abort.signal }), { name: "AbortError" }),
  );
});

test("a server that does not listen is unreachable", async () => {
  const client = new Client({ url: "http://127.0.0.1:1", retries: 0 });
  await assert.rejects(client.lookUp("t", "i"), /no answer to GET http:\/\/127\.0\.0\.1:1\/v1\/topics\/t\/messages\/i/);
});
