// Links to RabbitMQ's own pages.

import { html } from './vendor/lit-html.js';
import { live } from './live.js';

export function queueLink(topic, queue) {
  const pages = (live.overview && live.overview.queues_pages) || {};
  const namespace = topic.includes('/') ? topic.split('/')[0] : '';
  const page = pages[namespace] !== undefined ? pages[namespace] : pages[''];
  if (!page) return html`<code>${queue}</code>`;
  return html`<a
    href=${page + encodeURIComponent(queue)}
    target="_blank"
    rel="noreferrer"
    title="in RabbitMQ’s management UI"
    ><code>${queue}</code> ↗</a
  >`;
}
