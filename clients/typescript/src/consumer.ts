/** Consumes topics: pulls as many messages as there are free places, and settles each by the handler's outcome. */

import { setTimeout as sleep } from "node:timers/promises";
import { DelaybridgeError, ProblemError, RetryLater, UnexpectedAnswerError } from "./errors.js";
import { HeldLease } from "./held_lease.js";
import type { Leased, Leases } from "./leases.js";
import { NextPull } from "./next_pull.js";

/** `signal` is aborted when the lease is lost: the message is then delivered again, so stop the work on it. */
export type Handler = (message: Leased, context: { signal: AbortSignal }) => unknown;

export interface ConsumerOptions {
  /** The most handlers that run at once. Default: 1. */
  concurrency?: number | undefined;
  /** How long a message is leased, in milliseconds, from 1,000. The lease is extended while its handler runs. */
  leaseMs?: number | undefined;
  /** Ends the consumer when it is aborted. */
  signal?: AbortSignal | undefined;
  /** Is told of each failure that does not end the consumer. Default: `console.error`. */
  onError?: (error: unknown, message?: Leased) => void;
}

const MOST_PULLED = 100;
const WAIT = "20s";
const WAIT_WITH_ACKS = "500ms"; // the results of the acks come with the answer
const PAUSE_MS = 1_000;
const LONGEST_REASON = 500;

export class Consumer {
  readonly #client: Leases;
  readonly #topics: string | readonly string[];
  readonly #handler: Handler;
  readonly #concurrency: number;
  readonly #leaseMs: number;
  readonly #signal: AbortSignal;
  readonly #onError: (error: unknown, message?: Leased) => void;
  readonly #running = new Set<Promise<void>>();
  readonly #nextPull = new NextPull();

  constructor(client: Leases, topics: string | readonly string[], handler: Handler, options: ConsumerOptions) {
    this.#client = client;
    this.#topics = topics;
    this.#handler = handler;
    this.#concurrency = options.concurrency ?? 1;
    this.#leaseMs = options.leaseMs ?? 30_000;
    this.#signal = options.signal ?? new AbortController().signal;
    this.#onError = options.onError ?? ((error) => console.error(error));
    if (!Number.isInteger(this.#concurrency) || this.#concurrency < 1) {
      throw new RangeError(`concurrency is ${options.concurrency}; it must be a whole number from 1`);
    }
    if (!(this.#leaseMs >= 1_000)) {
      throw new RangeError(`leaseMs is ${options.leaseMs}; it must be at least 1000`);
    }
  }

  /** Throws what no retry mends: a wrong token, a topic that the token may not use, a wrong topic name. */
  async run(): Promise<void> {
    try {
      while (!this.#signal.aborted) {
        const free = this.#concurrency - this.#running.size + this.#nextPull.size;
        if (free <= 0) {
          await this.#nextPull.wait(this.#running);
          continue;
        }
        for (const message of await this.#pull(Math.min(free, MOST_PULLED))) {
          const handling: Promise<void> = this.#handle(message).finally(() => this.#running.delete(handling));
          this.#running.add(handling);
        }
      }
    } finally {
      for (const ack of this.#nextPull.start()) {
        ack.end(undefined);
      }
      await Promise.all(this.#running);
    }
  }

  async #pull(max: number): Promise<Leased[]> {
    try {
      return await this.#pulled(max);
    } catch (error) {
      if (this.#signal.aborted) {
        return [];
      }
      if (isRefused(error)) {
        throw error;
      }
      this.#onError(error);
      await sleep(PAUSE_MS, undefined, { signal: this.#signal }).catch(() => {});
      return [];
    }
  }

  async #pulled(max: number): Promise<Leased[]> {
    const acks = this.#nextPull.start();
    const wanted = { max, wait: WAIT, lease: this.#leaseMs };
    if (acks.length === 0) {
      return this.#client.pull(this.#topics, wanted, { signal: this.#signal });
    }
    const results: (string | undefined)[] = [];
    try {
      const ack = acks.map(({ message }) => message);
      const briefly = { ...wanted, wait: WAIT_WITH_ACKS };
      const once = { signal: this.#signal, retries: 0 }; // a failed ack is sent by itself, without the pull's pauses
      const pulled = await this.#client.settleAndPull(this.#topics, { ack }, briefly, once);
      results.push(...(pulled.acked ?? []).map(({ result }) => result));
      return pulled.messages;
    } catch (error) {
      if (!isRefused(error)) {
        throw error;
      }
      this.#nextPull.refuse(); // the bridge may be too old
      return [];
    } finally {
      acks.forEach((ack, at) => {
        ack.end(results[at]);
      });
    }
  }

  /** Never throws. A message that could not be settled is delivered again when its lease ends. */
  async #handle(message: Leased): Promise<void> {
    const lease = new HeldLease(this.#client, message, this.#leaseMs);
    try {
      const failure = await this.#failureOf(message, lease);
      if (lease.signal.aborted) {
        throw lease.signal.reason;
      }
      if (failure === undefined) {
        await this.#ack(message);
      } else {
        this.#onError(failure.error, message);
        await this.#client.nack(message, outcome(failure.error));
      }
    } catch (error) {
      this.#onError(error, message);
    } finally {
      lease.release();
    }
  }

  async #ack(message: Leased): Promise<void> {
    const result = await this.#nextPull.ack(message);
    if (result === undefined) {
      await this.#client.ack(message);
    } else if (result !== "acked") {
      throw new DelaybridgeError(`the ack of ${message.id} of ${message.topic} was answered ${result}`);
    }
  }

  async #failureOf(message: Leased, lease: HeldLease): Promise<{ error: unknown } | undefined> {
    try {
      await this.#handler(message, { signal: lease.signal });
      return undefined;
    } catch (error) {
      return { error };
    }
  }
}

function isRefused(error: unknown): boolean {
  const isAnswer = error instanceof ProblemError || error instanceof UnexpectedAnswerError;
  return isAnswer && error.status < 500 && error.status !== 429;
}

function outcome(error: unknown): { reason: string; delay?: number | string } {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  // By characters: half of a surrogate pair would be no valid text.
  const reason = [...text].slice(0, LONGEST_REASON).join("");
  return error instanceof RetryLater ? { reason: error.message, delay: error.delay } : { reason };
}
