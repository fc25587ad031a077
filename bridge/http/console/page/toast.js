// Says what was done, at the edge of the page and to screen readers, for some seconds.

const SHOWN_MS = 6000;

export function toast(text) {
  const box = document.getElementById('toasts');
  const line = document.createElement('p');
  line.textContent = text;
  box.append(line);
  setTimeout(() => line.remove(), SHOWN_MS);
}
