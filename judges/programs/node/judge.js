'use strict';
// Drives the stock JavaScript client (ali-ons): one request a line on standard input, one answer a line on standard output,
// both JSON objects. The end of the input ends the process.
const readline = require('readline');
const { Senders } = require('./send');
const { Receivers } = require('./receive');
const { Unsupported } = require('./unsupported');

const ANSWER = '@answer ';
const senders = new Senders();
const receivers = new Receivers();
const verbs = {
  send: request => senders.send(request),
  subscribe: request => receivers.subscribe(request),
  collect: request => receivers.collect(request),
  close: request => receivers.close(request),
  async reset() {
    await receivers.reset();
    await senders.reset();
    return {};
  },
};

async function attempt(line) {
  try {
    const request = JSON.parse(line);
    if (!Object.hasOwn(verbs, request.verb)) throw new Unsupported(`no verb ${request.verb}`);
    return await verbs[request.verb](request);
  } catch (err) {
    return { [err instanceof Unsupported ? 'unsupported' : 'error']: String(err.message || err) };
  }
}

async function serve() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(`${ANSWER}${JSON.stringify(await attempt(line))}\n`);
  }
  process.exit(0);
}

// The client goes on calling a server that a test has stopped: noise for the log, no reason to end.
process.on('uncaughtException', err => console.error(err));
process.on('unhandledRejection', err => console.error(err));
serve();
