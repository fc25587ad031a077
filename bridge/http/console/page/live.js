// Keeps the latest overview, from one stream for all pages of this tab. A hidden tab has no stream and asks nothing.

import { Problem, address, get } from './api.js';

const POLL_MS = 5000;
const listeners = new Set();
let source = null;
let timer = 0;
let active = false;

// `overview`: the latest one. `problem`: why there is no newer one. `history`: rates of the last minutes.
export const live = { overview: null, problem: null, paused: false, history: [] };
const HISTORY = 150;

export function start() {
  active = true;
  open();
}

export function stop() {
  active = false;
  close();
  live.overview = null;
}

// Calls `listener` after each change. Returns the function that ends this.
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// Calls `work` now, then every `ms` while the tab is visible, until `signal` aborts.
export function every(ms, work, signal) {
  let due = 0;
  const run = async () => {
    clearTimeout(due);
    if (signal.aborted) return;
    if (!document.hidden) await work();
    if (!signal.aborted) due = setTimeout(run, ms);
  };
  const shown = () => !document.hidden && run();
  document.addEventListener('visibilitychange', shown, { signal });
  signal.addEventListener('abort', () => clearTimeout(due));
  return run();
}

function open() {
  if (source || !active || document.hidden) return;
  source = new EventSource(address('console/live'));
  source.addEventListener('overview', (event) => take(JSON.parse(event.data)));
  source.addEventListener('error', () => {
    // CLOSED: the bridge refused. Otherwise the browser connects again itself, also after the stream's usual end.
    if (source && source.readyState === EventSource.CLOSED) {
      close();
      poll();
    } else {
      clearTimeout(timer);
      timer = setTimeout(poll, POLL_MS);
    }
  });
}

function close() {
  clearTimeout(timer);
  if (source) source.close();
  source = null;
}

async function poll() {
  if (!active || document.hidden) return;
  try {
    take(await get('v1/overview'));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    live.problem = error;
    tell();
  }
  clearTimeout(timer);
  timer = setTimeout(() => (source ? poll() : open()), POLL_MS);
}

function take(overview) {
  clearTimeout(timer);
  live.overview = overview;
  live.problem = null;
  const at = Date.parse(overview.at) / 1000;
  if (overview.rates && at !== live.history.at(-1)?.at) {
    live.history.push({ at, ...overview.rates });
    if (live.history.length > HISTORY) live.history.shift();
  }
  tell();
}

function tell() {
  for (const listener of listeners) listener();
}

document.addEventListener('visibilitychange', () => {
  live.paused = document.hidden;
  if (document.hidden) close();
  else open();
  tell();
});
