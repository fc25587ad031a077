// Publishes as applications with amqplib for Node do.

import { createRequire } from "node:module";

const given = process.env;
const amqplib = createRequire(given.NODE_FOLDER + "/")("amqplib");

const connection = await amqplib.connect(given.AMQP_URL);
const channel = await connection.createConfirmChannel();
if (given.DECLARES) {
  const options = { durable: true, arguments: { "x-delayed-type": given.KIND } };
  await channel.assertExchange(given.EXCHANGE, "x-delayed-message", options);
  await channel.assertQueue(given.QUEUE, { durable: true });
  await channel.bindQueue(given.QUEUE, given.EXCHANGE, given.KEY);
}
for (let number = 0; number < Number(given.COUNT); number++) {
  const delay = Number(given.DELAY_MS) + 50 * number;
  const body = Buffer.from(`at:${number}:${Date.now()}:${delay}`);
  channel.publish(given.PUBLISH_TO, given.KEY, body, { persistent: true, headers: { "x-delay": delay } });
}
await channel.waitForConfirms();
await connection.close();
