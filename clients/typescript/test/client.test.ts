/** Tests the calls of an application against a running bridge. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { ProblemError } from "../src/index.js";
import { client, freshTopic } from "./bridge.js";

test("a message is sent with a delay, looked up, moved and deleted", async () => {
  const topic = freshTopic();
  const sent = await client.send(topic, { id: "bill 7", body: { euros: 7 }, delay: "30d" });
  assert.deepEqual([sent.state, sent.body, sent.id], ["waiting", { euros: 7 }, "bill 7"]);
  assert.equal(Date.parse(sent.due_at) - Date.parse(sent.created_at), 30 * 86_400_000);

  const moment = new Date(Date.now() + 60 * 86_400_000);
  assert.equal((await client.move(topic, "bill 7", { deliver_at: moment })).due_at, moment.toISOString());
  assert.equal((await client.lookUp(topic, "bill 7")).due_at, moment.toISOString());
  assert.equal((await client.delete(topic, "bill 7")).state, "deleted");
});

test("a topic with a namespace is one topic in all calls", async () => {
  const topic = `${freshTopic()}/orders`;
  await client.send(topic, { body: 1 });
  const [leased] = await client.pull(topic, { wait: "60s" });
  assert.equal(leased?.topic, topic);
  assert.equal((await client.ack(leased)).state, "acked");
});

test("a date is the due moment", async () => {
  const moment = new Date(Date.now() + 3_600_000);
  const sent = await client.send(freshTopic(), { body: null, deliver_at: moment });
  assert.equal(sent.due_at, moment.toISOString());
});

test("a batch has a result for each message, and each message has an id", async () => {
  const results = await client.sendMany(freshTopic(), [
    { body: 1, delay: "1h" },
    { body: 2, delay: "1000d" },
  ]);
  assert.deepEqual(
    results.map((result) => result.status),
    [201, 422],
  );
  assert.match(results[0]?.message?.id ?? "", /^[0-9a-f-]{36}$/);
  assert.equal(results[1]?.error?.errors[0]?.field, "messages.1.delay");
});

test("a refused request names the field, the value and the limit", async () => {
  await assert.rejects(client.send(freshTopic(), { body: 1, delay: "soon" }), (error) => {
    assert.ok(error instanceof ProblemError);
    assert.deepEqual([error.status, error.kind, error.problem.errors[0]?.field], [422, "invalid-request", "delay"]);
    assert.match(error.message, /delay: must be an integer of milliseconds/);
    return true;
  });
});

test("a message that does not exist is a problem of the kind not-found", async () => {
  await assert.rejects(client.lookUp(freshTopic(), "nobody"), { name: "ProblemError", status: 404, kind: "not-found" });
});

test("a late ack is refused, as its receipt names another lease", async () => {
  const topic = freshTopic();
  await client.send(topic, { body: 1, max_retry: 3 });
  const [first] = await client.pull(topic, { wait: "60s", lease: "30s" });
  assert.ok(first);
  await client.nack(first, { delay: 0, reason: "try again" });
  const [second] = await client.pull([topic], { wait: "60s" });
  assert.ok(second);
  await assert.rejects(client.ack(first), { kind: "lease-ended" });
  assert.deepEqual([(await client.ack(second)).state, second.attempts], ["acked", 2]);
});

test("every other operation is called by its path", async () => {
  const topic = freshTopic();
  await client.api.PUT("/v1/topics/{topic}", { params: { path: { topic } }, body: { max_retry: 7 } });
  const { data } = await client.api.GET("/v1/topics/{topic}", { params: { path: { topic } } });
  assert.equal(data?.policy.max_retry, 7);
});
