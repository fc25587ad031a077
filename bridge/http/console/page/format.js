// Writes numbers, durations and moments for people.

const WHOLE = new Intl.NumberFormat('en');
const UNITS = [
  ['d', 86400000],
  ['h', 3600000],
  ['min', 60000],
  ['s', 1000],
];

export function count(number) {
  return number === null || number === undefined ? '–' : WHOLE.format(number);
}

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return '–';
  return perSecond >= 100 ? WHOLE.format(Math.round(perSecond)) : String(Math.round(perSecond * 10) / 10);
}

// The two largest units: `1 d 2 h`, `5 min`, `1.5 s`, `120 ms`.
export function duration(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10000) return `${Math.round(ms / 100) / 10} s`;
  const at = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[at];
  const first = `${Math.floor(ms / size)} ${unit}`;
  const [smaller, smallerSize] = UNITS[at + 1] || [];
  const rest = smaller ? Math.floor((ms % size) / smallerSize) : 0;
  return rest ? `${first} ${rest} ${smaller}` : first;
}

export function relative(instant, now = Date.now()) {
  const ms = Date.parse(instant) - now;
  if (Math.abs(ms) < 1000) return 'now';
  return ms > 0 ? `in ${duration(ms)}` : `${duration(-ms)} ago`;
}

export function local(instant) {
  return new Date(instant).toLocaleString('en-GB', {
    year: 'numeric',
    month: 'short',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  });
}

// The time zone of all moments that the console shows and takes: `Europe/Vienna (GMT+1)`.
export function zone(now = new Date()) {
  const parts = new Intl.DateTimeFormat('en-GB', { timeZoneName: 'shortOffset' }).formatToParts(now);
  const offset = parts.find((part) => part.type === 'timeZoneName').value;
  return `${Intl.DateTimeFormat().resolvedOptions().timeZone} (${offset})`;
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// The value of an `<input type="datetime-local">` as RFC 3339; the browser's time zone applies.
export function instantOf(text) {
  return text ? new Date(text).toISOString() : '';
}
