// Draws charts with uPlot, in the colours of the style sheet.

import UPlot from './vendor/uplot.js';
import { count, duration, rate } from './format.js';

const dark = matchMedia('(prefers-color-scheme: dark)');

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axis(values, options = {}) {
  return {
    stroke: colour('--console-muted'),
    grid: { stroke: colour('--console-line'), width: 1 },
    ticks: { show: false },
    font: '12px system-ui',
    values,
    ...options,
  };
}

// A chart in the element with this id. `options` makes uPlot's options from the width; `data` are its columns.
export class Chart {
  constructor(id, options) {
    this.id = id;
    this.options = options;
    this.plot = null;
    this.data = null;
    // uPlot draws on a canvas, so another width or other colours need another plot.
    this.again = () => {
      this.end();
      if (this.data) this.show(this.data);
    };
    dark.addEventListener('change', this.again);
    window.addEventListener('resize', this.again);
  }

  show(data) {
    this.data = data;
    const place = document.getElementById(this.id);
    if (!place) return;
    if (this.plot && this.plot.root.parentElement !== place) this.end();
    if (!this.plot) {
      const width = place.clientWidth || 300;
      this.plot = new UPlot(
        {
          width,
          height: 150,
          legend: { show: false },
          cursor: { show: false },
          padding: [8, 24, 0, 0],
          ...this.options(),
        },
        data,
        place,
      );
    } else {
      this.plot.setData(data);
    }
  }

  end() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
  }

  close() {
    this.end();
    dark.removeEventListener('change', this.again);
    window.removeEventListener('resize', this.again);
  }
}

// Twelve bars of a span of time.
export function bars(id, spanMs) {
  return new Chart(id, () => ({
    scales: { x: { time: false, range: [0, 12] }, y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [
      axis((_, ticks) => ticks.map((tick) => (tick ? duration((spanMs / 12) * tick) : 'now')), {
        splits: () => [0, 3, 6, 9, 12],
        size: 24,
      }),
      axis((_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? count(tick) : '')), { size: 56 }),
    ],
    series: [
      {},
      {
        fill: colour('--console-bar'),
        stroke: colour('--console-bar'),
        paths: UPlot.paths.bars({ size: [0.8, 60], align: 1 }),
        points: { show: false },
      },
    ],
  }));
}

// Lines over the last five minutes. The first column has seconds before now, as negative numbers.
export function lines(id, names) {
  return new Chart(id, () => ({
    scales: { x: { time: false, range: [-300, 0] }, y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [
      axis((_, ticks) => ticks.map((tick) => (tick ? `${duration(-tick * 1000)} ago` : 'now')), {
        splits: () => [-240, -180, -120, -60, 0],
        size: 24,
      }),
      axis((_, ticks) => ticks.map(rate), { size: 56 }),
    ],
    series: [
      {},
      ...names.map((name, at) => ({
        label: name,
        stroke: colour(`--console-line-${at + 1}`),
        width: 2,
        points: { show: false },
      })),
    ],
  }));
}
