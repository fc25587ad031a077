/** Verifies callbacks: the requests that a bridge posts to a receiver, signed as Standard Webhooks defines it. */

import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { WebhookError } from "./errors.js";

/** One callback. The signature covers `webhookId` and `body`; the other fields are what the request's headers say. */
export interface Callback {
  /** The same for each attempt at one message, and different for each message. */
  webhookId: string;
  body: Buffer;
  topic: string;
  id: string;
  attempt: number;
  dueAt: Date;
  headers: Record<string, unknown>;
}

const TOLERANCE_S = 300;
const PREFIX = "whsec_";

/**
 * Returns the callback if one of the secrets has signed it, and throws a `WebhookError` otherwise.
 *
 * The npm package standardwebhooks can't do this: it reads a body as UTF-8, and a message may have any bytes.
 *
 * @param body the bytes of the request's body as they came
 * @param headers those of `http.IncomingMessage`, or a `Headers` object
 * @param secrets those of the subscription, each beginning with `whsec_`
 */
export function verifyCallback(
  body: Uint8Array,
  headers: IncomingHttpHeaders | Headers,
  secrets: string | readonly string[],
): Callback {
  const found = headers instanceof Headers ? Object.fromEntries(headers) : headers;
  const header = (name: string): string => {
    const value = found[name];
    if (typeof value !== "string") {
      throw new WebhookError(`the header ${name} is missing`);
    }
    return value;
  };
  const webhookId = header("webhook-id");
  const timestamp = header("webhook-timestamp");
  if (!(Math.abs(Date.now() / 1_000 - Number(timestamp)) <= TOLERANCE_S)) {
    throw new WebhookError(`webhook-timestamp is ${timestamp}; it must be at most ${TOLERANCE_S} s from now`);
  }
  const signatures = header("webhook-signature").split(" ");
  const expected = [secrets].flat().map((secret) => sign(secret, `${webhookId}.${timestamp}.`, body));
  if (!signatures.some((signature) => expected.some((one) => areEqual(signature, one)))) {
    throw new WebhookError("webhook-signature is not that of any secret");
  }
  return {
    webhookId,
    body: Buffer.from(body),
    topic: header("x-delay-topic"),
    id: decodeURIComponent(header("x-delay-id")),
    attempt: Number(header("x-delay-attempt")),
    dueAt: new Date(Number(header("x-delay-due"))),
    headers: JSON.parse(found["x-delay-headers"] === undefined ? "{}" : header("x-delay-headers")),
  };
}

function sign(secret: string, start: string, body: Uint8Array): string {
  if (!secret.startsWith(PREFIX)) {
    throw new TypeError(`a secret must begin with ${PREFIX}`);
  }
  const key = Buffer.from(secret.slice(PREFIX.length), "base64");
  return `v1,${createHmac("sha256", key).update(start).update(body).digest("base64")}`;
}

function areEqual(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}
