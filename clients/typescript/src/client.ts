/** The client: a method for each call that applications make often, and `api` for every call there is. */

import { randomUUID } from "node:crypto";
import createClient, { type Client as OpenApiClient } from "openapi-fetch";
import { Consumer, type ConsumerOptions, type Handler } from "./consumer.js";
import { InvalidArgumentError } from "./errors.js";
import type {
  CallOptions,
  Duration,
  Leased,
  LeaseOf,
  Leases,
  Message,
  Pull,
  Pulled,
  PullOptions,
  ToSettle,
} from "./leases.js";
import type { components, paths } from "./schema.js";
import { type Retries, transport } from "./transport.js";

type Schemas = components["schemas"];
/** A date, an RFC 3339 text with an offset, or Unix milliseconds. */
export type Instant = Date | string | number;
export type BatchItem = Schemas["BatchItem"];
/** `body`: a JSON value, or bytes: a `Uint8Array` (such as a `Buffer`) or an `ArrayBuffer`. */
export type Send = Omit<Schemas["SendRequest"], "deliver_at"> & { deliver_at?: Instant | null };
export type Moment = { delay: Duration } | { deliver_at: Instant };

export interface ClientOptions {
  /** The address of a bridge, such as `http://127.0.0.1:8080`; it may have a path. */
  url: string;
  token?: string | undefined;
  /** How often a request is repeated when the bridge is away or asks to wait. Default: 5. */
  retries?: number | undefined;
  /** The time limit of one try in milliseconds. Default: 30,000. */
  timeoutMs?: number | undefined;
}

export class Client implements Leases {
  /**
   * Every operation of the OpenAPI document by its method and path, with types for all it takes and answers.
   * A failure is thrown, so `data` is always there: `(await client.api.GET("/v1/overview")).data`.
   */
  readonly api: OpenApiClient<paths>;
  readonly #retries: Retries;

