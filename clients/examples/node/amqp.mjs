// Publishes a message with a delay, consumes it when it is due, and records the ack: plain AMQP, without a bridge's API.

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
const properties = { messageId: id, persistent: true, contentType: "application/json" };
// The key is the delay, digit by digit: days (3), hours, minutes, seconds, tenths of a second. Here: one second.
await publish("delay", `0.0.0.0.0.1.0.${topic}`, '{"order":1001}', properties);
console.log("sent", id);

await channel.consume(`ready.${topic}`, async (got) => {
  const { messageId } = got.properties;
  console.log("got", messageId, got.content.toString());
  // Tells the bridge, so that the message's record says acked. The broker's ack comes last.
  await publish("delay.done", topic, "", { messageId });
  channel.ack(got);
  console.log("acked", messageId);
  if (messageId === id) {
    await channel.close();
    await connection.close();
  }
});
