// Lists schedules, and shows one with its next ticks.

import { html, nothing } from '../vendor/lit-html.js';
import { call, firstPages, get, post } from '../api.js';
import { ask } from '../dialog.js';
import { count, duration } from '../format.js';
import { every } from '../live.js';
import { button, empty, facts, heading, link, more, table, when } from '../parts.js';
import { toast } from '../toast.js';

export const title = 'Schedules';

export async function open({ params: [name], signal, show, guarded }) {
  const state = { items: [], cursor: null, pages: 1, removing: false, loading: null };
  const read = async () => {
    if (name) {
      show(one(await get(path(name), { signal }), load, state));
      return;
    }
    Object.assign(state, await firstPages('v1/schedules', state.pages, { signal }));
    show(list(state, load));
  };
  const load = () => {
    if (!state.removing) state.loading = guarded(read);
    return state.loading;
  };
  await every(5000, load, signal);
}

const path = (name, rest = '') => `v1/schedules/${encodeURIComponent(name)}${rest}`;

function list(state, load) {
  if (!state.items.length) {
    return html`${heading(title)}${empty(
      'There is no schedule.',
      html`Make one with <code>delaybridge schedule set</code> or <code>PUT /v1/schedules/NAME</code>.`,
    )}`;
  }
  return html`${heading(title)}
  ${table(
    'Schedules',
    ['Name', 'Topic', 'State', 'Ticks', 'Next', 'Last', '#Sent', '#Missed', ''],
    state.items.map((each) => [
      html`<a href=${link('schedules', each.name)}>${each.name}</a>`,
      html`<a href=${link('topic', each.topic)}>${each.topic}</a>`,
      stateOf(each),
      ticksOf(each),
      when(each.next.length ? each.next[0].due_at : null),
      when(each.last_at),
      count(each.sent),
      count(each.missed_ticks),
      pauseButton(each, load),
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

function one(schedule, load, state) {
  const { message } = schedule;
  return html` ${heading(
    html`Schedule: ${schedule.name}`,
    button('Send now', 'admin', () => act(schedule, 'trigger', 'Sent the message now.', load)),
    pauseButton(schedule, load),
    button('Remove', 'admin', () => remove(schedule, state), { kind: 'danger' }),
  )}
  <p><a href=${link('schedules')}>All schedules</a></p>
  ${facts([
    ['State', stateOf(schedule)],
    ['Topic', html`<a href=${link('topic', schedule.topic)}>${schedule.topic}</a>`],
    ['Ticks', ticksOf(schedule)],
    ['Start', when(schedule.start)],
    ['End', when(schedule.end)],
    ['Jitter', duration(schedule.jitter_ms)],
    ['Missed ticks', schedule.missed],
    ['Overlap', schedule.overlap],
    ['Last tick', when(schedule.last_at)],
    ['Sent', count(schedule.sent)],
    ['Missed', count(schedule.missed_ticks)],
    ['Overlapped', count(schedule.overlapped)],
    ['Refused', count(schedule.refused)],
    ['Latest failure', schedule.failure || '–'],
    ['Changed', when(schedule.changed_at)],
    ['Token', schedule.token_id || '–'],
    ['Content type', message.content_type],
    ['Body', html`<code>${'body' in message ? JSON.stringify(message.body) : message.body_base64}</code>`],
  ])}
  <section>
    <h2>Next ticks</h2>
    ${
      schedule.next.length
        ? table(
            'Next ticks',
            ['Tick', 'Due'],
            schedule.next.map((tick) => [when(tick.at), when(tick.due_at)]),
          )
        : empty(schedule.state === 'paused' ? 'It is paused.' : 'No tick follows.')
    }
  </section>`;
}

function stateOf(schedule) {
  return html`<span class="badge ${schedule.state === 'active' ? 'ok' : 'warn'}">${schedule.state}</span>`;
}

function ticksOf(schedule) {
  if (!schedule.cron) return html`every ${duration(schedule.every_ms)}`;
  return html`<code>${schedule.cron}</code> ${schedule.timezone === 'UTC' ? nothing : html`<small>${schedule.timezone}</small>`}`;
}

function pauseButton(schedule, load) {
  return schedule.state === 'paused'
    ? button('Resume', 'admin', () => act(schedule, 'resume', `Resumed ${schedule.name}.`, load))
    : button('Pause', 'admin', () => act(schedule, 'pause', `Paused ${schedule.name}. No tick fires.`, load));
}

async function act(schedule, what, said, load) {
  try {
    await post(path(schedule.name, `/${what}`));
    toast(said);
  } catch (error) {
    if (error.status === undefined) throw error;
    toast(error.message);
  }
  load();
}

async function remove(schedule, state) {
  const result = await ask({
    title: 'Remove the schedule',
    action: 'Remove',
    danger: true,
    text: html`<p>No tick of <code>${schedule.name}</code> fires any more. Messages of former ticks stay.</p>`,
    act: async () => {
      // The page asks no more for a schedule that may be gone.
      state.removing = true;
      await state.loading;
      try {
        return await call('DELETE', path(schedule.name));
      } catch (error) {
        state.removing = false;
        throw error;
      }
    },
  });
  if (!result) return;
  toast(`Removed the schedule ${schedule.name}.`);
  window.location.hash = link('schedules');
}
