/** Tests the consumer against a running bridge. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Consumer } from "../src/consumer.js";
import { type ConsumerOptions, type Handler, type Leased, type LeaseOf, RetryLater } from "../src/index.js";
import type { Leases } from "../src/leases.js";
import { client, freshTopic } from "./bridge.js";

/** Consumes until the handler calls `stop`. Returns the failures that were told. */
async function consume(
  topic: string,
  handler: (message: Leased, stop: () => void, signal: AbortSignal) => unknown,
  options: ConsumerOptions = {},
): Promise<unknown[]> {
  const end = new AbortController();
  const told: unknown[] = [];
  const stopping: Handler = (message, { signal }) => handler(message, () => end.abort(), signal);
  await client.consume(topic, stopping, { onError: (error) => told.push(error), ...options, signal: end.signal });
  return told;
}

test("messages are handled side by side up to the concurrency, and each is acked", async () => {
  const topic = freshTopic();
  await client.sendMany(
    topic,
    Array.from({ length: 30 }, (_, n) => ({ id: `m-${n}`, body: n })),
  );
  const [seen, running] = [new Set<string>(), { now: 0, most: 0 }];

  const told = await consume(
    topic,
    async (message, stop) => {
      running.most = Math.max(running.most, ++running.now);
      await sleep(20);
      running.now--;
      if (seen.add(message.id).size === 30) stop();
    },
    { concurrency: 8 },
  );

  assert.deepEqual(told, []);
  assert.ok(running.most > 1 && running.most <= 8, `${running.most} at once`);
  const { data } = await client.api.GET("/v1/topics/{topic}", { params: { path: { topic } } });
  assert.equal(data?.counts.acked, 30);
});

test("a lease is extended while its handler runs", async () => {
  const topic = freshTopic();
  await client.send(topic, { id: "long", body: 1, max_retry: 0 });
  let deliveries = 0;

  const told = await consume(
    topic,
    async (_, stop) => {
      deliveries++;
      await sleep(3_000);
      stop();
    },
    { leaseMs: 2_000, concurrency: 2 },
  );

  assert.deepEqual([told, deliveries], [[], 1]);
  assert.equal((await client.lookUp(topic, "long")).state, "acked");
});

test("a handler that throws gives its message back with the reason", async () => {
  const topic = freshTopic();
  await client.send(topic, { id: "refused", body: 1, max_retry: 0 });

  const told = await consume(topic, (_, stop) => {
    stop();
    throw new TypeError("card refused");
  });

  const message = await client.lookUp(topic, "refused");
  assert.deepEqual([message.state, message.reason, told.length], ["dead", "TypeError: card refused", 1]);
});

test("a handler chooses the next delivery", async () => {
  const topic = freshTopic();
  await client.send(topic, { id: "later", body: 1, max_retry: 3 });

  await consume(topic, (_, stop) => {
    stop();
    throw new RetryLater("2h", "the shop is closed");
  });

  const message = await client.lookUp(topic, "later");
  assert.equal(message.state, "waiting");
  assert.ok(Date.parse(message.due_at) - Date.parse(message.created_at) > 7_000_000);
});

test("a handler whose lease is lost is told so", async () => {
  const topic = freshTopic();
  await client.send(topic, { id: "gone", body: 1 });

  const told = await consume(
    topic,
    async (message, stop, signal) => {
      await client.api.POST("/v1/topics/{topic}/ack", { params: { path: { topic } }, body: { ids: [message.id] } });
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      stop();
    },
    { leaseMs: 1_000 },
  );

  assert.match(String(told[0]), /the lease of gone of ts-\S+ is lost/);
});

test("a consumer without a right ends with the problem", async () => {
  await assert.rejects(
    client.consume("not a topic", () => {}),
    { status: 422 },
  );
});

test("a consumer of nothing ends when it is told to", async () => {
  await client.consume(freshTopic(), () => {}, { signal: AbortSignal.timeout(100) });
});

test("a wrong option is refused before the first pull", async () => {
  await assert.rejects(
    client.consume("t", () => {}, { concurrency: 0 }),
    /concurrency is 0; it must be/,
  );
  await assert.rejects(
    client.consume("t", () => {}, { leaseMs: 10 }),
    /leaseMs is 10; it must be at least 1000/,
  );
});

test("an ack goes along with the next pull, and the last one by itself", async () => {
  const topic = freshTopic();
  await client.sendMany(
    topic,
    Array.from({ length: 5 }, (_, n) => ({ id: `m-${n}`, body: n })),
  );
  const [pulls, acks]: [(readonly LeaseOf[])[], string[]] = [[], []];
  const watched: Leases = {
    pull: (...call) => {
      pulls.push([]);
      return client.pull(...call);
    },
    settleAndPull: (topics, settled, ...call) => {
      pulls.push(settled.ack ?? []);
      return client.settleAndPull(topics, settled, ...call);
    },
    ack: (leased, ...call) => {
      acks.push(leased.id);
      return client.ack(leased, ...call);
    },
    nack: (...call) => client.nack(...call),
    extend: (...call) => client.extend(...call),
  };
  const end = new AbortController();
  const seen: string[] = [];

  await new Consumer(
    watched,
    topic,
    (message) => {
      if (seen.push(message.id) === 5) end.abort();
    },
    { signal: end.signal },
  ).run();

  assert.deepEqual(
    pulls.map((ack) => ack.map(({ id }) => id)),
    [[], ...seen.slice(0, 4).map((id) => [id])],
  );
  assert.deepEqual(acks, [seen[4]]);
  const { data } = await client.api.GET("/v1/topics/{topic}", { params: { path: { topic } } });
  assert.equal(data?.counts.acked, 5);
});

test("an ack that its pull could not make is sent by itself", async () => {
  const topic = freshTopic();
  await client.send(topic, { id: "m-1", body: 1 });
  const [acks, retries]: [string[], unknown[]] = [[], []];
  const failing: Leases = {
    pull: (...call) => client.pull(...call),
    settleAndPull: async (_topics, _settled, _wanted, options) => {
      retries.push(options?.retries);
      end.abort();
      throw new Error("no answer");
    },
    ack: (leased, ...call) => {
      acks.push(leased.id);
      return client.ack(leased, ...call);
    },
    nack: (...call) => client.nack(...call),
    extend: (...call) => client.extend(...call),
  };
  const end = new AbortController();

  await new Consumer(failing, topic, () => {}, { signal: end.signal }).run();

  assert.deepEqual(acks, ["m-1"]);
  assert.deepEqual(retries, [0]);
  assert.equal((await client.lookUp(topic, "m-1")).state, "acked");
});

test("a pull settles earlier messages of several topics", async () => {
  const [one, other] = [freshTopic(), freshTopic()];
  await client.send(one, { id: "done", body: 1 });
  await client.send(other, { id: "failed", body: 1 });
  const [done] = await client.pull(one, { wait: "20s" });
  const [failed] = await client.pull(other, { wait: "20s" });
  assert.ok(done && failed);

  const settled = { ack: [done], nack: [{ leased: failed, delay: "1h", reason: "the shop is closed" }] };
  const pulled = await client.settleAndPull([one, other], settled);

  assert.deepEqual(pulled, {
    messages: [],
    acked: [{ id: "done", result: "acked" }],
    nacked: [{ id: "failed", result: "nacked" }],
  });
  assert.equal((await client.lookUp(other, "failed")).reason, "the shop is closed");
});
