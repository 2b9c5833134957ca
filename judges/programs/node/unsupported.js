'use strict';

/** Thrown for what this client cannot do. */
class Unsupported extends Error {}

module.exports = { Unsupported };
