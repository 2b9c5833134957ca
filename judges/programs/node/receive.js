'use strict';
const { Consumer } = require('ali-ons');
const { clientOptions, logged } = require('./client');
const { digest } = require('./payload');
const { Unsupported } = require('./unsupported');

const POLL_MS = 5;
const STARTS = {
  first: 'CONSUME_FROM_FIRST_OFFSET',
  last: 'CONSUME_FROM_LAST_OFFSET',
  timestamp: 'CONSUME_FROM_TIMESTAMP',
};
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

/** Every delivery to one consumer in the order of arrival, and which of them it refused. */
class Deliveries {
  constructor(request) {
    this.failures = request.failures;
    this.properties = request.with_properties;
    this.seen = [];
    this.successes = 0;
  }

  /** Notes a message; false when it is to be delivered again. A retried message comes without its queue. */
  note(message, queue) {
    const failed = message.reconsumeTimes < this.failures;
    if (!failed) this.successes++;
    this.seen.push({
      digest: digest(message.body),
      size: message.body.length,
      broker: queue ? queue.brokerName : '',
      queue: message.queueId,
      offset: Number(message.queueOffset),
      tag: message.tags || '',
      keys: message.keys || '',
      times: message.reconsumeTimes,
      born_ms: Number(message.bornTimestamp),
      stored_ms: Number(message.storeTimestamp),
      seen_ms: Date.now(),
      failed,
      properties: this.properties ? message.properties : undefined,
    });
    return !failed;
  }

  async collect(request) {
    const deadline = Date.now() + request.timeout_ms;
    const enough = () => (request.deliveries ? this.seen.length : this.successes) >= request.count;
    while (!enough() && Date.now() < deadline) await sleep(POLL_MS);
    await sleep(request.settle_ms);
    return { deliveries: this.seen };
  }
}

class Receivers {
  constructor() {
    this.running = new Map();
    this.handles = 0;
  }

  async subscribe(request) {
    if (request.kind !== 'push') throw new Unsupported(`ali-ons has no consumer of kind ${request.kind}`);
    if (request.ordered) throw new Unsupported('ali-ons has no ordered consumer');
    const handle = ++this.handles;
    const options = clientOptions(request, request.instance || `receiver-${handle}`);
    const consumer = new Consumer({
      ...options,
      consumerGroup: request.group,
      consumeFromWhere: STARTS[request.start],
      isBroadcast: request.broadcast,
      ...(request.timestamp && { consumeTimestamp: request.timestamp }),
      ...(request.max_reconsume != null && { maxReconsumeTimes: request.max_reconsume }),
    });
    consumer.on('error', logged);
    const deliveries = new Deliveries(request);
    const filter = request.sql ? { expressionType: 'SQL92', subString: request.expression } : request.expression;
    consumer.subscribe(request.topic, filter, async (message, queue) => {
      if (!deliveries.note(message, queue)) throw new Error('refused as the test asked');
    });
    await consumer.ready();
    this.running.set(handle, { consumer, deliveries });
    return { handle };
  }

  collect(request) {
    return this.find(request).deliveries.collect(request);
  }

  find(request) {
    const receiver = this.running.get(request.handle);
    if (!receiver) throw new Error(`no running consumer ${request.handle}`);
    return receiver;
  }

  async close(request) {
    const { consumer } = this.find(request);
    this.running.delete(request.handle);
    await consumer.close();
    return {};
  }

  async reset() {
    for (const { consumer } of this.running.values()) await consumer.close();
    this.running.clear();
  }
}

module.exports = { Receivers };
