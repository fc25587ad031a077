// Shows at a glance whether messages are on time.

import { html, nothing } from '../vendor/lit-html.js';
import { bars, lines } from '../chart.js';
import { count, duration, rate } from '../format.js';
import { live } from '../live.js';
import { empty, figure, heading, link, table, tile, total } from '../parts.js';
import { lateShare } from '../verdict.js';

export const title = 'Overview';
const RATES = ['accepted', 'released', 'acked'];
const SPANS = [
  ['minute', 60000],
  ['hour', 3600000],
  ['day', 86400000],
];

export function open({ show }) {
  const charts = SPANS.map(([name, span]) => [name, bars(`due-${name}`, span)]);
  const rates = lines('rates', RATES);
  const drawn = () => {
    const { overview, history } = live;
    if (!overview) return;
    const places = Array.from({ length: 12 }, (_, at) => at);
    if (overview.due) for (const [name, chart] of charts) chart.show([places, overview.due[name]]);
    rates.show([
      history.map((one) => one.at - history.at(-1).at),
      ...RATES.map((name) => history.map((one) => one[name])),
    ]);
  };
  const tick = () => show(view());
  tick();
  return { drawn, tick, close: () => [...charts.map(([, chart]) => chart), rates].forEach((chart) => chart.close()) };
}

function view() {
  const { overview } = live;
  if (!overview) return html`${heading(title)}${empty('The first figures come in a moment.')}`;
  return html`
    ${heading(title)}
    <div class="tiles">${overview.counts ? stateTiles(overview) : nothing} ${flowTiles(overview)}</div>
    ${overview.due ? whatFallsDue(overview.due) : empty('Redis does not answer, so nothing says how many messages wait.')}
    ${perSecond(overview.rates)}
    ${worst(overview.worst.filter((one) => one.oldest_overdue_ms > 1000 || one.oldest_ready_ms > 60000 || one.dead))}
  `;
}

function stateTiles({ counts, due, oldest_overdue_ms: overdueMs, oldest_ready_ms: readyMs, topics }) {
  const pastDue = `${count(due.overdue)} past due${overdueMs ? '' : ', in paused topics'}`;
  return html`
    ${tile('Oldest overdue', overdueMs ? duration(overdueMs) : 'none', {
      level: overdueMs > 60000 ? 'bad' : overdueMs > 1000 ? 'warn' : 'ok',
      hint: due.overdue ? pastDue : 'nothing is past due',
    })}
    ${tile('Oldest ready', readyMs ? duration(readyMs) : 'none', {
      level: readyMs > 300000 ? 'warn' : '',
      hint: `${count(counts.ready)} ready`,
    })}
    ${tile('Waiting', count(counts.waiting), { hint: `in ${count(topics)} topics`, href: link('topics') })}
    ${tile('Leased', count(counts.leased))}
    ${tile('Dead letters', count(counts.dead), {
      level: counts.dead ? 'warn' : '',
      href: link('dead'),
      hint: 'by reason',
    })}
  `;
}

function flowTiles({ lateness, rates }) {
  const released = lateness ? lateness.released : 0;
  return html`
    ${tile('Late by, 99 %', released && lateness.p99_ms !== null ? `≤ ${duration(lateness.p99_ms)}` : '–', {
      level: lateShare(lateness) > 0.01 ? 'warn' : '',
      hint: released ? `${count(lateness.late)} of ${count(released)} over 100 ms` : 'no release lately',
    })}
    ${RATES.map((name) => tile(`${name} a second`, rate(rates && rates[name])))}
  `;
}

function whatFallsDue(due) {
  return html`<section aria-labelledby="due-title">
    <h2 id="due-title">What falls due</h2>
    <div class="charts">
      ${SPANS.map(([name]) =>
        figure(
          `In the next ${name}: ${total(due[name])}`,
          `due-${name}`,
          `Due in the next ${name}, in twelve steps: ${due[name].join(', ')}`,
        ),
      )}
    </div>
    <p class="muted">Later than a day: ${count(due.later)}.</p>
  </section>`;
}

function perSecond(rates) {
  const keys = RATES.map((name, at) => html`<span class="key key-${at + 1}">${name}</span>`);
  const says = rates ? RATES.map((name) => `${name} ${rate(rates[name])}`).join(', ') : 'no figures yet';
  return html`<section aria-labelledby="rates-title">
    <h2 id="rates-title">Messages a second</h2>
    ${figure(keys, 'rates', `Messages a second: ${says}`)}
    <p class="muted">Counted by the bridge process that answers and its workers, since you opened the console.</p>
  </section>`;
}

function worst(topics) {
  if (!topics.length) return nothing;
  return html`<section aria-labelledby="worst-title">
    <h2 id="worst-title">Topics to look at</h2>
    ${table(
      'Topics to look at',
      ['Topic', '#Overdue', '#Oldest overdue', '#Ready', '#Oldest ready', '#Dead'],
      topics.map((one) => [
        html`<a href=${link('topic', one.topic)}>${one.topic}</a>
          ${one.paused ? html`<span class="badge">paused</span>` : nothing}`,
        count(one.overdue),
        one.oldest_overdue_ms ? duration(one.oldest_overdue_ms) : '–',
        count(one.ready),
        one.oldest_ready_ms ? duration(one.oldest_ready_ms) : '–',
        count(one.dead),
      ]),
    )}
  </section>`;
}
