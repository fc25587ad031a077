// Lists the pages, and finds the one of an address such as `#/message/orders/o-1` or `#/search?state=dead`.

import * as actions from './pages/actions.js';
import * as dead from './pages/dead.js';
import * as health from './pages/health.js';
import * as message from './pages/message.js';
import * as operations from './pages/operations.js';
import * as overview from './pages/overview.js';
import * as schedules from './pages/schedules.js';
import * as search from './pages/search.js';
import * as send from './pages/send.js';
import * as slots from './pages/slots.js';
import * as subscriptions from './pages/subscriptions.js';
import * as topic from './pages/topic.js';
import * as topics from './pages/topics.js';

export const PAGES = [
  { name: 'overview', menu: 'Overview', ...overview },
  { name: 'topics', menu: 'Topics', ...topics },
  { name: 'topic', ...topic },
  { name: 'search', menu: 'Search', ...search },
  { name: 'message', ...message },
  { name: 'send', menu: 'Send', ...send },
  { name: 'dead', menu: 'Dead letters', ...dead },
  { name: 'slots', menu: 'Slots', ...slots },
  { name: 'schedules', menu: 'Schedules', ...schedules },
  { name: 'subscriptions', menu: 'Subscriptions', ...subscriptions },
  { name: 'operations', menu: 'Operations', ...operations },
  { name: 'actions', menu: 'Actions', ...actions },
  { name: 'health', menu: 'Health', ...health },
];

export function find(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  const [name, ...params] = path.split('/').map(decode);
  const route = PAGES.find((page) => page.name === name) || PAGES[0];
  return { route, params, query: new URLSearchParams(query) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
