// Calls the API with the browser's session, and turns each refusal into a Problem.

const ROOT = new URL('../../', import.meta.url); // this file is console/<digest>/api.js
const MISSING = /:(no-such-path|no-such-method)$/;

export class Problem extends Error {
  constructor(status, problem, headers) {
    super(problem.detail || problem.title || `the bridge answered ${status}`);
    this.status = status;
    this.title = problem.title || 'The bridge refused';
    this.fields = problem.errors || [];
    this.requestId = problem.request_id || '';
    this.body = problem;
    this.retryAfter = headers && headers.get('Retry-After');
    // This bridge has no such call: another version of it may.
    this.missing = (status === 404 || status === 405) && (!problem.type || MISSING.test(problem.type));
  }

  // What the person can do next.
  get next() {
    if (this.status === 0) return 'Check that the bridge runs and that you can reach it. The console tries again.';
    if (this.status === 401) return 'Sign in again.';
    if (this.status === 403 && this.body.scope) return `Sign in with a token that has the scope ${this.body.scope}.`;
    if (this.missing) return 'This version of the bridge does not have this call.';
    if (this.status === 503) return 'RabbitMQ or Redis may be away: see Health. Then try again.';
    if (this.status === 404) return 'It may have ended longer ago than the bridge keeps records.';
    return '';
  }
}

export function address(path) {
  return new URL(path, ROOT);
}

export function topicPath(topic, rest = '') {
  return `v1/topics/${encodeURIComponent(topic)}${rest}`;
}

export function messagePath(topic, id, rest = '') {
  return topicPath(topic, `/messages/${encodeURIComponent(id)}${rest}`);
}

// `query`: values by name; a list repeats the name; empty values are left out.
export function withQuery(path, query) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== '' && one !== null && one !== undefined) params.append(name, one);
    }
  }
  // The API reads a plus sign as itself, and no space.
  const text = params.toString().replaceAll('+', '%20');
  return text ? `${path}?${text}` : path;
}

export async function call(method, path, { body, token, signal, also = [] } = {}) {
  const headers = { Accept: 'application/json' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  let text;
  try {
    response = await fetch(address(path), {
      method,
      headers,
      signal,
      credentials: 'same-origin',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    text = await response.text(); // may break off too, and fails with an AbortError when the page is left
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, { title: 'The bridge does not answer', detail: 'the browser got no answer from the bridge' });
  }
  const answer = read(response.status, text);
  if (!response.ok && !also.includes(response.status)) throw new Problem(response.status, answer, response.headers);
  return answer;
}

function read(status, text) {
  try {
    return JSON.parse(text);
  } catch {
    return { detail: `the bridge answered ${status} without JSON` };
  }
}

export const get = (path, options) => call('GET', path, options);

// The items of the first pages of a list, and the cursor of the page behind them.
export async function firstPages(path, pages, options) {
  const items = [];
  let cursor = '';
  for (let at = 0; at < pages && cursor !== null; at += 1) {
    const page = await get(withQuery(path, { cursor }), options);
    items.push(...page.items);
    cursor = page.next_cursor;
  }
  return { items, cursor };
}

export const post = (path, body, options) => call('POST', path, { body, ...options });
