/** Tests the verifier with callbacks of a running bridge. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { type Send, verifyCallback, WebhookError } from "../src/index.js";
import { client, freshTopic } from "./bridge.js";

const SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=";
const OTHER = "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=";

const receiver = createServer();
before(() => once(receiver.listen(0, "127.0.0.1"), "listening"));
after(() => {
  receiver.closeAllConnections();
  receiver.close();
});

/** Sends a message to a topic with a subscription. Returns the call that the receiver gets. */
async function callOf(message: Send): Promise<{ topic: string; headers: IncomingHttpHeaders; body: Buffer }> {
  const topic = freshTopic();
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
  const path = { topic };
  await client.api.PUT("/v1/topics/{topic}/subscription", { params: { path }, body: { url, secret: SECRET } });
  const called = once(receiver, "request");
  await client.send(topic, message);
  const [request, response] = await called;
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  response.writeHead(204).end();
  return { topic, headers: request.headers, body: Buffer.concat(chunks) };
}

test("a callback of the bridge is verified, and read", async () => {
  const { topic, headers, body } = await callOf({ id: "50% off", body: { n: 1 }, headers: { tenant: "t-7" } });

  const callback = verifyCallback(body, headers, [OTHER, SECRET]);

  const { id, attempt } = callback;
  assert.deepEqual([callback.topic, id, attempt, callback.headers], [topic, "50% off", 1, { tenant: "t-7" }]);
  assert.deepEqual(JSON.parse(callback.body.toString()), { n: 1 });
  assert.ok(Math.abs(callback.dueAt.getTime() - Date.now()) < 600_000);
  assert.equal(
    verifyCallback(body, new Headers(headers as Record<string, string>), SECRET).webhookId,
    callback.webhookId,
  );
});

test("a body of any bytes is verified, and each change of it is found", async () => {
  const bytes = Buffer.from([0, 255, 254, 128, 1]);
  const { headers, body } = await callOf({ body_base64: bytes.toString("base64"), content_type: "image/png" });

  assert.deepEqual(verifyCallback(body, headers, SECRET).body, bytes);
  const changed = Buffer.from([0, 255, 254, 129, 1]);
  assert.throws(() => verifyCallback(changed, headers, SECRET), WebhookError);
  assert.throws(() => verifyCallback(body, headers, OTHER), /webhook-signature is not that of any secret/);
  assert.throws(() => verifyCallback(body, { ...headers, "webhook-id": "x" }, SECRET), WebhookError);
});

test("a callback that is too old, or lacks a header, is refused", () => {
  const old = { "webhook-id": "w", "webhook-timestamp": "1700000000", "webhook-signature": "v1,x" };
  assert.throws(() => verifyCallback(Buffer.from(""), old, SECRET), /it must be at most 300 s from now/);
  assert.throws(() => verifyCallback(Buffer.from(""), {}, SECRET), /the header webhook-id is missing/);
});
