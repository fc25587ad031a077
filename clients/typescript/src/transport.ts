/** Sends requests: each try has a time limit, and a failed one is repeated if that can't do anything twice. */

import { setTimeout as sleep } from "node:timers/promises";
import { type Problem, ProblemError, UnexpectedAnswerError, UnreachableError } from "./errors.js";

export interface Retries {
  /** How often a request is repeated. */
  most: number;
  /** The time limit of one try; a pull gets the longest wait on top. */
  timeoutMs: number;
}

const LONGEST_WAIT_MS = 60_000;
const OF_A_BRIDGE = /^(application\/json|text\/plain)/;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 10_000;
const LONGEST_RETRY_AFTER_MS = 60_000;
// A repeated send has the same id, and a repeated ack, nack or extend has the same receipt. A pull whose answer was lost
// has leased messages that return at the end of their lease, whether it is repeated or not.
const REPEATABLE_POST = /\/(messages|messages\/batch|pull|ack|nack|extend|pause|resume|subscription|cancel)$/;

/** A `fetch` that retries, and throws a `DelaybridgeError` for every answer that is no 2xx of a bridge. */
export function transport(retries: Retries): (request: Request) => Promise<Response> {
  return async (request) => {
    for (let tries = 0; ; tries++) {
      const failure = await attempt(request, retries.timeoutMs);
      if (failure instanceof Response) {
        return failure;
      }
      request.signal.throwIfAborted();
      const pauseMs = tries < retries.most ? pauseBeforeRetry(request, failure, tries) : undefined;
      if (pauseMs === undefined) {
        throw failure.error;
      }
      await sleep(pauseMs, undefined, { signal: request.signal });
    }
  };
}

interface Failure {
  error: ProblemError | UnexpectedAnswerError | UnreachableError;
  retryAfter: string | null;
}

async function attempt(request: Request, timeoutMs: number): Promise<Response | Failure> {
  const limitMs = Math.ceil(timeoutMs) + (request.url.endsWith("/pull") ? LONGEST_WAIT_MS : 0);
  const signal = AbortSignal.any([request.signal, AbortSignal.timeout(limitMs)]);
  const what = `${request.method} ${request.url}`;
  try {
    const response = await fetch(request.clone(), { signal, redirect: "manual" });
    // Read within the time limit, so that a connection that breaks here is retried too.
    const body = await response.arrayBuffer();
    const kind = response.headers.get("content-type") ?? "";
    if (response.ok && (body.byteLength === 0 || OF_A_BRIDGE.test(kind))) {
      return new Response(body.byteLength > 0 ? body : null, response);
    }
    const problem = response.ok || !kind.startsWith("application/problem+json") ? undefined : parsed(body);
    const error = problem ? new ProblemError(problem) : new UnexpectedAnswerError(what, response);
    return { error, retryAfter: response.headers.get("retry-after") };
  } catch (cause) {
    return { error: new UnreachableError(`no answer to ${what}: ${reason(cause)}`, { cause }), retryAfter: null };
  }
}

/** The pause in milliseconds; undefined if the request may not be repeated. */
function pauseBeforeRetry(request: Request, failure: Failure, tries: number): number | undefined {
  const { error, retryAfter } = failure;
  // 429: the bridge refused the request before it did anything.
  const refused = !(error instanceof UnreachableError) && error.status === 429;
  const failed = error instanceof UnreachableError || [502, 503, 504].includes(error.status);
  if (!refused && !(failed && isRepeatable(request))) {
    return undefined;
  }
  if (retryAfter !== null) {
    const askedMs = parseRetryAfter(retryAfter);
    return askedMs <= LONGEST_RETRY_AFTER_MS ? askedMs : undefined;
  }
  const longestMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** tries);
  return longestMs * (0.5 + Math.random() / 2);
}

function isRepeatable(request: Request): boolean {
  const { pathname } = new URL(request.url);
  switch (request.method) {
    case "POST":
      return REPEATABLE_POST.test(pathname);
    case "DELETE":
      return !pathname.endsWith("/dead"); // a repeated one drops further letters
    default:
      return true;
  }
}

function parseRetryAfter(value: string): number {
  const seconds = Number(value);
  const ms = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(value) - Date.now();
  return Math.max(0, Number.isNaN(ms) ? FIRST_PAUSE_MS : ms);
}

function parsed(body: ArrayBuffer): Problem | undefined {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return undefined;
  }
}

function reason(error: unknown): string {
  const deepest = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return deepest instanceof Error ? deepest.message || deepest.name : String(deepest);
}
