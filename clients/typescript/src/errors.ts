/** The errors that this client throws. All of them extend `DelaybridgeError`. */

import type { components } from "./schema.js";

export type Problem = components["schemas"]["ProblemOut"];

const SHOWN_CHARACTERS = 200;
const PROBLEM_TYPE = "urn:problem-type:delaybridge:";

export class DelaybridgeError extends Error {
  override name = "DelaybridgeError";
}

/** The bridge did not answer, also after the retries. `cause` is the last failure. */
export class UnreachableError extends DelaybridgeError {
  override name = "UnreachableError";
}

/** The bridge refused the request: `problem` is its answer as RFC 9457 defines it. */
export class ProblemError extends DelaybridgeError {
  override name = "ProblemError";
  readonly status: number;
  /** Such as `invalid-request`, `not-found` or `lease-ended`; empty if a proxy answered in place of the bridge. */
  readonly kind: string;

  constructor(readonly problem: Problem) {
    super(`${problem.status} ${problem.title}: ${problem.detail}`);
    this.status = problem.status;
    this.kind = problem.type.startsWith(PROBLEM_TYPE) ? problem.type.slice(PROBLEM_TYPE.length) : "";
  }

  /** Reads an answer with a status of 400 or more. */
  static async of(response: Response): Promise<ProblemError> {
    const text = await response.text();
    if (response.headers.get("content-type")?.startsWith("application/problem+json")) {
      return new ProblemError(JSON.parse(text));
    }
    return new ProblemError({
      type: "about:blank",
      title: response.statusText || "no problem document",
      status: response.status,
      detail: text.slice(0, SHOWN_CHARACTERS),
      errors: [],
      request_id: response.headers.get("x-request-id") ?? "",
    });
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
