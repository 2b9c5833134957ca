'use strict';

const logged = (...parts) => console.error(...parts);
const quiet = { debug() {}, info() {}, warn() {}, error: logged };

/** What every producer and consumer is told. `httpclient` must be there, though a given name server makes it idle. */
function clientOptions(request, instanceName) {
  return {
    nameSrv: request.name_server,
    instanceName: `${instanceName}-${process.pid}`,
    logger: quiet,
    httpclient: {},
    pollNameServerInteval: 1000,
    rebalanceInterval: 1000,
  };
}

module.exports = { clientOptions, logged };
