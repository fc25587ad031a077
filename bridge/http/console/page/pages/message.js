// Shows one message: its record, its body as text, and what happened to it.

import { html, nothing } from '../vendor/lit-html.js';
import { get, messagePath } from '../api.js';
import { count, duration, local } from '../format.js';
import { every } from '../live.js';
import { badge, empty, facts, heading, link, table, when } from '../parts.js';
import { buttons } from '../steer.js';

export const title = 'Message';

export async function open({ params: [topic, id], signal, show, guarded }) {
  let message = null;
  let timeline = null;
  const draw = () =>
    show(
      view(message, timeline, (changed) => {
        message = { ...message, ...changed };
        load();
      }),
    );
  const load = () =>
    guarded(async () => {
      message = await get(messagePath(topic, id), { signal });
      timeline = await get(messagePath(topic, id, '/timeline'), { signal });
      draw();
    });
  await every(3000, load, signal);
}

function view(message, timeline, changed) {
  return html` ${heading(html`Message <code>${message.id}</code>`, buttons(message, changed))}
    ${facts(
      [
        ['Topic', html`<a href=${link('topic', message.topic)}>${message.topic}</a>`],
        ['State', badge(message.state)],
        ['Due', when(message.due_at)],
        ['Created', when(message.created_at)],
        ['Deliveries', `${count(message.attempts)} of ${count(message.max_retry + 1)}`],
        message.lease_until ? ['Leased until', when(message.lease_until)] : null,
        message.expires_at ? ['Expires', when(message.expires_at)] : null,
        message.ended_at ? ['Ended', when(message.ended_at)] : null,
        message.reason ? ['Reason', message.reason] : null,
        message.to ? ['To exchange', message.to.exchange] : null,
        message.to ? ['Routing key', message.to.routing_key || '(empty)'] : null,
        ...Object.entries(message.labels || {}).map(([key, value]) => [`Label ${key}`, value]),
      ].filter(Boolean),
    )}
    <section aria-labelledby="body-title">
      <h2 id="body-title">Body</h2>
      ${body(message)}
    </section>
    ${
      Object.keys(message.headers).length
        ? html`<section>
            <h2>Headers</h2>
            ${facts(Object.entries(message.headers).map(([name, value]) => [name, String(value)]))}
          </section>`
        : nothing
    }
    <section aria-labelledby="timeline-title">
      <h2 id="timeline-title">What happened</h2>
      ${happened(timeline)}
    </section>`;
}

// Always as text: nothing of a body is read as HTML.
function body(message) {
  if (message.body_base64 !== undefined) {
    return html`<p class="muted">Bytes of the type ${message.content_type || 'unknown'}, in base64.</p>
      <pre tabindex="0">${message.body_base64}</pre>`;
  }
  if (message.body === undefined) {
    return empty('Redis did not keep the body. It is in RabbitMQ alone.');
  }
  const text = typeof message.body === 'string' ? message.body : JSON.stringify(message.body, null, 2);
  return html`<p class="muted">${message.content_type}</p>
    <pre tabindex="0">${text}</pre>`;
}

function happened(timeline) {
  if (!timeline.items || !timeline.items.length) return empty('No timeline was kept (BRIDGE_TIMELINE).');
  return html` ${timeline.complete === false ? html`<p class="muted">Older entries were dropped.</p>` : nothing}
  ${table(
    'What happened to the message',
    ['When', 'What', '#Attempt', 'Late by', 'Where, who and why'],
    timeline.items.map((one) => [
      html`<time datetime=${one.at} title=${one.at}>${local(one.at)}.${one.at.slice(20, 23)}</time>`,
      one.what,
      one.attempt ?? '–',
      one.late_ms === null || one.late_ms === undefined ? '–' : duration(one.late_ms),
      [one.slot, one.token_id && `token ${one.token_id}`, one.reason].filter(Boolean).join(', '),
    ]),
  )}`;
}
