// Knows what the signed-in token allows.

import { call, get } from './api.js';

export const session = { info: null };

// The session's cookie can't be read here. This remembers that there may be one, so that nothing is asked without it.
const SIGNED_IN = 'delaybridge-signed-in';

export async function look() {
  if (document.body.dataset.tokens === 'true' && !localStorage.getItem(SIGNED_IN)) return;
  session.info = await get('v1/session');
}

export async function signIn(token) {
  session.info = await call('POST', 'v1/session', { token });
  localStorage.setItem(SIGNED_IN, 'yes');
}

export async function signOut() {
  await call('DELETE', 'v1/session', { also: [401] });
  forget();
}

export function forget() {
  session.info = null;
  localStorage.removeItem(SIGNED_IN);
}

// Why the token does not allow what needs this scope; empty if it does.
export function whyNot(scope) {
  const info = session.info;
  if (!info || info.scopes.includes(scope)) return '';
  return `This token does not have the scope ${scope}.`;
}

export function readOnly() {
  return Boolean(whyNot('send') && whyNot('admin'));
}
