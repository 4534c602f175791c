// Runs the suite against the cache at a base URL: node judge.mjs SUITE NODE-FETCH BASE. Prints, as JSON, each test's
// kind and what the suite itself makes of it: its dependencies and its setup count.
const [suite, fetching, base] = process.argv.slice(2)
const { default: fetch } = await import(`${fetching}/lib/index.mjs`)
const { runTests, getResults } = await import(`${suite}/client/runner.mjs`)
const { determineTestResult } = await import(`${suite}/lib/display.mjs`)
const { default: tests } = await import(`${suite}/tests/index.mjs`)
const { default: surrogate } = await import(`${suite}/tests/surrogate-control.mjs`)

const suites = [...tests, surrogate]
const RIGHT = '-put-right'

// RFC 9111, 5.1: of several ages the first counts, and an invalid one should be ignored. This version expects that they
// make a response stale; later ones, which npm does not have, expect what the RFC says, and only report on parameters.
const FRESH = ['nonnumeric', 'negative', 'float', 'prefix-twoline', 'dup-0', 'dup-0-twoline', 'dup-old']
const REPORTED = ['parameter', 'numeric-parameter']
for (const test of suites.find(each => each.id === 'age-parse').tests) {
  const name = test.id.replace('age-parse-', '')
  if (FRESH.includes(name)) test.requests.at(-1).expected_type = 'cached'
  if (REPORTED.includes(name)) test.kind = 'check'
}

// Five of its 206 contradict themselves, or could be parts of two versions: "bytes 4-9/10" with five bytes, and no validator.
// A cache that refuses them may still do what the tests ask for, so each is also run with a message that is right.
const partial = suites.find(each => each.id === 'partial')
for (const test of partial.tests.filter(each => each.id.startsWith('partial-store-partial-'))) {
  const right = structuredClone(test)
  const headers = right.requests[0].response_headers
  headers.push(['ETag', '"1"'])
  const range = headers.find(([name]) => name === 'Content-Range')
  if (range[1] === 'bytes 4-9/10') range[1] = 'bytes 4-8/9'
  right.id += RIGHT
  partial.tests.push(right)
}

await runTests(suites, fetch, false, base)
const results = getResults()
const judged = suites.flatMap(each => each.tests.filter(test => test.id in results).map(test => ({
  suite: each.id,
  test: test.id,
  kind: test.kind ?? 'required',
  symbol: determineTestResult(suites, test.id, results)[2],
  said: results[test.id] === true ? null : String(results[test.id][1])
})))
console.log(JSON.stringify(judged))
