// Acts on all messages that a filter finds: counts them first, asks, and then does it.

import { html, nothing } from './vendor/lit-html.js';
import { post } from './api.js';
import { ask } from './dialog.js';
import { count, plural } from './format.js';
import { button, facts, link } from './parts.js';
import { delayField } from './steer.js';
import { toast } from './toast.js';

// `takes`: the states that each action can take.
const ACTIONS = [
  { path: 'run-now', label: 'Run all now', does: 'Run now', takes: ['waiting'] },
  { path: 'move', label: 'Move all', does: 'Move', takes: ['waiting'], fields: delayField },
  { path: 'replay', label: 'Replay all', does: 'Replay', takes: ['dead'] },
  { path: 'delete', label: 'Delete all', does: 'Delete', takes: ['waiting', 'ready', 'leased', 'dead'], danger: true },
];

// The buttons for a filter as the API takes it. `done` is called when something has changed.
export function bulkButtons(filter, guarded, done) {
  return ACTIONS.map((action) => [action, within(filter, action)])
    .filter(([, chosen]) => chosen.state.length)
    .map(([action, chosen]) =>
      button(action.label, 'admin', () => guarded(() => run(action, chosen, done)), {
        kind: action.danger ? 'danger' : 'secondary',
        title: 'Shows first how many messages match',
      }),
    );
}

// The filter with those of its states that the action takes. The API refuses a filter without any field.
function within(filter, action) {
  const states = filter.state && filter.state.length ? filter.state : action.takes;
  return { topic: '*', ...filter, state: states.filter((state) => action.takes.includes(state)) };
}

// Whether nothing but states narrows the choice.
function takesAll({ topic, state, ...rest }) {
  return topic === '*' && !Object.keys(rest).length;
}

const confirmField = html`<label
  >This takes the messages of all topics. Type <strong>all topics</strong> to go on.
  <input name="word" required pattern="all topics" autocomplete="off" title="all topics"
/></label>`;

async function run(action, filter, done) {
  const path = `v1/messages:${action.path}`;
  const values = action.fields
    ? await ask({
        title: `${action.does} all that match`,
        text: html`<p>The next step shows how many messages match.</p>`,
        fields: action.fields,
        action: 'Count them',
        act: async (given) => given,
      })
    : {};
  if (!values) return;
  const preview = await post(path, { ...filter, ...values, dry_run: true });
  if (!preview.matched) {
    toast('No message matches the filter.');
    return;
  }
  const answer = await ask({
    title: `${action.does} ${plural(preview.matched, 'message')}`,
    text: html`${facts(Object.entries({ ...filter, ...values }).map(([name, value]) => [name.replace('_', ' '), shown(value)]))}
      <p>
        ${plural(preview.matched, 'message matches', 'messages match')} now.
        ${action.danger ? 'This can’t be undone.' : ''}
      </p>`,
    action: `${action.does} ${count(preview.matched)}`,
    danger: action.danger,
    fields: action.danger && takesAll(filter) ? confirmField : nothing,
    act: () => post(path, { ...filter, ...values, dry_run: false }),
  });
  if (!answer) return;
  if (answer.operation) {
    location.hash = link('operations', answer.operation.id);
    return;
  }
  toast(
    `${action.does}: ${count(answer.done)} of ${count(answer.matched)} done` +
      `${answer.failed ? `, ${count(answer.failed)} failed: ${answer.failures[0]?.detail || ''}` : ''}.`,
  );
  done();
}

function shown(value) {
  if (Array.isArray(value)) return value.join(', ');
  return typeof value === 'object'
    ? Object.entries(value)
        .map((pair) => pair.join(': '))
        .join(', ')
    : String(value);
}
