// Lists what operators did, the newest first.

import { html } from '../vendor/lit-html.js';
import { get, withQuery } from '../api.js';
import { count } from '../format.js';
import { badge, empty, heading, link, more, table, when } from '../parts.js';
import { whyNot } from '../session.js';

export const title = 'Operators’ actions';

export async function open({ query, signal, show, guarded }) {
  const reason = whyNot('admin');
  if (reason) {
    show(html`${heading(title)}${empty(reason, 'Sign in with such a token to see what operators did.')}`);
    return;
  }
  const state = { topic: query.get('topic') || '', items: [], cursor: null };
  async function load(cursor) {
    const page = await get(withQuery('v1/actions', { topic: state.topic, cursor }), { signal });
    state.items = cursor ? [...state.items, ...page.items] : page.items;
    state.cursor = page.next_cursor;
    draw();
  }
  const draw = () =>
    show(
      html` ${heading(title)}
      ${state.topic ? html`<p>On the topic <code>${state.topic}</code>. <a href=${link('actions')}>All topics</a></p>` : ''}
      ${
        state.items.length
          ? table(
              'Operators’ actions',
              ['When', 'Who', 'What', 'Topic', 'Target', '#Messages', 'Request'],
              state.items.map((one) => [
                when(one.at),
                one.name ? html`${one.name} <small>${one.who}</small>` : one.who,
                html`${one.what} ${one.done ? '' : badge('in doubt')}`,
                one.topic || '–',
                one.target || '–',
                count(one.count),
                one.request_id ? html`<code>${one.request_id}</code>` : '–',
              ]),
            )
          : empty('No operator has changed anything yet.')
      }
      ${more(state.cursor, () => guarded(() => load(state.cursor)), false)}`,
    );
  await guarded(() => load(null));
}
