// What an operator does with one message. Each function asks first, and resolves to the message as it is then, or null.

import { html } from './vendor/lit-html.js';
import { call, messagePath, post, topicPath } from './api.js';
import { ask } from './dialog.js';
import { relative } from './format.js';
import { button, link, when } from './parts.js';
import { toast } from './toast.js';

function letterPath(letter, rest = '') {
  return topicPath(letter.topic, `/dead/${encodeURIComponent(letter.id)}${rest}`);
}

function named(message) {
  return html`<p>
    Message <code>${message.id}</code> of the topic <code>${message.topic}</code>, due ${when(message.due_at)}.
  </p>`;
}

export const delayField = html`<label
  >New delay, counted from now
  <input
    name="delay"
    required
    value="15m"
    pattern="[0-9]+(.[0-9]+)?(ms|s|m|h|d)([0-9]+(.[0-9]+)?(ms|s|m|h|d))*|0"
    title="such as 90s, 15m, 2h or 7d"
  /><small>Such as 90s, 15m, 2h or 7d.</small></label
>`;

async function done(asked, text) {
  const result = await asked;
  if (result) toast(text(result));
  return result;
}

export function move(message) {
  return done(
    ask({
      title: 'Move the message',
      text: named(message),
      fields: delayField,
      action: 'Move',
      act: ({ delay }) =>
        call('PATCH', messagePath(message.topic, message.id), { body: { delay: delay === '0' ? 0 : delay } }),
    }),
    (moved) => `Moved ${moved.id}: due ${relative(moved.due_at)}.`,
  );
}

export function runNow(message) {
  return done(
    ask({
      title: 'Run the message now',
      text: html`${named(message)}
        <p>It is released in a moment.</p>`,
      action: 'Run now',
      act: () => call('PATCH', messagePath(message.topic, message.id), { body: { delay: 0 } }),
    }),
    (moved) => `${moved.id} is due now.`,
  );
}

export function remove(message) {
  return done(
    ask({
      title: 'Delete the message',
      action: 'Delete',
      danger: true,
      text: html`${named(message)}
        <p>No consumer gets it. This can't be undone.</p>`,
      act: () => call('DELETE', messagePath(message.topic, message.id)),
    }),
    (deleted) => `Deleted ${deleted.id}.`,
  );
}

export function replay(letter) {
  return done(
    ask({
      title: 'Replay the dead letter',
      action: 'Replay',
      text: html`${named(letter)}
        <p>It becomes ready again, and its attempts are counted from the start.</p>`,
      act: () => post(letterPath(letter, '/replay')),
    }),
    (replayed) => `Replayed ${replayed.id}.`,
  );
}

export function drop(letter) {
  return done(
    ask({
      title: 'Delete the dead letter',
      action: 'Delete',
      danger: true,
      text: html`${named(letter)}
        <p>It is gone for good. This can't be undone.</p>`,
      act: () => call('DELETE', letterPath(letter)),
    }),
    (dropped) => `Deleted the dead letter ${dropped.id}.`,
  );
}

// The buttons that fit the message's state. `changed` gets the message as it is then.
export function buttons(message, changed) {
  const act = (work) => async () => {
    const result = await work(message);
    if (result) changed(result);
  };
  const { state } = message;
  if (state === 'dead') {
    return [button('Replay', 'admin', act(replay)), button('Delete', 'admin', act(drop), { kind: 'danger' })];
  }
  return [
    state === 'waiting' ? [button('Move', 'send', act(move)), button('Run now', 'send', act(runNow))] : [],
    ['waiting', 'ready', 'leased'].includes(state) ? button('Delete', 'send', act(remove), { kind: 'danger' }) : [],
  ];
}

export function messageLink(message) {
  return html`<a href=${link('message', message.topic, message.id)}><code>${message.id}</code></a>`;
}
