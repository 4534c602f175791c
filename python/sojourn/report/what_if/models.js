// The models of Sojourn in a page: WebAssembly that takes and gives JSON in its linear memory. crates/wasm is the other
// side. Every page that calculates uses this text directly, and workers made from it solve percentiles and simulate.
"use strict";

class Models {
  // `progress` hears the number of simulated jobs.
  static async load(bytes, progress) {
    const imports = { sojourn: { progress: (jobs) => { progress?.(jobs); return 1; } } };
    const { instance } = await WebAssembly.instantiate(bytes, imports);
    return new Models(instance.exports);
  }

  constructor(exports) { this.exports = exports; }

  // Asks one request of crates/wasm/src/request.rs; throws the reason of a refusal.
  ask(request) {
    const { memory, allocate, answer } = this.exports;
    const sent = new TextEncoder().encode(JSON.stringify(request));
    const room = allocate(sent.length);
    if (!room) throw new Error("the request is too large");
    // Calls may move the memory, so each view of it is made anew.
    new Uint8Array(memory.buffer, room, sent.length).set(sent);
    const response = answer() >>> 0;
    const length = new DataView(memory.buffer).getUint32(response, true);
    const text = new TextDecoder().decode(new Uint8Array(memory.buffer, response + 4, length));
    const { ok, error } = JSON.parse(text);
    if (error !== undefined) throw new Error(error);
    return ok;
  }
}

// A worker that answers one request at a time. Where a browser forbids workers, the page's thread answers.
// `source` is this text, and `loaded` gives the WebAssembly as { bytes, models }.
class Asker {
  constructor(source, loaded) {
    this.source = source;
    this.loaded = loaded;
  }
  start() {
    const address = URL.createObjectURL(new Blob([this.source], { type: "text/javascript" }));
    this.worker = new Worker(address);
    URL.revokeObjectURL(address);
    this.worker.postMessage({ bytes: this.loaded().bytes });
  }
  ask(request, progress) {
    return new Promise((resolve, reject) => {
      const here = () => {
        this.worker = null;
        this.forbidden = true;
        try { resolve(this.loaded().models.ask(request)); } catch (error) { reject(error); }
      };
      if (this.forbidden) { setTimeout(here); return; }
      try {
        if (!this.worker) this.start();
      } catch {
        setTimeout(here);
        return;
      }
      this.worker.onerror = here;
      this.worker.onmessage = ({ data }) => {
        if (data.jobs !== undefined) progress?.(data.jobs);
        else if (data.error !== undefined) reject(new Error(data.error));
        else resolve(data.result);
      };
      this.worker.postMessage({ request });
    });
  }
  stop() {
    this.worker?.terminate();
    this.worker = null;
  }
}

// What a prediction says of a class, or with "" of all together: times, utilisations, and by which solver, the first of
// `preference` that answers.
function preferredAnswer(response, preference, of = "") {
  if (response.error !== undefined) return { reason: response.error, overloaded: response.overloaded };
  const prediction = response.ok;
  for (const name of preference) {
    const answer = prediction.solvers[name]?.answer;
    if (!answer) continue;
    const classes = Object.entries(answer.classes);
    const chosen = classes.filter(([each]) => !of || each === of).map(([, each]) => each);
    const lost = (some) => {
      const [served, asked] = [(each) => each.throughput_per_second, (each) => each.loss.offered_per_second ?? each.loss].map((get) => some.reduce((sum, each) => sum + get(each), 0));
      return asked > 0 ? 1 - served / asked : 0;
    };
    const throughput = chosen.reduce((sum, each) => sum + each.throughput_per_second, 0);
    const times = chosen.length === 1 ? { ...chosen[0].response_time_seconds } : {
      mean: chosen.reduce((sum, each) => sum + each.throughput_per_second * each.response_time_seconds.mean, 0) / throughput,
    };
    const utilisations = Object.fromEntries(Object.entries(answer.stations).map(([each, found]) => [each, found.utilisation]));
    return {
      by: name, means: answer.means, percentiles: answer.percentiles, times, throughput, utilisations,
      lost: lost(classes.map(([, each]) => each)), lostOwn: lost(chosen), bottleneck: prediction.bottleneck,
    };
  }
  const refusals = preference.map((name) => prediction.solvers[name]?.refusal).filter(Boolean);
  const overloaded = refusals.find((each) => each.includes("unstable"));
  return { reason: unplaced(overloaded ?? refusals[0] ?? "no solver answers"), overloaded: Boolean(overloaded), bottleneck: prediction.bottleneck };
}

// By which solver the figures are; `solved` says whether the percentiles have been asked for. A refusal of them begins
// with "no percentiles".
function solvedBy({ by, means, percentiles, times }, solved) {
  const known = Number.isFinite(times.p95);
  const how = !known && !solved ? "percentiles: being solved" : percentiles?.startsWith("no percentiles") ? percentiles : `percentiles: ${percentiles || "none"}`;
  return `By ${by}; means: ${means}; ${how}.`;
}

// The models' reasons name lines of a file that nobody sees.
const unplaced = (reason) => reason.replace(/ \(line \d+\)/g, "");

// A worker's first message has the bytes, each further one a request.
if (typeof WorkerGlobalScope !== "undefined") {
  let models = null;
  onmessage = async ({ data: { bytes, request } }) => {
    try {
      if (bytes) models = Models.load(bytes, (jobs) => postMessage({ jobs }));
      else postMessage({ result: (await models).ask(request) });
    } catch (error) {
      postMessage({ error: error.message });
    }
  };
}
