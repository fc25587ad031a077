// Publishes two messages with a delay, consumes them when they are due, and records the acks: plain AMQP, no HTTP.

import { randomUUID } from "node:crypto";
import amqplib from "amqplib";

const { AMQP_URL, TOPIC: topic } = process.env;
const connection = await amqplib.connect(AMQP_URL);
const channel = await connection.createConfirmChannel();
await channel.prefetch(10);

/** Returns when RabbitMQ has confirmed the message. */
async function publish(exchange, key, body, properties) {
  channel.publish(exchange, key, Buffer.from(body), { mandatory: true, ...properties });
  await channel.waitForConfirms();
}

const id = `order-${randomUUID()}`;
const properties = { persistent: true, contentType: "application/json" };
// A bridge gives this message a record at once, so that it can be looked up, moved and deleted by its id.
const headers = { "x-delay": 1000 }; // milliseconds
await publish("delay.in", topic, '{"order":1001}', { ...properties, messageId: id, headers });
console.log("sent", id);

// No bridge is involved. The key is the delay, digit by digit: days (3), hours, minutes, seconds, tenths.
await publish("delay", `0.0.0.0.0.1.0.${topic}`, '{"order":1001}', { ...properties, messageId: `${id}-by-key` });
console.log("sent", `${id}-by-key`);

let left = 2;
await channel.consume(`ready.${topic}`, async (got) => {
  const { messageId, headers: received } = got.properties;
  console.log("got", messageId, got.content.toString());
  // Tells the bridge, so that the message's record says acked. The broker's ack comes last.
  // The moment of creation tells the message apart from another one of its id.
  await publish("delay.done", topic, "", { messageId, headers: { "x-delay-created": received["x-delay-created"] } });
  channel.ack(got);
  console.log("acked", messageId);
  if (--left === 0) {
    await channel.close();
    await connection.close();
  }
});
