/** The errors that this client throws. All of them extend `DelaybridgeError`. */

import type { components } from "./schema.js";

export type Problem = components["schemas"]["ProblemOut"];

const PROBLEM_TYPE = "urn:problem-type:delaybridge:";

export class DelaybridgeError extends Error {
  override name = "DelaybridgeError";
}

/** The bridge did not answer, also after the retries. `cause` is the last failure. */
export class UnreachableError extends DelaybridgeError {
  override name = "UnreachableError";
}

/** An argument is wrong, and nothing was sent. */
export class InvalidArgumentError extends DelaybridgeError {
  override name = "InvalidArgumentError";
}

/** The answer is none of a bridge: the address is wrong, or a proxy answered. `status`: of HTTP. */
export class UnexpectedAnswerError extends DelaybridgeError {
  override name = "UnexpectedAnswerError";
  readonly status: number;

  constructor(what: string, response: Response) {
    const kind = response.headers.get("content-type") ?? "no content type";
    super(`${what} was answered with ${response.status} and ${kind}, which is no answer of a bridge`);
    this.status = response.status;
  }
}

/** The bridge refused the request: `problem` is its answer as RFC 9457 defines it. */
export class ProblemError extends DelaybridgeError {
  override name = "ProblemError";
  readonly status: number;
  /** Such as `invalid-request`, `not-found` or `lease-ended`. */
  readonly kind: string;

  constructor(readonly problem: Problem) {
    super(`${problem.status} ${problem.title}: ${problem.detail}`);
    this.status = problem.status;
    this.kind = problem.type.startsWith(PROBLEM_TYPE) ? problem.type.slice(PROBLEM_TYPE.length) : "";
  }
}

/** Throw it in a handler to have the message delivered again after `delay`, in place of the topic's back-off. */
export class RetryLater extends DelaybridgeError {
  override name = "RetryLater";

  /** @param delay milliseconds, or a text such as `"5m"`. @param reason kept with the message. */
  constructor(
    readonly delay: number | string,
    reason = "the handler asked for another delivery",
  ) {
    super(reason);
  }
}

/** The signature of a callback is wrong, or the callback is too old. Answer it with 401. */
export class WebhookError extends DelaybridgeError {
  override name = "WebhookError";
}
