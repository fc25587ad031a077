// Runs the loads of BullMQ in Node. benchmarks/peers/bullmq.py starts it and writes the options to its input as JSON.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const options = JSON.parse(readFileSync(0, "utf8"));
const { Queue, Worker } = createRequire(options.modules)("bullmq");
const connection = { host: "127.0.0.1", port: options.port, maxRetriesPerRequest: null };
const queue = new Queue("bench", { connection });
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => performance.timeOrigin + performance.now();
const FAR_MS = 600_000;
const job = (delay, planned) => ({
  name: "bench",
  data: { due: planned + delay, body: options.body },
  opts: { delay, removeOnComplete: true },
});

async function send(count, delay) {
  if (count === 1) {
    const one = job(delay, now());
    await queue.add(one.name, one.data, one.opts);
  } else {
    await queue.addBulk(Array.from({ length: count }, () => job(delay, now())));
  }
}

// A closed loop of clients. It counts their sends after the warm-up.
async function sends(count) {
  let sent = 0;
  let going = true;
  const client = async () => {
    while (going) {
      await send(count, FAR_MS);
      sent += count;
    }
  };
  const clients = Array.from({ length: options.clients }, client);
  await sleep(options.warm_s * 1_000);
  const before = sent;
  const begun = now();
  await sleep(options.seconds * 1_000);
  const perSecond = ((sent - before) / (now() - begun)) * 1_000;
  going = false;
  await Promise.all(clients);
  return perSecond;
}

async function cycle() {
  let sent = 0;
  let taken = 0;
  let going = true;
  const worker = new Worker("bench", async () => {}, { connection, concurrency: 100 });
  worker.on("completed", () => { taken += 1; });
  const client = async () => {
    while (going) {
      if (sent - taken >= options.window) {
        await sleep(5);
        continue;
      }
      await send(options.batch, options.delay_ms);
      sent += options.batch;
    }
  };
  for (let at = 0; at < options.clients; at += 1) client();
  await sleep(options.delay_ms + options.warm_s * 1_000);
  const before = taken;
  const begun = now();
  await sleep(options.seconds * 1_000);
  const perSecond = ((taken - before) / (now() - begun)) * 1_000;
  going = false;
  return perSecond;
}

// An open loop: lateness counts from the planned moment.
async function lateness() {
  const late = [];
  const worker = new Worker("bench", async (one) => { late.push(now() - one.data.due); }, { connection, concurrency: 100 });
  await worker.waitUntilReady();
  const start = now() + 200;
  const failed = [];
  for (let at = 0; at < options.delays_ms.length; at += 1) {
    const planned = start + (at * 1_000) / options.rate_per_s;
    const left = planned - now();
    if (left > 0) await sleep(left);
    const one = job(options.delays_ms[at], planned);
    queue.add(one.name, one.data, one.opts).catch((error) => failed.push(error));
  }
  const giveUp = now() + options.give_up_s * 1_000;
  while (late.length < options.delays_ms.length) {
    if (failed.length) throw failed[0];
    if (now() > giveUp) throw new Error(`${options.delays_ms.length - late.length} jobs did not come`);
    await sleep(50);
  }
  return late;
}

await queue.waitUntilReady();
const loads = { single: () => sends(1), batches: () => sends(options.batch), cycle, lateness };
const found = JSON.stringify(await loads[options.what]());
process.stdout.write(found, () => process.exit(0));
