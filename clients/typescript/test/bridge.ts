/** Gives the tests the bridge that the environment names, and topics that no other test uses. */

import { randomUUID } from "node:crypto";
import { Client } from "../src/index.js";

const { DELAYBRIDGE_URL } = process.env;
if (DELAYBRIDGE_URL === undefined) {
  throw new Error("DELAYBRIDGE_URL is missing: run these tests with pytest tests/clients/typescript");
}

export const url = DELAYBRIDGE_URL;
// A busy machine may take seconds for an answer.
export const client = new Client({ url, timeoutMs: 90_000 });

export function freshTopic(): string {
  return `ts-${randomUUID()}`;
}
