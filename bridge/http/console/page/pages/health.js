// Shows each part of the bridge, and each finding with its remedy.

import { html, nothing } from '../vendor/lit-html.js';
import { call } from '../api.js';
import { every } from '../live.js';
import { heading, notice, table } from '../parts.js';

export const title = 'Health';

const PARTS = {
  broker: 'RabbitMQ: holds the messages',
  store: 'Redis: holds the records',
  checkpoint: 'releases due messages',
  ingress: 'accepts messages of AMQP clients with a delay',
  acks: 'reads recorded acks of AMQP consumers',
  leases: 'publishes the copies that end leases',
  operations: 'works on bulk operations',
  schedules: 'plans the ticks of schedules',
  audit: 'sends again what was lost',
  watch: 'inspects RabbitMQ and Redis',
  push: 'posts messages to receivers',
  access: 'reads the tokens',
  process: 'this process',
};

export async function open({ signal, show, guarded }) {
  await every(
    3000,
    () => guarded(async () => show(view(await call('GET', 'health/ready', { signal, also: [503] })))),
    signal,
  );
}

function view(health) {
  const findings = health.findings || [];
  return html` ${heading(title)}
    <section>
      <h2>Parts</h2>
      ${table(
        'Parts',
        ['Part', 'State', 'What it does'],
        Object.entries(health.parts || {}).map(([part, state]) => [
          part,
          html`<span class="badge ${state === 'ok' ? 'ok' : 'bad'}">${state === 'ok' ? 'ok' : 'not ok'}</span>
            ${state === 'ok' ? nothing : state}`,
          PARTS[part.split('/').pop()] || '',
        ]),
      )}
    </section>
    <section>
      <h2>Findings</h2>
      ${
        findings.length
          ? findings.map((finding) =>
              notice(
                finding.severity === 'error' ? 'bad' : 'warn',
                html`<strong>${finding.severity === 'error' ? 'Breaks a promise' : 'May break a promise'}</strong>
                  <p>${finding.says}.</p>
                  ${finding.remedy ? html`<p><strong>Remedy:</strong> ${finding.remedy}.</p>` : nothing}`,
              ),
            )
          : notice('ok', 'No finding: RabbitMQ and Redis are as the bridge needs them.')
      }
      <p class="muted">RabbitMQ’s policies: ${health.policies}. The watch looks again every minute.</p>
    </section>`;
}
