// Shows one topic: counts, when its messages are due, and its policy.

import { html } from '../vendor/lit-html.js';
import { get, topicPath } from '../api.js';
import { count, duration } from '../format.js';
import { every } from '../live.js';
import { facts, heading, link, table, tile } from '../parts.js';
import { queueLink } from '../rabbit.js';
import { pauseButton } from './topics.js';

export const title = 'Topic';

export async function open({ params: [name], signal, show, guarded }) {
  const load = () => guarded(async () => show(view(await get(topicPath(name), { signal }), load)));
  await every(5000, load, signal);
}

function view(topic, reload) {
  const { counts, policy, effective } = topic;
  const setting = (name, written) =>
    effective.defaults.includes(name) ? `${written} (the bridge’s setting)` : written;
  const search = (more) => `${link('search')}?topic=${encodeURIComponent(topic.topic)}${more}`;
  return html` ${heading(`Topic ${topic.topic}`, pauseButton(topic, reload))}
    <p>
      <a href=${search('')}>Messages</a> ·
      <a href=${`${link('dead')}?topic=${encodeURIComponent(topic.topic)}`}>Dead letters</a> ·
      <a href=${`${link('send')}?topic=${encodeURIComponent(topic.topic)}`}>Send a test message</a> ·
      <a href=${`${link('actions')}?topic=${encodeURIComponent(topic.topic)}`}>Operators’ actions</a>
    </p>
    <div class="tiles">
      ${Object.entries(counts).map(([state, number]) =>
        tile(state, count(number), {
          href: search(`&state=${state}`),
          level: state === 'dead' && number ? 'warn' : '',
        }),
      )}
      ${tile('overdue', count(topic.overdue), { level: topic.overdue ? 'warn' : 'ok' })}
    </div>
    <section>
      <h2>Waiting, by time until due</h2>
      ${table(
        'Waiting messages by time until due',
        ['Due within', '#Messages'],
        Object.entries(topic.waiting_by_due).map(([edge, number]) => [
          edge === 'beyond' ? 'later' : edge,
          count(number),
        ]),
      )}
    </section>
    <section>
      <h2>Policy</h2>
      ${facts([
        ['Release', policy.release === 'direct' ? 'direct: RabbitMQ releases without a check' : 'checked'],
        ['Paused', policy.paused ? 'yes' : 'no'],
        ['Retries', setting('max_retry', count(effective.max_retry))],
        ['Time to live', setting('ttl_ms', effective.ttl_ms === null ? 'none' : duration(effective.ttl_ms))],
        ['Lease', setting('lease_ms', duration(effective.lease_ms))],
        ['Back-off', setting('backoff', backoff(effective))],
        [
          'Largest kept body',
          policy.keep_body_max === null ? 'the bridge’s setting' : `${count(policy.keep_body_max)} bytes`,
        ],
      ])}
      <p class="muted">Change it with <code>PATCH /v1/topics/${topic.topic.replace('/', '%2F')}</code>.</p>
    </section>
    <section>
      <h2>Queues in RabbitMQ</h2>
      ${facts([
        ['Ready', queueLink(topic.topic, topic.queues.ready)],
        ['Dead letters', queueLink(topic.topic, topic.queues.dead)],
      ])}
    </section>
    <section>
      <h2>Lateness of the latest releases</h2>
      ${facts(Object.entries(topic.lateness_ms).map(([name, ms]) => [name, ms === null ? '–' : duration(ms)]))}
    </section>`;
}

function backoff({ backoff: given, jitter }) {
  const longest = given.steps_ms ? Math.max(...given.steps_ms) : Math.min(given.first_ms, given.max_ms);
  if (!longest) return 'none: a failed message is ready at once';
  if (given.steps_ms) return given.steps_ms.map(duration).join(', ');
  const more = jitter ? `, and up to ${jitter * 100} % longer` : '';
  return `from ${duration(given.first_ms)}, times ${given.factor}, up to ${duration(given.max_ms)}${more}`;
}
