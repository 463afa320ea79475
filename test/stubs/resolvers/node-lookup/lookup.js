// Looks a new name up every EVERY_MS milliseconds, with dns.lookup (libc's
// getaddrinfo, on libuv's thread pool) or, where HOW=resolve, dns.resolve4
// (c-ares), and prints START END NAME RESULT: microseconds since 1970, and "ok"
// or an error's code.
'use strict'
const dns = require('dns')
const fs = require('fs')

const { SUFFIX, EVERY_MS, FAMILY, HOW } = process.env
if (!SUFFIX || !EVERY_MS) {
  console.error('set SUFFIX and EVERY_MS')
  process.exit(2)
}
const now = () => Math.round((performance.timeOrigin + performance.now()) * 1000)

let i = 0
function ask () {
  const name = `q${i++}.${SUFFIX}`
  const start = now()
  const done = err => fs.writeSync(1, `${start} ${now()} ${name} ${err ? err.code : 'ok'}\n`)
  if (HOW === 'resolve') dns.resolve4(name, done)
  else dns.lookup(name, { all: true, family: FAMILY === '4' ? 4 : 0 }, done)
}
ask()
setInterval(ask, Number(EVERY_MS))
