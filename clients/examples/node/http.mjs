// Sends a message with a delay, pulls it when it is due, and acks it: plain HTTP, with Node's fetch.
// clients/typescript has a client with types, retries and a consumer.

const { DELAYBRIDGE_URL, TOPIC } = process.env;
const topic = `${DELAYBRIDGE_URL}/v1/topics/${encodeURIComponent(TOPIC)}`;

/** Sends JSON and returns the answer. With tokens, add the header Authorization: Bearer <token>. */
async function post(path, body) {
  const response = await fetch(topic + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`); // a problem by RFC 9457
  return response.json();
}

const id = `order-${crypto.randomUUID()}`;
// If the answer is lost, send again with the same id: it makes no second message.
const sent = await post("/messages", { id, body: { order: 1001 }, delay: "1s" });
console.log("sent", sent.id, "due", sent.due_at);

for (let acked = false; !acked; ) {
  const { messages } = await post("/pull", { max: 10, wait: "20s", lease: "30s" });
  for (const got of messages) {
    console.log("got", got.id, JSON.stringify(got.body));
    // The receipt names this delivery alone, so a late ack can't end a later one.
    await post(`/messages/${encodeURIComponent(got.id)}/ack`, { receipt: got.receipt });
    console.log("acked", got.id);
    acked ||= got.id === id;
  }
}
