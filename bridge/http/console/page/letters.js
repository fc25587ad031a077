// Groups dead letters by reason, and decides how many are read for that. Pure.

export const NO_REASON = 'no reason given';
const MOST_GROUPED = 5000; // letters that are read without a click

// Whether the next page is read without a click. `state`: the letters read so far, and the cursor of the next page.
export function readsOn({ items, cursor }) {
  return Boolean(cursor) && items.length < MOST_GROUPED;
}

// Returns the letters of each reason, by reason: the reason of the most letters first.
export function byReason(items) {
  const reasons = new Map();
  for (const one of items) {
    const reason = one.reason || NO_REASON;
    if (!reasons.has(reason)) reasons.set(reason, []);
    reasons.get(reason).push(one);
  }
  return new Map([...reasons].sort((one, other) => other[1].length - one[1].length));
}
