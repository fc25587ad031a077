// The form that signs in with a token.

import { html } from '../vendor/lit-html.js';
import { Problem, address } from '../api.js';
import { problemBox } from '../parts.js';
import { signIn } from '../session.js';

let refused = null;

export function signInPage({ begin, failure, redraw }) {
  async function submit(event) {
    event.preventDefault();
    const form = event.target;
    const button = form.querySelector('button');
    button.disabled = true;
    try {
      await signIn(new FormData(form).get('token').trim());
      refused = null;
      form.reset();
      await begin();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      refused = error;
      redraw();
    } finally {
      button.disabled = false;
    }
  }
  return html`<main class="sign-in">
    <h1>delaybridge</h1>
    <p>Sign in with a token of this bridge. The browser keeps a session for twelve hours, and not the token.</p>
    ${problemBox(refused || failure)}
    <form @submit=${submit}>
      <label
        >Token
        <input
          name="token"
          type="password"
          autocomplete="off"
          required
          pattern="dbt_[0-9a-f]+_[0-9a-f]+"
          placeholder="dbt_…"
          title="dbt_, twelve digits, an underscore and 64 digits"
          autofocus
        />
      </label>
      <button type="submit">Sign in</button>
    </form>
    <p class="muted">
      An operator makes one: <code>delaybridge token create NAME --scope look --every-topic</code>. Further scopes:
      <code>send</code> moves and deletes messages, <code>admin</code> pauses topics and replays dead letters.
    </p>
    <p class="muted">
      Without a token: <a href=${address('health/ready')}>the state of the bridge</a>,
      <a href=${address('docs')}>the API</a>.
    </p>
  </main>`;
}
