/** The acks that the next pull takes along, so that a message costs one request in place of two. */

import type { Leased } from "./leases.js";

const MOST = 1_000; // by one pull

export interface Ack {
  message: Leased;
  /** `undefined`: the pull did not ack the message. */
  end(result: string | undefined): void;
}

/**
 * A pull takes acks along only if they are what it waits for: all places are taken, and each ack frees one. So no ack
 * waits for a pull that is in flight, or for a pull that does not come.
 */
export class NextPull {
  #acks: Ack[] = [];
  #wake: (() => void) | undefined;
  #refused = false;

  get size(): number {
    return this.#acks.length;
  }

  /** Waits for an ack, or for one of the promises. The caller must then call `start`, or wait again. */
  async wait(others: Iterable<Promise<unknown>>): Promise<void> {
    const woken = new Promise<void>((resolve) => {
      this.#wake = this.#refused ? undefined : resolve;
    });
    await Promise.race([woken, ...others]);
  }

  /** Starts the pull. Returns its acks, whose results the caller must `end`. */
  start(): Ack[] {
    this.#wake = undefined;
    return this.#acks.splice(0);
  }

  /** The bridge has refused a pull with acks: no further pull takes any. */
  refuse(): void {
    this.#refused = true;
  }

  /** Acks the message with the next pull. `undefined`: none follows at once, or it failed, so ack by another call. */
  async ack(message: Leased): Promise<string | undefined> {
    const wake = this.#wake;
    if (wake === undefined || this.#acks.length === MOST) {
      return undefined;
    }
    return new Promise((end) => {
      this.#acks.push({ message, end });
      wake();
    });
  }
}
