// Lists long operations on many messages, with their progress.

import { html, nothing } from '../vendor/lit-html.js';
import { get, post, withQuery } from '../api.js';
import { count } from '../format.js';
import { every } from '../live.js';
import { badge, button, empty, facts, heading, link, table, when } from '../parts.js';
import { toast } from '../toast.js';

export const title = 'Operations';

export async function open({ params: [id], signal, show, guarded }) {
  const load = () =>
    guarded(async () => {
      show(
        id
          ? one(await get(`v1/operations/${encodeURIComponent(id)}`, { signal }), load)
          : list(await get(withQuery('v1/operations', { limit: 50 }), { signal }), load),
      );
    });
  await every(2000, load, signal);
}

function list(page, load) {
  return html` ${heading(title)}
    <p>
      An action on more than 1,000 messages becomes an operation. It goes on when you close this page, and when a bridge
      is killed.
    </p>
    ${
      page.items.length
        ? table(
            'Operations',
            ['Began', 'Action', 'State', 'Progress', '#Failed', ''],
            page.items.map((each) => [
              html`<a href=${link('operations', each.id)}>${when(each.created_at)}</a>`,
              each.action,
              badge(each.state),
              progress(each),
              count(each.failed),
              cancelButton(each, load),
            ]),
          )
        : empty('There was no operation yet.', html`<a href=${link('search')}>Search</a> for messages to act on.`)
    }`;
}

function one(operation, load) {
  return html` ${heading(html`Operation: ${operation.action}`, cancelButton(operation, load))}
    <p><a href=${link('operations')}>All operations</a></p>
    <p>${progress(operation)}</p>
    ${facts([
      ['State', badge(operation.state)],
      ...(operation.reason ? [['Why', operation.reason]] : []),
      ['Matched', count(operation.matched)],
      ['Done', count(operation.done)],
      ['Failed', count(operation.failed)],
      ['Began', when(operation.created_at)],
      ['Ended', when(operation.ended_at)],
      ['Token', operation.token_id || '–'],
      ['Filter', html`<code>${JSON.stringify(operation.filter)}</code>`],
    ])}
    ${
      operation.failures && operation.failures.length
        ? html`<section>
            <h2>Failures</h2>
            ${table(
              'Failures',
              ['Topic', 'Id', 'Why'],
              operation.failures.map((each) => [
                each.topic,
                html`<a href=${link('message', each.topic, each.id)}>${each.id}</a>`,
                each.detail,
              ]),
            )}
          </section>`
        : nothing
    }`;
}

function progress(operation) {
  const { done, matched, failed } = operation;
  return html`<progress value=${done + failed} max=${Math.max(1, matched)} aria-label="Progress"></progress>
    <small>${count(done)} of ${count(matched)}</small>`;
}

function cancelButton(operation, load) {
  if (operation.state !== 'running') return nothing;
  return button('Cancel', 'admin', async () => {
    try {
      await post(`v1/operations/${encodeURIComponent(operation.id)}/cancel`);
      toast('The operation is cancelled. What is done stays done.');
    } catch (error) {
      if (error.status === undefined) throw error;
      toast(error.message);
    }
    load();
  });
}
