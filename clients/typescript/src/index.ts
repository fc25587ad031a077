/** The client of delaybridge for Node. */

export type { BatchItem, ClientOptions, Instant, Moment, Send } from "./client.js";
export { Client } from "./client.js";
export type { ConsumerOptions, Handler } from "./consumer.js";
export {
  DelaybridgeError,
  InvalidArgumentError,
  type Problem,
  ProblemError,
  RetryLater,
  UnexpectedAnswerError,
  UnreachableError,
  WebhookError,
} from "./errors.js";
export type { CallOptions, Duration, Leased, LeaseOf, Message, Pull, Pulled, PullOptions, ToSettle } from "./leases.js";
export type { components, operations, paths } from "./schema.js";
export { type Callback, verifyCallback } from "./webhooks.js";
