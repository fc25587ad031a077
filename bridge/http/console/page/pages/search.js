// Finds messages over all topics, and acts on all that match.

import { html, nothing } from '../vendor/lit-html.js';
import { get, withQuery } from '../api.js';
import { bulkButtons } from '../bulk.js';
import { instantOf } from '../format.js';
import { STATES, badge, empty, heading, more, problemBox, readOnlyNote, table, when } from '../parts.js';
import { buttons, messageLink } from '../steer.js';

export const title = 'Search';
const NAMES = ['topic', 'id_prefix', 'label', 'reason', 'reason_pattern', 'due_after', 'due_before', 'order'];

export async function open({ query, signal, show, guarded }) {
  const state = { filter: fromAddress(query), items: null, cursor: null, problem: null, busy: false };
  const draw = () =>
    show(view(state, { search, more: () => load(state.cursor), again: () => load(null), changed, guarded }));

  async function load(cursor) {
    state.busy = true;
    draw();
    try {
      const page = await get(withQuery('v1/messages', { ...state.filter, limit: 100, cursor }), { signal });
      state.items = cursor ? [...state.items, ...page.items] : page.items;
      state.cursor = page.next_cursor;
      state.problem = null;
    } catch (error) {
      if (error.status === undefined) throw error;
      if (error.status === 401) throw error;
      state.problem = error;
    } finally {
      state.busy = false;
    }
    draw();
  }

  function changed(message) {
    state.items = state.items.map((one) => (one.topic === message.topic && one.id === message.id ? message : one));
    draw();
  }

  function search(event) {
    event.preventDefault();
    const form = new FormData(event.target);
    const filter = { state: form.getAll('state') };
    for (const name of NAMES) filter[name] = (form.get(name) || '').trim();
    filter.due_after = instantOf(filter.due_after);
    filter.due_before = instantOf(filter.due_before);
    state.filter = filter;
    // The address names the search, so that it can be bookmarked and shared.
    history.replaceState(null, '', withQuery('#/search', filter));
    guarded(() => load(null));
  }

  await guarded(() => load(null));
}

function fromAddress(query) {
  const filter = Object.fromEntries(NAMES.map((name) => [name, query.get(name) || '']));
  return { ...filter, state: query.getAll('state') };
}

// The filter as the bulk calls take it: without empty values, and the label as an object.
export function bulkFilter(filter) {
  const { label, order, ...rest } = filter;
  const given = Object.entries(rest).filter(([, value]) => value && value.length);
  const [key, ...value] = (label || '').split(':');
  return { ...Object.fromEntries(given), ...(key ? { labels: { [key]: value.join(':') } } : {}) };
}

function localInput(instant) {
  if (!instant) return '';
  const moment = new Date(instant);
  return new Date(moment - moment.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

function view(state, act) {
  const { filter } = state;
  return html` ${heading(title)}
    <form class="search" @submit=${act.search}>
      <div class="grid">
        <label>Topic <input name="topic" .value=${filter.topic} placeholder="orders or orders*" /></label>
        <label>Id begins with <input name="id_prefix" .value=${filter.id_prefix} /></label>
        <label>Label <input name="label" .value=${filter.label} placeholder="customer:42" /></label>
        <label>Reason <input name="reason" .value=${filter.reason} placeholder="retries used up" /></label>
        <label
          >Reason like <input name="reason_pattern" .value=${filter.reason_pattern} placeholder="timeout*"
        /></label>
        <label
          >Due from <input type="datetime-local" step="1" name="due_after" .value=${localInput(filter.due_after)}
        /></label>
        <label
          >Due until <input type="datetime-local" step="1" name="due_before" .value=${localInput(filter.due_before)}
        /></label>
      </div>
      <fieldset class="states">
        <legend>States</legend>
        ${STATES.map(
          (name) =>
            html`<label class="check"
              ><input type="checkbox" name="state" value=${name} .checked=${filter.state.includes(name)} />
              ${name}</label
            >`,
        )}
        <label class="check"
          ><input type="checkbox" name="order" value="desc" .checked=${filter.order === 'desc'} /> latest due
          first</label
        >
      </fieldset>
      <button type="submit" aria-busy=${state.busy ? 'true' : 'false'}>Search</button>
    </form>
    ${problemBox(state.problem)} ${state.items ? results(state, act) : nothing}`;
}

function results(state, act) {
  const { items, cursor, filter } = state;
  if (!items.length && !cursor) return empty('No message matches.');
  return html` ${readOnlyNote('admin')}
    <div class="bar">
      <span>${items.length}${cursor ? ' and more' : ''} found. All that match:</span>
      ${bulkButtons(bulkFilter(filter), act.guarded, act.again)}
    </div>
    ${table(
      'Messages',
      ['Id', 'Topic', 'State', 'Due', 'Reason', ''],
      items.map((one) => [
        messageLink(one),
        one.topic,
        badge(one.state),
        when(one.due_at),
        one.reason || '',
        html`<div class="acts">${buttons(one, act.changed)}</div>`,
      ]),
    )}
    ${more(cursor, act.more, state.busy)}`;
}
