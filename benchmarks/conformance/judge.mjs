// Runs the suite against the cache at a base URL: node judge.mjs SUITE NODE-FETCH BASE. Prints, as JSON, each test's
// kind and what the suite itself makes of it: its dependencies and its setup count.
const [suite, fetching, base] = process.argv.slice(2)
const { default: fetch } = await import(`${fetching}/lib/index.mjs`)
const { runTests, getResults } = await import(`${suite}/client/runner.mjs`)
const { determineTestResult } = await import(`${suite}/lib/display.mjs`)
const { default: tests } = await import(`${suite}/tests/index.mjs`)
const { default: surrogate } = await import(`${suite}/tests/surrogate-control.mjs`)

const suites = [...tests, surrogate]

// RFC 9111, 5.1: of several ages the first counts, and an invalid one should be ignored. This version expects that they
// make a response stale; later ones, which npm does not have, expect what the RFC says, and only report on parameters.
const FRESH = ['nonnumeric', 'negative', 'float', 'prefix-twoline', 'dup-0', 'dup-0-twoline', 'dup-old']
const REPORTED = ['parameter', 'numeric-parameter']
for (const test of suites.find(each => each.id === 'age-parse').tests) {
  const name = test.id.replace('age-parse-', '')
  if (FRESH.includes(name)) test.requests.at(-1).expected_type = 'cached'
  if (REPORTED.includes(name)) test.kind = 'check'
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
