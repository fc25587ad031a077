// Compares the slots of RabbitMQ with the messages that wait.

import { html } from '../vendor/lit-html.js';
import { get } from '../api.js';
import { count, duration } from '../format.js';
import { every } from '../live.js';
import { empty, heading, table, tile, total } from '../parts.js';
import { queueLink } from '../rabbit.js';

export const title = 'Slots';

export async function open({ signal, show, guarded }) {
  let all = false;
  let answer = null;
  const draw = () =>
    show(
      view(answer, all, () => {
        all = !all;
        draw();
      }),
    );
  await every(
    5000,
    () =>
      guarded(async () => {
        answer = await get('v1/slots', { signal });
        draw();
      }),
    signal,
  );
}

function view(answer, all, toggle) {
  const used = answer.slots.filter((slot) => all || slot.messages || slot.in_rabbitmq);
  const pools = new Set(answer.slots.map((slot) => slot.pool)).size > 1;
  return html` ${heading(title)}
    <p>
      A message waits in RabbitMQ’s slots, first in the longest that fits. RabbitMQ counts a bundle as one message,
      though it carries up to 256. It also counts leases and copies of deleted messages. The bridge counts each message
      once, at the slot that fits what is left of its delay now. Due messages of a paused topic go round in short slots.
    </p>
    <div class="tiles">
      ${tile('Messages that wait', total([...answer.slots.map((slot) => slot.messages), answer.overdue, answer.soon]))}
      ${tile('AMQP messages in the slots', total(answer.slots.map((slot) => slot.in_rabbitmq)))}
      ${tile('In the checkpoint’s queues', count(answer.in_checkpoint))}
      ${tile('Due within 100 ms', count(answer.soon))}
      ${tile('Past due', count(answer.overdue), { hint: 'with those of paused topics' })}
    </div>
    <label class="check"
      ><input type="checkbox" role="switch" .checked=${all} @change=${toggle} /> Show empty slots</label
    >
    ${
      used.length
        ? table(
            'Slots',
            ['Slot', ...(pools ? ['Pool'] : []), '#Waits', '#Messages (bridge)', '#AMQP messages (RabbitMQ)'],
            used.map((slot) => [
              queueLink('', slot.slot),
              ...(pools ? [slot.pool] : []),
              duration(slot.wait_ms),
              count(slot.messages),
              count(slot.in_rabbitmq),
            ]),
          )
        : empty('No message waits.')
    }`;
}
