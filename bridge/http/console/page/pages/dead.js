// Shows dead letters by reason, and replays or deletes one or all of a reason.

import { html, nothing } from '../vendor/lit-html.js';
import { get, withQuery } from '../api.js';
import { bulkButtons } from '../bulk.js';
import { count } from '../format.js';
import { byReason, NO_REASON, readsOn } from '../letters.js';
import { button, heading, link, more, notice, readOnlyNote, table, when } from '../parts.js';
import { buttons, messageLink } from '../steer.js';

export const title = 'Dead letters';
const LIMIT = 1000;

export async function open({ query, signal, show, guarded }) {
  const state = { topic: query.get('topic') || '', reason: query.get('reason'), items: null, cursor: null };
  const draw = () =>
    show(
      view(state, {
        reload: () => guarded(() => load()),
        more: () => guarded(() => load(state.cursor)),
        guarded,
        choose,
      }),
    );

  function choose(reason) {
    state.reason = reason;
    draw();
  }

  async function load(cursor) {
    const page = await get(withQuery('v1/messages', { topic: state.topic, state: 'dead', limit: LIMIT, cursor }), {
      signal,
    });
    Object.assign(state, { items: cursor ? [...state.items, ...page.items] : page.items, cursor: page.next_cursor });
    draw();
    if (readsOn(state)) await load(state.cursor);
  }
  await guarded(() => load());
}

function view(state, act) {
  const reasons = byReason(state.items);
  const shown = state.reason ? reasons.get(state.reason) || [] : state.items;
  return html` ${heading(title, state.topic ? html`<span>Topic <code>${state.topic}</code></span>` : nothing)}
  ${state.topic ? html`<p><a href=${link('dead')}>Of all topics</a> · <a href=${link('topic', state.topic)}>The topic</a></p>` : nothing}
  ${
    !state.items.length && !state.cursor
      ? notice('ok', 'There are no dead letters.')
      : html` ${readOnlyNote('admin')}
          <section>
            <h2>By reason</h2>
            ${state.cursor ? html`<p class="muted">
                  Only of the first ${count(state.items.length)} letters. There are more: the buttons act on all of a
                  reason.
                </p>` : nothing}
            ${table(
              'Dead letters by reason',
              ['Reason', '#Letters', ''],
              [...reasons].map(([reason, letters]) => [
                html`<button type="button" class="link" @click=${() => act.choose(reason)}>${reason}</button>`,
                count(letters.length),
                html`<div class="acts">${allOf(state, reason, act)}</div>`,
              ]),
            )}
          </section>
          <section>
            <h2>${state.reason || 'All letters'}</h2>
            ${state.reason ? html`<p>${button('Show all reasons', '', () => act.choose(null))}</p>` : nothing}
            ${table(
              'Dead letters',
              ['Id', 'Topic', '#Deliveries', 'Died', 'Reason', ''],
              shown.map((one) => [
                messageLink(one),
                one.topic,
                count(one.attempts),
                when(one.ended_at),
                one.reason || '–',
                html`<div class="acts">${buttons(one, act.reload)}</div>`,
              ]),
            )}
            ${more(state.cursor, act.more, false)}
          </section>`
  }`;
}

// The buttons for all letters of a reason.
function allOf(state, reason, act) {
  const filter = { state: ['dead'] };
  if (state.topic) filter.topic = state.topic;
  filter.reason = reason === NO_REASON ? '' : reason;
  return bulkButtons(filter, act.guarded, act.reload);
}
