// A platform of answers: `fetch` that records requests, a clock that only sleeping moves, no chance.
import { Client } from 'webhooks-client';

export class Platform {
  requests = [];
  slept = [];
  now = 0;

  constructor(...answers) {
    this.answers = answers;
  }

  client(options = {}) {
    return new Client('http://platform.test/', 'key', {
      fetch: async (url, init) => {
        this.requests.push({ ...init, url: new URL(url), json: init.body ? JSON.parse(init.body) : undefined });
        init.signal.throwIfAborted();
        const next = this.answers.shift();
        const answer = typeof next === 'function' ? await next(init) : next;
        if (answer instanceof Error) throw answer;
        if (answer === undefined) throw new Error('The test has no more answers.');
        return answer;
      },
      sleep: async (seconds, signal) => {
        signal?.throwIfAborted();
        this.slept.push(seconds);
        this.now += seconds;
      },
      clock: () => this.now,
      chance: () => 1,
      ...options,
    });
  }

  keys() {
    return this.requests.map((request) => request.headers['idempotency-key']);
  }
}

export function json(status, document, headers = {}) {
  return new Response(document === undefined ? null : JSON.stringify(document), { status, headers });
}

export function problem(status, code, { headers, ...more } = {}) {
  return json(status, { type: 'x', title: 'T', status, code, detail: 'Because.', ...more }, headers);
}

export function event(id = 'evt_1') {
  return { id, consumer: 'acme', type: 'a.b', data: {}, delivery_count: 1 };
}

export async function all(items) {
  return Array.fromAsync ? Array.fromAsync(items) : collect(items);
}

async function collect(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}
