// The suite's origin server, on a free port of the loopback interface alone; it says which.
import http from 'node:http'

const listen = http.Server.prototype.listen
http.Server.prototype.listen = function () {
  return listen.call(this, 0, '127.0.0.1')
}
await import(`${process.argv[2]}/server/server.mjs`)
