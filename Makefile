# Thin on purpose: each target is a line or two; what they do lives in the programs.
LOG ?=
BENCH ?=
FUZZ ?= 30
TARGET ?=
PYTHON ?= python3
VENV := .venv
INSTALLED := $(VENV)/.installed
DEVELOPED := $(VENV)/.developed

.PHONY: demo demo-app docs wheel deb container test quick peers fuzz miri sanitize sbom reproducible bench-applications bench-assess bench-server bench-proxy bench-dynamic bench-load bench-probe bench-memory bench-stream bench-conformance bench-models bench-scale bench-import bench-studies clean

## demo: set everything up and assess an example log, or LOG=path
demo: $(INSTALLED)
	scripts/demo "$(LOG)"

## demo-app: start the example application, make it a log, and assess it where it runs
demo-app: $(INSTALLED) peers
	benchmarks/applications/bench --demo

## docs: the documentation as a site, in build/site; fails for a broken link
docs:
	scripts/docs $(PYTHON)

## wheel: a wheel for this processor in build/dist, tried in a fresh environment; it installs without a compiler; TARGET=aarch64-unknown-linux-gnu is for another processor
wheel:
	scripts/wheel $(if $(TARGET),--target $(TARGET)) $(PYTHON)

## deb: a package for this release of Debian in build/dist: the wheel, its libraries, units of systemd, manual pages, completion
deb: wheel
	scripts/deb $(PYTHON)

## container: an image of the wheel, by podman, buildah or docker, and tried
container: wheel
	scripts/container

## test: all checks: format, lints, types, Rust tests, Python tests, end to end, and FUZZ=30 seconds of each fuzz target
test: $(DEVELOPED) peers
	FUZZ=$(FUZZ) scripts/test

## quick: the checks without the slow tests
quick: $(DEVELOPED)
	scripts/test --quick

## peers: the servers and the browser that tests and benches run beside ours
peers:
	scripts/peers

## fuzz: each fuzz target for FUZZ=30 seconds, from the committed corpora; by coverage if there are a nightly compiler and cargo-fuzz
fuzz:
	scripts/fuzz $(FUZZ)

## miri: tests of the crates without input and output under Miri, or CRATES="http media"; needs a nightly compiler
miri:
	scripts/miri $(CRATES)

## sanitize: tests of the io_uring server under AddressSanitizer, if there is a nightly compiler
sanitize:
	scripts/sanitize

## sbom: what is installed was built from, as CycloneDX, into build/sbom.json; fails for a licence or a source that was not agreed to
sbom:
	mkdir -p build
	scripts/sbom --check
	scripts/sbom > build/sbom.json

## reproducible: build the engine twice, in directories of different names, and compare
reproducible:
	scripts/reproducible

## bench-assess: whether the answer of sojourn assess can be believed, quiet and beside other work; writes docs/assessment-benchmark.md; two hours; BENCH="--minutes 60" is short; the same command goes on; SOJOURN_TRACES=DIR has real logs
bench-assess: $(INSTALLED) peers
	benchmarks/assessment/bench --docs docs $(BENCH)

## bench-server: our server beside nginx, h2o, lighttpd, Apache, Caddy and the null responder; writes docs/server-benchmark.md; BENCH=--resume goes on
bench-server: $(INSTALLED) peers
	cargo build --release --locked --package null-responder
	benchmarks/server/bench --docs docs $(BENCH)

## bench-proxy: our caching proxy beside nginx, Squid, Varnish and Traffic Server; writes docs/proxy-benchmark.md; BENCH=--resume goes on
bench-proxy: $(INSTALLED) peers
	cargo build --release --locked --package null-responder
	benchmarks/proxy/bench --docs docs $(BENCH)

## bench-dynamic: dynamic requests through our server beside nginx, lighttpd, Apache and Caddy, by FastCGI and CGI; writes docs/dynamic-benchmark.md; BENCH=--resume goes on
bench-dynamic: $(INSTALLED) peers
	cargo build --release --locked --package null-responder
	benchmarks/dynamic/bench --docs docs $(BENCH)

## bench-load: our load generator beside wrk, h2load, ab, httperf, oha and k6; writes docs/load-benchmark.md; BENCH=--quick only tries
bench-load: $(INSTALLED)
	benchmarks/load/peers
	cargo build --release --locked --package null-responder
	benchmarks/load/bench --docs docs $(BENCH)

## bench-probe: what being probed costs our server and nginx, and our CPU time beside perf stat's; writes docs/probe-benchmark.md
bench-probe: $(INSTALLED) peers
	benchmarks/probe/bench --docs docs $(BENCH)

## bench-memory: our memory bandwidths beside mbw's and STREAM's; writes docs/memory-benchmark.md
bench-memory: $(INSTALLED)
	benchmarks/memory/peers
	benchmarks/memory/bench --docs docs $(BENCH)

## bench-conformance: the proxy's cache under the public suite http-cache-tests, with node and npm
bench-conformance: $(INSTALLED)
	benchmarks/conformance/peers
	benchmarks/conformance/bench

## bench-stream: our streaming server beside GStreamer's and VLC's: what a stream costs, how many conform, how late 5,000 are sent; BENCH=--quick only tries, BENCH="--minutes 15" is short
bench-stream: $(INSTALLED)
	benchmarks/stream/peers
	benchmarks/stream/bench --docs docs $(BENCH)

## bench-models: the models beside independent programs, the coverage of intervals (an hour; goes on where it was stopped), and Ciw, SimPy, LINE and a C loop; writes docs/models-*.md
bench-models: $(INSTALLED)
	.venv/bin/python -m benchmarks.models.checked --docs docs
	.venv/bin/python -m benchmarks.models.coverage --docs docs
	benchmarks/models/bench --docs docs

## bench-studies: all studies in three hours, or BENCH="--budget 1h"; writes docs/study-results.md; the same command goes on
bench-studies: $(INSTALLED) peers
	benchmarks/studies/bench --docs docs $(BENCH)

## bench-applications: the example application and foreign ones with known bottlenecks, and what an assessment says of each; writes docs/applications-benchmark.md; BENCH="--cases lock" is short
bench-applications: $(INSTALLED) peers
	benchmarks/applications/peers
	benchmarks/applications/bench --docs docs $(BENCH)

## bench-scale: what a task on a cluster costs, what a second process gives to simulations and imports, two generators beside one; alone on the machine, resumed by the same command; BENCH=--quick only tries
bench-scale: $(DEVELOPED)
	benchmarks/scale/bench $(BENCH)

## bench-import: how fast logs of every format are imported, sessions included
bench-import:
	cargo run --release --locked --package sojourn-workload --example import_speed

## clean: forget everything that was built or measured
clean:
	rm -rf target build $(VENV) runs python/sojourn.egg-info

SOURCES := $(shell find crates python -type f -not -name '*.pyc' -not -path '*.egg-info/*') Cargo.toml Cargo.lock pyproject.toml

$(INSTALLED): $(SOURCES) requirements.lock
	scripts/install $(PYTHON) $(VENV)
	touch $@

$(DEVELOPED): $(INSTALLED) requirements-dev.lock
	$(VENV)/bin/pip install --quiet --requirement requirements-dev.lock
	touch $@
