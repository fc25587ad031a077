// Decides whether a receiver is well. Pure.

// Returns the words and the level (ok, warn or bad) of a subscription. A receiver that fails since its latest success,
// or that never accepted a message, is not well.
export function receiverState(one) {
  if (one.state !== 'active') return [one.state, 'warn'];
  const fails = one.last_failure && !(Date.parse(one.last_delivered_at) >= Date.parse(one.last_failure.at));
  return fails ? ['failing', 'bad'] : ['active', 'ok'];
}
