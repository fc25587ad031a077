/** The calls on leased messages: what a consumer needs of a client. */

import type { components } from "./schema.js";

type Schemas = components["schemas"];
/** Milliseconds, or a text such as `"1500ms"`, `"15m"`, `"7d"` or `"PT1H30M"`. */
export type Duration = number | string;
export type Message = Schemas["MessageOut"];
export type Leased = Schemas["LeasedOut"];
export type Pull = Omit<Schemas["PullRequest"], "max"> & { max?: number };

export interface CallOptions {
  signal?: AbortSignal | undefined;
}

/** Names a leased message: its topic, its id, and the receipt of this lease. */
export type LeaseOf = Pick<Leased, "topic" | "id" | "receipt">;

export interface Leases {
  pull(topics: string | readonly string[], wanted?: Pull, options?: CallOptions): Promise<Leased[]>;
  ack(leased: LeaseOf, options?: CallOptions): Promise<Message>;
  nack(leased: LeaseOf, wanted?: { delay?: Duration; reason?: string }, options?: CallOptions): Promise<Message>;
  extend(leased: LeaseOf, lease: Duration, options?: CallOptions): Promise<Message>;
}
