// Lists the topics whose messages are posted to a receiver, and how the calls went.

import { html, nothing } from '../vendor/lit-html.js';
import { call, firstPages, topicPath } from '../api.js';
import { ask } from '../dialog.js';
import { count, duration } from '../format.js';
import { every } from '../live.js';
import { button, empty, heading, link, more, table, when } from '../parts.js';
import { receiverState } from '../receivers.js';
import { whyNot } from '../session.js';
import { toast } from '../toast.js';

export const title = 'Subscriptions';

export async function open({ signal, show, guarded }) {
  const reason = whyNot('admin');
  if (reason) {
    show(html`${heading(title)}${empty(reason, 'Sign in with such a token to see subscriptions.')}`);
    return;
  }
  const state = { items: [], cursor: null, pages: 1 };
  const load = () =>
    guarded(async () => {
      Object.assign(state, await firstPages('v1/subscriptions', state.pages, { signal }));
      show(view(state, load));
    });
  await every(5000, load, signal);
}

function view(state, load) {
  if (!state.items.length) {
    return html`${heading(title)}${empty(
      'No topic has a subscription.',
      html`Make one with <code>PUT /v1/topics/TOPIC/subscription</code>.`,
    )}`;
  }
  return html`${heading(title)}
  ${table(
    'Subscriptions',
    ['Topic', 'Receiver', 'State', '#Delivered', '#Failed', 'Last delivered', 'Latest failure', ''],
    state.items.map((one) => [
      html`<a href=${link('topic', one.topic)}>${one.topic}</a>`,
      html`<code>${one.url || 'each message names it'}</code>`,
      stateOf(one),
      count(one.delivered),
      count(one.failed),
      when(one.last_delivered_at),
      one.last_failure
        ? html`${one.last_failure.reason}: ${one.last_failure.detail}
            <a href=${link('message', one.topic, one.last_failure.id)}>message</a>, ${when(one.last_failure.at)}`
        : '–',
      button('Remove', 'admin', () => remove(one, load), { kind: 'danger' }),
    ]),
  )}
  ${more(
    state.cursor,
    () => {
      state.pages += 1;
      load();
    },
    false,
  )}`;
}

function stateOf(one) {
  const [says, level] = receiverState(one);
  return html`<span class="badge ${level}">${says}</span>
    ${one.held_ms ? html`<small>for ${duration(one.held_ms)}</small>` : nothing}`;
}

async function remove(one, load) {
  const result = await ask({
    title: 'Remove the subscription',
    action: 'Remove',
    danger: true,
    text: html`<p>The bridge stops posting messages of <code>${one.topic}</code>. The topic keeps its messages.</p>`,
    act: () => call('DELETE', topicPath(one.topic, '/subscription')),
  });
  if (!result) return;
  toast(`Removed the subscription of ${one.topic}.`);
  load();
}
