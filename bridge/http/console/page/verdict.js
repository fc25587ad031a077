// Decides from an overview whether messages are on time. Pure.

import { duration, plural } from './format.js';

const LATE_MS = 1000; // the checkpoint is behind: a release usually takes some milliseconds
const VERY_LATE_MS = 60000;
const OLD_READY_MS = 300000;
const MANY_DEAD = 100; // so many letters need a person: a receiver is broken, or nobody looks at them
const FEW = 20; // so few releases say little about the share of late ones

// Returns `level` (ok, warn, bad or unknown), a headline and the sentences that explain it.
export function verdict(overview, problem) {
  if (!overview) {
    const says = problem ? `${problem.message}. ${problem.next}` : 'The first figures come in a moment.';
    return { level: problem ? 'bad' : 'unknown', title: problem ? problem.title : 'Asking the bridge', says: [says] };
  }
  const broken = Object.entries(overview.parts).filter(([, state]) => state !== 'ok');
  const errors = overview.findings.filter((finding) => finding.severity === 'error');
  const says = [];
  if (problem) says.push(`${problem.message}. ${problem.next}`);
  for (const pool of overview.missing) says.push(`The Redis of pool ${pool} does not answer: its topics are left out.`);
  // The loops wait for the servers, so a server that is away says it all.
  const servers = broken.filter(([part]) => /(^|\/)(broker|store)$/.test(part));
  for (const [part, state] of (servers.length ? servers : broken).slice(0, 4)) says.push(`${part}: ${state}.`);
  for (const finding of errors) says.push(`${finding.says}.`);
  const late = overview.oldest_overdue_ms;
  if (late > LATE_MS) {
    says.push(
      `${plural(overview.due.overdue, 'message is', 'messages are')} overdue, the oldest for ${duration(late)}.`,
    );
  }
  const share = lateShare(overview.lateness);
  if (share > 0.01) {
    says.push(`${Math.ceil(share * 100)} % of the releases of the last minute were over 100 ms late.`);
  }
  if (overview.oldest_ready_ms > OLD_READY_MS) {
    says.push(`A released message has waited ${duration(overview.oldest_ready_ms)} for a consumer.`);
  }
  if (overview.paused) says.push(`${plural(overview.paused, 'topic is', 'topics are')} paused.`);
  if (overview.queues && overview.queues.refused) {
    says.push(`${plural(overview.queues.refused, 'message lies', 'messages lie')} in the queue of refused messages.`);
  }
  const dead = deadLetters(overview);
  if (dead) says.push(`${plural(dead, 'dead letter waits', 'dead letters wait')} for a replay or a delete.`);
  const warnings = overview.findings.length - errors.length;
  if (warnings) says.push(`${plural(warnings, 'finding needs', 'findings need')} a look: see Health.`);
  return { ...heading(overview, problem, broken, errors, late), says };
}

function heading(overview, problem, broken, errors, late) {
  if (problem) return { level: 'bad', title: `No new figures: ${problem.title}` };
  if (broken.length || overview.missing.length) return { level: 'bad', title: 'A part of the bridge does not work' };
  if (errors.length) return { level: 'bad', title: 'A promise is broken' };
  if (late > VERY_LATE_MS) return { level: 'bad', title: `Messages are late by ${duration(late)}` };
  if (late > LATE_MS) return { level: 'warn', title: `Messages are late by ${duration(late)}` };
  if (lateShare(overview.lateness) > 0.01)
    return { level: 'warn', title: 'Some messages were late in the last minute' };
  if (overview.oldest_ready_ms > OLD_READY_MS) return { level: 'warn', title: 'On time, but consumers are behind' };
  if (deadLetters(overview) >= MANY_DEAD) return { level: 'warn', title: 'On time, but many messages are dead' };
  return { level: 'ok', title: 'Messages are on time' };
}

// How many there are; 0 while the first figures are missing.
function deadLetters(overview) {
  return overview.counts ? overview.counts.dead : 0;
}

// The share of releases that were over 100 ms late in the last minute; 0 if there were few.
export function lateShare(lateness) {
  return lateness && lateness.released >= FEW ? lateness.late / lateness.released : 0;
}
