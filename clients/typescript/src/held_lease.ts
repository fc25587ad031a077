/** Holds the lease of one message: extends it each third of its length, until it is released or lost. */

import { DelaybridgeError, ProblemError } from "./errors.js";
import type { Leased, Leases } from "./leases.js";

const PARTS = 3;

export class HeldLease {
  readonly #client: Leases;
  readonly #message: Leased;
  readonly #leaseMs: number;
  readonly #lost = new AbortController();
  #released = false;
  #endsAt: number;
  #timer: NodeJS.Timeout;

  constructor(client: Leases, message: Leased, leaseMs: number) {
    this.#client = client;
    this.#message = message;
    this.#leaseMs = leaseMs;
    this.#endsAt = performance.now() + leaseMs;
    this.#timer = this.#next();
  }

  /** Is aborted when the lease is lost. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  release(): void {
    clearTimeout(this.#timer);
    this.#released = true;
  }

  #next(): NodeJS.Timeout {
    return setTimeout(() => void this.#extend(), this.#leaseMs / PARTS);
  }

  async #extend(): Promise<void> {
    const asked = performance.now();
    try {
      const signal = AbortSignal.timeout(Math.max(1, Math.floor(this.#endsAt - asked)));
      await this.#client.extend(this.#message, this.#leaseMs, { signal });
      this.#endsAt = asked + this.#leaseMs;
    } catch (error) {
      const refused = error instanceof ProblemError && error.status < 500 && error.status !== 429;
      if (refused || performance.now() >= this.#endsAt) {
        const { topic, id } = this.#message;
        this.#lost.abort(new DelaybridgeError(`the lease of ${id} of ${topic} is lost`, { cause: error }));
        return;
      }
    }
    if (!this.#released) {
      this.#timer = this.#next();
    }
  }
}
