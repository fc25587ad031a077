// Starts the console: session, navigation, the status on top of each page, and the page of the address.

import { html, nothing, render } from './vendor/lit-html.js';
import { Problem, address } from './api.js';
import { zone } from './format.js';
import { listen, live, start, stop } from './live.js';
import { empty, heading, link, problemBox } from './parts.js';
import { PAGES, find } from './routes.js';
import { forget, look, readOnly, session, signOut } from './session.js';
import { verdict } from './verdict.js';
import { signInPage } from './pages/sign-in.js';

const app = document.getElementById('app');
let page = null; // the page that is shown
let content = nothing;
let failure = null;
let waiting = false; // the page has not drawn anything yet
let leaving = new AbortController();
let menuOpen = false;

function draw() {
  render(session.info ? frame() : signInPage({ begin, failure, redraw: draw }), app);
  if (page && page.drawn) page.drawn();
}

function frame() {
  const status = verdict(live.overview, live.problem);
  return html` <a class="skip" href="#content" @click=${skip}>Skip to the content</a>
    <header class="top">
      <a class="brand" href=${link('overview')}>delaybridge</a>
      <button
        type="button"
        class="menu secondary outline small"
        aria-expanded=${menuOpen ? 'true' : 'false'}
        aria-controls="nav"
        @click=${() => {
          menuOpen = !menuOpen;
          draw();
        }}
      >
        Menu
      </button>
      <div class="who">
        ${readOnly() ? html`<span class="badge">read-only</span>` : nothing}
        ${
          session.info.token_required
            ? html`<span class="muted">${session.info.name}</span>
                <button type="button" class="secondary outline small" @click=${leave}>Sign out</button>`
            : html`<span class="muted">no token needed</span>`
        }
      </div>
    </header>
    <nav id="nav" class=${menuOpen ? 'open' : ''} aria-label="Pages">
      <ul>
        ${PAGES.filter((one) => one.menu).map(
          (one) =>
            html`<li>
              <a href=${link(one.name)} aria-current=${page && page.route.name === one.name ? 'page' : nothing}
                >${one.menu}</a
              >
            </li>`,
        )}
        <li><a href=${address('docs')}>API</a></li>
      </ul>
    </nav>
    <main id="content" tabindex="-1">
      <section class="status ${status.level}" aria-live="polite" aria-label="Status">
        <strong>${status.title}</strong>
        ${live.paused ? html`<span class="muted">paused</span>` : nothing}
        ${
          status.says.length
            ? html`<ul>
                ${status.says.map((text) => html`<li>${text}</li>`)}
              </ul>`
            : nothing
        }
      </section>
      <p class="muted zone">Times are in ${zone()}.</p>
      ${problemBox(failure)} ${content} ${waiting ? empty('Loading …') : nothing}
    </main>
    <div id="toasts" role="status" aria-live="polite"></div>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById('content').focus();
}

// A page that is left cancels its calls, and nobody waits for them any more.
window.addEventListener('unhandledrejection', (event) => {
  if (event.reason && event.reason.name === 'AbortError') event.preventDefault();
});

async function begin() {
  failure = null;
  start();
  await route();
}

async function leave() {
  await signOut();
  stop();
  leaving.abort();
  content = nothing;
  page = null;
  draw();
}

// What a page gets: its parameters, a signal that aborts when it is left, and `show`, which draws a template.
async function route() {
  if (!session.info) return;
  leaving.abort();
  if (page && page.close) page.close();
  leaving = new AbortController();
  const { signal } = leaving;
  const { route: found, params, query } = find(location.hash);
  page = { route: found };
  content = heading(found.title);
  waiting = true;
  failure = null;
  menuOpen = false;
  document.title = `${found.title} · delaybridge`;
  draw();
  window.scrollTo(0, 0);
  const show = (template) => {
    if (signal.aborted) return;
    content = template;
    waiting = false;
    failure = null;
    draw();
  };
  await guarded(async () => {
    const opened = await found.open({ params, query, signal, show, guarded, fail });
    if (!signal.aborted) Object.assign(page, opened);
    draw();
  });
}

function fail(error) {
  if (error.name === 'AbortError') return;
  if (!(error instanceof Problem)) throw error;
  if (error.status === 401) {
    // The session has ended, or the token was revoked.
    forget();
    stop();
    leaving.abort();
  }
  failure = error;
  waiting = false;
  draw();
}

async function guarded(work) {
  try {
    await work();
    return true;
  } catch (error) {
    fail(error);
    return false;
  }
}

window.addEventListener('hashchange', route);
listen(() => {
  if (!session.info) return;
  if (live.problem && live.problem.status === 401) fail(live.problem);
  else if (page && page.tick) page.tick();
  else draw();
});

try {
  await look();
  if (session.info) await begin();
  else draw();
} catch (error) {
  if (!(error instanceof Problem)) throw error;
  if (error.status === 401) forget();
  else failure = error;
  draw();
}
