// The models of Sojourn in a page: WebAssembly that takes and gives JSON in its linear memory. crates/wasm is the other
// side. The page uses this text directly, and a worker made from it simulates.
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
