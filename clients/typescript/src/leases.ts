/** The calls on leased messages: what a consumer needs of a client. */

import type { components } from "./schema.js";

type Schemas = components["schemas"];
/** Milliseconds, or a text such as `"1500ms"`, `"15m"`, `"7d"` or `"PT1H30M"`. */
export type Duration = number | string;
export type Message = Schemas["MessageOut"];
export type Leased = Schemas["LeasedOut"];
export type Pull = Omit<Schemas["PullRequest"], "max" | "ack" | "nack"> & { max?: number };
/** The messages of a pull, and what became of the leases that it settled. */
export type Pulled = Schemas["PulledOut"];

export interface CallOptions {
  signal?: AbortSignal | undefined;
}

export interface PullOptions extends CallOptions {
  /** How often the request is repeated. Default: as the client's other requests. */
  retries?: number | undefined;
}

/** Names a leased message: its topic, its id, and the receipt of this lease. */
export type LeaseOf = Pick<Leased, "topic" | "id" | "receipt">;

/** What a pull settles: messages to ack, and messages to give back. */
export interface ToSettle {
  ack?: readonly LeaseOf[];
  nack?: readonly { leased: LeaseOf; delay?: Duration; reason?: string }[];
}

export interface Leases {
  pull(topics: string | readonly string[], wanted?: Pull, options?: CallOptions): Promise<Leased[]>;
  settleAndPull(
    topics: string | readonly string[],
    settled: ToSettle,
    wanted?: Pull,
    options?: PullOptions,
  ): Promise<Pulled>;
  ack(leased: LeaseOf, options?: CallOptions): Promise<Message>;
  nack(leased: LeaseOf, wanted?: { delay?: Duration; reason?: string }, options?: CallOptions): Promise<Message>;
  extend(leased: LeaseOf, lease: Duration, options?: CallOptions): Promise<Message>;
}
