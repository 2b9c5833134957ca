'use strict';
const crypto = require('crypto');
const { Message, Producer } = require('ali-ons');
const { clientOptions, logged } = require('./client');
const { body } = require('./payload');
const { Unsupported } = require('./unsupported');

const ERRORS_KEPT = 5;
const WINDOWS = { sync: 1, ordered: 1, async: 64 };
const MOST_QUEUES = 16;

/** What became of every message of one request. */
class Tally {
  constructor() {
    this.start = Date.now();
    this.statuses = {};
    this.queues = {};
    this.failed = [];
    this.errors = [];
  }

  sent(result) {
    this.statuses[result.sendStatus] = (this.statuses[result.sendStatus] || 0) + 1;
    const queue = `${result.messageQueue.brokerName}:${result.messageQueue.queueId}`;
    this.queues[queue] = (this.queues[queue] || 0) + 1;
  }

  refused(index, err) {
    this.failed.push(index);
    if (this.errors.length < ERRORS_KEPT) this.errors.push(String(err.message || err));
  }

  answer() {
    const { statuses, queues, failed, errors } = this;
    return { statuses, queues, failed, errors, elapsed_ms: Date.now() - this.start };
  }
}

// A key that hashes to the first queue is taken for none by this client and spread over all: salt the name until
// that happens with no number of queues up to MOST_QUEUES.
function shardingKey(shard) {
  for (let salt = 0; ; salt++) {
    const key = `shard-${shard}-${salt}`;
    const hash = crypto.createHash('md5').update(key).digest().readUInt32BE();
    let clear = true;
    for (let queues = 2; queues <= MOST_QUEUES; queues++) clear = clear && hash % queues !== 0;
    if (clear) return key;
  }
}

function message(request, index) {
  const one = new Message(request.topic, '', body(request.prefix, index, request.size || 0));
  Object.assign(one.properties, request.properties);
  if (request.tags.length) one.tags = request.tags[index % request.tags.length];
  if (request.keys) one.keys = [`${request.prefix}-${index}`];
  if (request.delay_level) one.delayTimeLevel = request.delay_level;
  if (request.mode === 'ordered') one.shardingKey = shardingKey(index % request.shards);
  return one;
}

class Senders {
  constructor() {
    this.producers = new Map();
    this.started = 0;
  }

  async send(request) {
    const window = WINDOWS[request.mode];
    if (!window) throw new Unsupported(`ali-ons does not send in mode ${request.mode}`);
    const producer = await this.producer(request);
    const tally = new Tally();
    const end = request.first + request.count;
    let next = request.first;
    const worker = async () => {
      while (next < end) {
        const index = next++;
        try {
          tally.sent(await producer.send(message(request, index)));
        } catch (err) {
          tally.refused(index, err);
        }
      }
    };
    await Promise.all(Array.from({ length: window }, worker));
    return tally.answer();
  }

  async reset() {
    for (const producer of this.producers.values()) await producer.close();
    this.producers.clear();
  }

  async producer(request) {
    const key = `${request.name_server} ${request.group}`;
    if (!this.producers.has(key)) {
      const options = clientOptions(request, `sender-${++this.started}`);
      const producer = new Producer({ ...options, producerGroup: request.group, sendMsgTimeout: request.timeout_ms });
      producer.on('error', logged);
      await producer.ready();
      this.producers.set(key, producer);
    }
    return this.producers.get(key);
  }
}

module.exports = { Senders };
