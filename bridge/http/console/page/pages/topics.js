// Lists the topics with their counts and policies.

import { html, nothing } from '../vendor/lit-html.js';
import { get, post, topicPath, withQuery } from '../api.js';
import { ask } from '../dialog.js';
import { count, duration } from '../format.js';
import { every } from '../live.js';
import { button, empty, heading, link, more, readOnlyNote, table } from '../parts.js';
import { queueLink } from '../rabbit.js';
import { toast } from '../toast.js';

export const title = 'Topics';
const PAGE = 100;

export async function open({ signal, show, guarded, query }) {
  const state = { topics: null, cursor: null, prefix: query.get('prefix') || '', pages: 1, busy: false };
  async function load() {
    const topics = [];
    let cursor = '';
    for (let at = 0; at < state.pages && cursor !== null; at += 1) {
      const answer = await get(withQuery('v1/topics', { limit: PAGE, prefix: state.prefix, cursor }), { signal });
      topics.push(...answer.topics);
      cursor = answer.next_cursor;
    }
    Object.assign(state, { topics, cursor });
    draw();
  }

  const draw = () =>
    show(
      view(state, {
        search: (event) => {
          event.preventDefault();
          state.prefix = new FormData(event.target).get('prefix').trim();
          state.pages = 1;
          guarded(load);
        },
        more: () => {
          state.pages += 1;
          guarded(load);
        },
        reload: () => guarded(load),
      }),
    );
  await every(5000, () => guarded(load), signal);
}

function view(state, act) {
  return html` ${heading(title)}
    <form class="filter" @submit=${act.search}>
      <label>Name begins with <input type="search" name="prefix" .value=${state.prefix} /></label>
      <button type="submit" class="small">Filter</button>
    </form>
    ${readOnlyNote('admin')}
    ${
      !state.topics.length
        ? empty('There is no topic with such a name.', html`<a href=${link('send')}>Send a message</a> to make one.`)
        : table(
            'Topics',
            ['Topic', '#Waiting', '#Overdue', '#Ready', '#Leased', '#Dead', '#Late, 99 %', 'Release', 'Queue', ''],
            state.topics.map((one) => row(one, act.reload)),
          )
    }
    ${more(state.cursor, act.more, state.busy)}`;
}

function row(one, reload) {
  const { counts, policy } = one;
  return [
    html`<a href=${link('topic', one.topic)}>${one.topic}</a>
      ${policy.paused ? html`<span class="badge warn">paused</span>` : nothing}`,
    count(counts.waiting),
    count(one.overdue),
    count(counts.ready),
    count(counts.leased),
    counts.dead
      ? html`<a href=${`${link('dead')}?topic=${encodeURIComponent(one.topic)}`}>${count(counts.dead)}</a>`
      : '0',
    one.lateness_ms.p99 === null ? '–' : duration(one.lateness_ms.p99),
    policy.release,
    queueLink(one.topic, one.queues.ready),
    pauseButton(one, reload),
  ];
}

export function pauseButton(one, changed) {
  const { paused } = one.policy;
  const act = async () => {
    const result = await ask({
      title: paused ? 'Resume the topic' : 'Pause the topic',
      text: html`<p>
        Topic <code>${one.topic}</code>.
        ${
          paused
            ? 'Due messages are released again, and pulls get them.'
            : 'Messages are not released and pulls get none, until somebody resumes it. Sends go on.'
        }
      </p>`,
      action: paused ? 'Resume' : 'Pause',
      act: () => post(topicPath(one.topic, paused ? '/resume' : '/pause')),
    });
    if (!result) return;
    toast(`${paused ? 'Resumed' : 'Paused'} ${one.topic}.`);
    changed();
  };
  return button(paused ? 'Resume' : 'Pause', 'admin', act);
}
