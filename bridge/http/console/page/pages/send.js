// A form that sends a test message.

import { html, nothing } from '../vendor/lit-html.js';
import { post, topicPath } from '../api.js';
import { heading, link, notice, problemBox, readOnlyNote, when } from '../parts.js';
import { whyNot } from '../session.js';

export const title = 'Send a test message';

export function open({ query, show }) {
  const state = { sent: null, problem: null, busy: false };
  const draw = () => show(view(state, query.get('topic') || '', submit));

  async function submit(event) {
    event.preventDefault();
    const form = Object.fromEntries(new FormData(event.target));
    Object.assign(state, { busy: true, sent: null, problem: null });
    draw();
    try {
      state.sent = await post(topicPath(form.topic.trim(), '/messages'), request(form));
    } catch (error) {
      if (error.status === undefined) throw error;
      state.problem = error;
    }
    state.busy = false;
    draw();
  }
  draw();
}

function request(form) {
  const message = { ...bodyOf(form.body), delay: form.delay.trim() === '0' ? 0 : form.delay.trim() };
  if (form.id.trim()) message.id = form.id.trim();
  const [key, ...value] = form.label.split(':');
  if (key.trim()) message.labels = { [key.trim()]: value.join(':').trim() };
  return message;
}

// JSON if it is JSON, else text.
function bodyOf(text) {
  try {
    return { body: JSON.parse(text) };
  } catch {
    return { body: text, content_type: 'text/plain' };
  }
}

function view(state, topic, submit) {
  const reason = whyNot('send');
  return html` ${heading(title)} ${readOnlyNote('send')}
    <form @submit=${submit}>
      <div class="grid">
        <label>Topic <input name="topic" required value=${topic || 'hello'} /></label>
        <label
          >Delay <input name="delay" required value="1m" aria-describedby="delay-hint" />
          <small id="delay-hint">Such as 0, 90s, 15m, 2h or 7d.</small></label
        >
        <label>Id <input name="id" placeholder="the bridge makes one" /></label>
        <label>Label <input name="label" placeholder="customer:42" /></label>
      </div>
      <label>Body, JSON or text <textarea name="body" rows="5">{"hello": "world"}</textarea></label>
      <button
        type="submit"
        ?disabled=${Boolean(reason) || state.busy}
        title=${reason || nothing}
        aria-busy=${state.busy ? 'true' : 'false'}
      >
        Send
      </button>
    </form>
    ${problemBox(state.problem)}
    ${
      state.sent
        ? notice(
            'ok',
            html`Accepted: <a href=${link('message', state.sent.topic, state.sent.id)}><code>${state.sent.id}</code></a
              >, due ${when(state.sent.due_at)}. RabbitMQ and Redis have it.`,
          )
        : nothing
    }`;
}
