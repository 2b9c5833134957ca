'use strict';
const crypto = require('crypto');

/** The body of message number `index`: "PREFIX-index|", then filler byte j = 1 + (index + j) % 255 up to `size`. */
function body(prefix, index, size) {
  const head = Buffer.from(`${prefix}-${index}|`);
  const whole = Buffer.alloc(Math.max(size, head.length));
  head.copy(whole);
  for (let at = head.length, j = 0; at < whole.length; at++, j++) whole[at] = 1 + (index + j) % 255;
  return whole;
}

function digest(bytes) {
  return crypto.createHash('sha256').update(bytes).digest('hex');
}

module.exports = { body, digest };
