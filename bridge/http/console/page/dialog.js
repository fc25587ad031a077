// Asks for confirmation in a modal dialog, which the browser closes with Escape.

import { html, nothing, render } from './vendor/lit-html.js';
import { problemBox } from './parts.js';

// Shows the dialog until `act` has succeeded or the person cancels. `fields`: a template with named inputs. `act` gets
// their values by name, and may throw a Problem, which the dialog shows. Resolves to what `act` returned, or null.
export function ask({ title, text, fields = nothing, action, danger = false, act }) {
  const opener = document.activeElement;
  const dialog = document.createElement('dialog');
  dialog.setAttribute('aria-labelledby', 'dialog-title');
  document.body.append(dialog);
  let problem = null;
  let busy = false;
  let result = null;

  async function submit(event) {
    event.preventDefault();
    if (busy) return;
    busy = true;
    draw();
    try {
      result = await act(Object.fromEntries(new FormData(event.target)));
      dialog.close();
    } catch (error) {
      if (!error.status && error.status !== 0) throw error;
      problem = error;
    } finally {
      busy = false;
      draw();
    }
  }

  function draw() {
    render(
      html`<article>
        <h2 id="dialog-title">${title}</h2>
        <form @submit=${submit}>
          <div>${text}</div>
          ${fields} ${problemBox(problem)}
          <footer>
            <button type="button" class="secondary outline" @click=${() => dialog.close()}>Cancel</button>
            <button
              type="submit"
              class=${danger ? 'danger' : ''}
              ?disabled=${busy}
              aria-busy=${busy ? 'true' : 'false'}
            >
              ${action}
            </button>
          </footer>
        </form>
      </article>`,
      dialog,
    );
  }

  draw();
  dialog.showModal();
  // It belongs to the page that opened it.
  const left = () => dialog.close();
  window.addEventListener('hashchange', left);
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      window.removeEventListener('hashchange', left);
      dialog.remove();
      if (opener && opener.isConnected) opener.focus();
      resolve(result);
    });
  });
}
