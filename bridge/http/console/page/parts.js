// Pieces that several pages show.

import { html, nothing } from './vendor/lit-html.js';
import { count, local, relative } from './format.js';
import { whyNot } from './session.js';

export const STATES = ['waiting', 'ready', 'leased', 'acked', 'expired', 'dead', 'deleted'];

export function link(page, ...parts) {
  return `#/${[page, ...parts].map(encodeURIComponent).join('/')}`;
}

export function heading(title, ...beside) {
  return html`<header class="page-head">
    <h1>${title}</h1>
    <div class="beside">${beside}</div>
  </header>`;
}

export function badge(state) {
  return html`<span class="badge ${state}">${state}</span>`;
}

export function when(instant) {
  if (!instant) return html`–`;
  return html`<time datetime=${instant} title=${instant}
    >${local(instant)} <small>(${relative(instant)})</small></time
  >`;
}

export function problemBox(problem) {
  if (!problem) return nothing;
  return html`<div class="notice bad" role="alert">
    <strong>${problem.title || 'Something went wrong'}</strong>
    <p>${problem.message}</p>
    ${(problem.fields || []).map((field) => html`<p><code>${field.field}</code> ${field.message}</p>`)}
    ${problem.next ? html`<p>${problem.next}</p>` : nothing}
    ${
      problem.requestId
        ? html`<p>
            <small>Request <code>${problem.requestId}</code></small>
          </p>`
        : nothing
    }
  </div>`;
}

export function notice(level, ...content) {
  return html`<div class="notice ${level}" role="status">${content}</div>`;
}

export function empty(text, next = nothing) {
  return html`<p class="empty">${text} ${next}</p>`;
}

// `columns`: titles; one that begins with `#` is of numbers. `rows`: lists of cells.
export function table(caption, columns, rows) {
  const numeric = columns.map((column) => column.startsWith('#'));
  // A wide table scrolls in its own box, which the keyboard can reach.
  return html`<div class="scroll" role="region" aria-label=${caption} tabindex="0">
    <table>
      <caption class="hidden">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map(
            (column, at) =>
              html`<th scope="col" class=${numeric[at] ? 'number' : ''}>
                ${column.replace('#', '') || html`<span class="hidden">Actions</span>`}
              </th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (cells) =>
            html`<tr>
              ${cells.map((cell, at) => html`<td class=${numeric[at] ? 'number' : ''}>${cell}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

export function facts(pairs) {
  return html`<dl class="facts">
    ${pairs.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

export function tile(name, value, { level = '', hint = '', href = '' } = {}) {
  const inner = html`<span class="tile-name">${name}</span
    ><span class="tile-value">${value}</span> ${hint ? html`<span class="tile-hint">${hint}</span>` : nothing}`;
  return href
    ? html`<a class="tile ${level}" href=${href}>${inner}</a>`
    : html`<div class="tile ${level}">${inner}</div>`;
}

// A button that is disabled, with the reason, if the token does not have the scope.
export function button(label, scope, act, { kind = 'secondary', title = '', disabled = false } = {}) {
  const reason = scope ? whyNot(scope) : '';
  return html`<button
    type="button"
    class="${kind} outline small"
    ?disabled=${Boolean(reason) || disabled}
    title=${reason || title || nothing}
    @click=${act}
  >
    ${label}
  </button>`;
}

export function readOnlyNote(scope) {
  const reason = whyNot(scope);
  return reason ? html`<p class="muted">${reason} Buttons that need it are off.</p>` : nothing;
}

// `label`: says what the chart in the element `id` shows.
export function figure(title, id, label) {
  return html`<figure class="chart">
    <figcaption>${title}</figcaption>
    <div class="plot" id=${id} role="img" aria-label=${label}></div>
  </figure>`;
}

export function total(numbers) {
  return count(numbers.reduce((sum, number) => sum + number, 0));
}

export function more(cursor, act, busy) {
  return cursor
    ? html`<button type="button" class="secondary outline" ?disabled=${busy} @click=${act}>More</button>`
    : nothing;
}