  constructor(options: ClientOptions) {
    this.#retries = { most: options.retries ?? 5, timeoutMs: options.timeoutMs ?? 30_000 };
    this.api = createClient<paths>({
      baseUrl: address(options.url),
      headers: options.token ? { authorization: `Bearer ${options.token}` } : {},
      fetch: transport(this.#retries),
    });
  }

  /** Sends a message. It gets an id if it has none, so that a retry can't make a second message. */
  async send(topic: string, message: Send, options: CallOptions = {}): Promise<Message> {
    return given(
      await this.api.POST("/v1/topics/{topic}/messages", {
        params: { path: { topic } },
        body: sendable(message),
        signal: options.signal ?? null,
      }),
    );
  }

  /** Sends up to 1,000 messages. Each has its own result, in order: one that is refused harms no other. */
  async sendMany(topic: string, messages: readonly Send[], options: CallOptions = {}): Promise<BatchItem[]> {
    const { results } = given(
      await this.api.POST("/v1/topics/{topic}/messages/batch", {
        params: { path: { topic } },
        body: { messages: messages.map(sendable) },
        signal: options.signal ?? null,
      }),
    );
    return results;
  }

  async lookUp(topic: string, id: string, options: CallOptions = {}): Promise<Message> {
    const path = { topic, id };
    return given(
      await this.api.GET("/v1/topics/{topic}/messages/{id}", { params: { path }, signal: options.signal ?? null }),
    );
  }

  /** Deletes a message. If this returns before the due moment, the message is never delivered. */
  async delete(topic: string, id: string, options: CallOptions = {}): Promise<Message> {
    const path = { topic, id };
    return given(
      await this.api.DELETE("/v1/topics/{topic}/messages/{id}", { params: { path }, signal: options.signal ?? null }),
    );
  }

  /** Moves a waiting message to another moment. `{ delay: 0 }` makes it due now. */
  async move(topic: string, id: string, moment: Moment, options: CallOptions = {}): Promise<Message> {
    const path = { topic, id };
    const body = "delay" in moment ? moment : { deliver_at: wireInstant(moment.deliver_at) };
    return given(
      await this.api.PATCH("/v1/topics/{topic}/messages/{id}", {
        params: { path },
        body,
        signal: options.signal ?? null,
      }),
    );
  }

  /** Leases ready messages. With several topics, the first ones come first. */
  async pull(topics: string | readonly string[], wanted: Pull = {}, options: CallOptions = {}): Promise<Leased[]> {
    return (await this.settleAndPull(topics, {}, wanted, options)).messages;
  }

  /**
   * Acks and nacks earlier messages of these topics, and leases ready messages, in one request. The bridge settles at
   * once, even if the pull fails. A repeated ack is answered `acked` again, and a repeated nack `stale`.
   */
  async settleAndPull(
    topics: string | readonly string[],
    { ack, nack }: ToSettle,
    wanted: Pull = {},
    options: PullOptions = {},
  ): Promise<Pulled> {
    const body = { ...wanted, max: wanted.max ?? 1 };
    const call = {
      signal: options.signal ?? null,
      fetch: transport({ ...this.#retries, most: options.retries ?? this.#retries.most }),
    };
    const nacks = nack?.map(({ leased, ...how }) => ({ topic: leased.topic, receipt: leased.receipt, ...how }));
    if (typeof topics === "string") {
      const settled = {
        ...(ack && { ack: ack.map(({ receipt }) => receipt) }),
        ...(nacks && { nack: nacks.map(({ topic: _, ...how }) => how) }),
      };
      const params = { path: { topic: topics } };
      return given(await this.api.POST("/v1/topics/{topic}/pull", { params, body: { ...body, ...settled }, ...call }));
    }
    const settled = {
      ...(ack && { ack: ack.map(({ topic, receipt }) => ({ topic, receipt })) }),
      ...(nacks && { nack: nacks }),
    };
    return given(await this.api.POST("/v1/pull", { body: { ...body, ...settled, topics: [...topics] }, ...call }));
  }

  /** Ends a leased message. 409 `lease-ended`: the lease is over, and the message may be delivered again. */
  async ack(leased: LeaseOf, options: CallOptions = {}): Promise<Message> {
    const call = settling(leased);
    return given(
      await this.api.POST("/v1/topics/{topic}/messages/{id}/ack", { ...call, signal: options.signal ?? null }),
    );
  }

  /** Gives a leased message back: it is delivered again, or becomes a dead letter when its retries are used up. */
  async nack(
    leased: LeaseOf,
    wanted: { delay?: Duration; reason?: string } = {},
    options: CallOptions = {},
  ): Promise<Message> {
    const call = settling(leased, wanted);
    return given(
      await this.api.POST("/v1/topics/{topic}/messages/{id}/nack", { ...call, signal: options.signal ?? null }),
    );
  }

  /** Makes the lease last at least `lease` from now. */
  async extend(leased: LeaseOf, lease: Duration, options: CallOptions = {}): Promise<Message> {
    const call = settling(leased, { lease });
    return given(
      await this.api.POST("/v1/topics/{topic}/messages/{id}/extend", { ...call, signal: options.signal ?? null }),
    );
  }

  /**
   * Calls the handler for each message, up to `concurrency` at once, until `signal` is aborted; then it waits for the
   * handlers that run. It acks a message when its handler returns, and nacks it when the handler throws.
   */
  async consume(topics: string | readonly string[], handler: Handler, options: ConsumerOptions = {}): Promise<void> {
    await new Consumer(this, topics, handler, options).run();
  }
}

function given<T>(answer: { data?: T }): T {
  return answer.data as T; // the transport throws for every answer without data
}

function sendable(message: Send): Schemas["SendRequest"] {
  const { deliver_at, body, ...rest } = message;
  return {
    ...rest,
    ...(body instanceof Uint8Array || body instanceof ArrayBuffer
      ? { body_base64: base64(body) }
      : body === undefined
        ? {}
        : { body }),
    id: message.id ?? randomUUID(),
    ...(deliver_at == null ? {} : { deliver_at: wireInstant(deliver_at) }),
  };
}

function base64(bytes: Uint8Array | ArrayBuffer): string {
  const view = bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes;
  return Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString("base64");
}

/** The address without a slash at its end. */
function address(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.search || parsed.hash) {
    throw new InvalidArgumentError(
      `url: ${JSON.stringify(url)} must be http:// or https:// with a host, and may have a path: http://127.0.0.1:8080`,
    );
  }
  return url.replace(/\/+$/, "");
}

function wireInstant(instant: Instant): string | number {
  return instant instanceof Date ? instant.toISOString() : instant;
}

function settling<T extends object>({ topic, id, receipt }: LeaseOf, wanted?: T) {
  return { params: { path: { topic, id } }, body: { ...(wanted as T), receipt } };
}
