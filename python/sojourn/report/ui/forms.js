// The side panel: what a system file states of one station, one class or the whole, as fields. A field knows the path of
// its value in the file; what is typed becomes an edit of that path, and the models' reader checks it.
"use strict";
const Forms = (() => {

const { escaped, percent } = Drawing;
const { isTable, stationsOf, routesOf, stationOf } = Canvas;
const DISCIPLINES = [
  ["fifo", "fifo: one queue"], ["ps", "ps: all share the servers"], ["lps", "lps: at most r share, others wait"], ["is", "is: a delay without queue"],
];
const R_DEFAULT = 16;
// The forms of a demand or a distribution: their fields by key, and whether a field is a number without a unit.
const FORMS = {
  constant: { label: "constant", fields: [] },
  deterministic: { label: "deterministic", fields: [["value", "Value"]] },
  exponential: { label: "exponential", fields: [["mean", "Mean"]] },
  erlang: { label: "Erlang", fields: [["mean", "Mean"], ["stages", "Stages", true]] },
  "hyper-exponential": { label: "hyper-exponential", fields: [["mean", "Mean"], ["scv", "C² = variance / mean²", true]] },
  "log-normal": { label: "log-normal", fields: [["mean", "Mean"], ["scv", "C² = variance / mean²", true]] },
  "log-normal-mu": { label: "log-normal by μ and σ", fields: [["mu", "μ, of the logarithm", true], ["sigma", "σ, of the logarithm", true], ["unit", "Unit of the logarithm"]] },
  pareto: { label: "Pareto, bounded", fields: [["shape", "Shape", true], ["min", "Smallest"], ["max", "Largest"]] },
  size: { label: "by document size", fields: [["fixed", "Per request"], ["per_byte", "Per byte"]] },
  pieces: { label: "by document size, in pieces", fields: null },
  empirical: { label: "measured values", fields: null },
  mixture: { label: "mixture", fields: null },
};
const LAWS = ["constant", "deterministic", "exponential", "erlang", "hyper-exponential", "log-normal", "log-normal-mu", "pareto", "empirical", "mixture"];
const DEMANDS = [...LAWS.slice(0, 8), "size", "pieces", ...LAWS.slice(8)];
const DOCUMENT = { law: "log-normal", mean: "10KB", scv: 4 };

// ---- TOML

const key = (name) => (/^[\w-]+$/.test(name) ? name : JSON.stringify(name));
function toml(value) {
  if (Array.isArray(value)) return `[${value.map(toml).join(", ")}]`;
  if (isTable(value)) return `{ ${Object.entries(value).map(([name, each]) => `${key(name)} = ${toml(each)}`).join(", ")} }`;
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
const isNumber = (typed) => /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(typed);
// What is typed into a field as TOML. What should be a number and is none stays text: the reader says what is wrong.
function written(typed, kind) {
  if (kind === "toml") return typed;
  return kind === "number" && isNumber(typed) ? String(Number(typed)) : JSON.stringify(typed);
}
const set = (path, value) => ({ do: "set", path, value: toml(value) });
const remove = (path) => ({ do: "remove", path });

// The stations whose places a visit holds. The file states one as a name, several as a list.
const heldBy = (visit) => (isTable(visit) && visit.holds !== undefined ? [visit.holds].flat() : []);
const setHeld = (path, held) => (held.length ? set([...path, "holds"], held.length === 1 ? held[0] : held) : remove([...path, "holds"]));

// ---- Values

function formOf(value) {
  if (value === undefined) return "none";
  if (Array.isArray(value)) return "pieces";
  if (!isTable(value)) return "constant";
  if (value.law === "log-normal" && value.mu !== undefined) return "log-normal-mu";
  if (value.law !== undefined) return FORMS[value.law] ? value.law : "mixture";
  return "size";
}
function meanOf(value, isSize) {
  const found = isTable(value) ? (value.mean ?? value.value ?? value.fixed) : value;
  return typeof found === "string" ? found : isSize ? "10KB" : "10ms";
}
function formed(form, mean, isSize) {
  switch (form) {
    case "constant": return mean;
    case "deterministic": return { law: form, value: mean };
    case "exponential": return { law: form, mean };
    case "erlang": return { law: form, mean, stages: 4 };
    case "hyper-exponential": case "log-normal": return { law: form, mean, scv: 4 };
    case "log-normal-mu": return isSize ? { law: "log-normal", mu: 8, sigma: 1.5, unit: "B" } : { law: "log-normal", mu: 2, sigma: 1, unit: "ms" };
    case "pareto": return isSize ? { law: form, shape: 1.3, min: "1KB", max: "10MB" } : { law: form, shape: 1.5, min: "1ms", max: "10s" };
    case "size": return { fixed: mean, per_byte: "0.1us/B" };
    case "pieces": return [{ below: "20KB", fixed: mean }, { fixed: mean, per_byte: "0.1us/B" }];
    case "empirical": return isSize ? { law: form, values: ["1KB", "10KB", "100KB"] } : { law: form, values: ["1ms", "10ms", "100ms"] };
    case "mixture": {
      const part = isSize ? "100KB" : "100ms";
      return { law: form, parts: [{ weight: 0.9, law: "exponential", mean }, { weight: 0.1, law: "exponential", mean: part }] };
    }
    default: return undefined;
  }
}

// ---- Fields

const id = (path) => `field-${path.map((step) => encodeURIComponent(step)).join("-")}`;
const option = ([value, label], now) => `<option value="${escaped(value)}"${value === now ? " selected" : ""}>${escaped(label)}</option>`;
const options = (list, now) => list.map((each) => option(each, now)).join("");
const data = (path) => `data-path="${escaped(JSON.stringify(path))}"`;
function field(label, path, value, { kind = "text", act = "", placeholder = "" } = {}) {
  const at = id(path), shown = value === undefined ? "" : kind === "toml" ? toml(value) : String(value);
  const common = `id="${escaped(at)}" ${data(path)} data-kind="${kind}"${act ? ` data-act="${act}"` : ""} aria-describedby="${escaped(at)}-wrong" spellcheck="false"`;
  const input = kind === "toml"
    ? `<textarea ${common} rows="4">${escaped(shown)}</textarea>`
    : `<input ${common} value="${escaped(shown)}" placeholder="${escaped(placeholder)}"${kind === "number" ? ' inputmode="decimal"' : ""} autocomplete="off">`;
  return `<div class="field"><label for="${escaped(at)}">${escaped(label)}</label>${input}<p class="wrong" id="${escaped(at)}-wrong" hidden></p></div>`;
}
function choice(label, path, list, now, act) {
  const at = `${id(path)}-${act}`;
  return `<div class="field"><label for="${escaped(at)}">${escaped(label)}</label><select id="${escaped(at)}" ${data(path)} data-act="${act}">${options(list, now)}</select></div>`;
}
const button = (label, act, path = [], name = label) => `<button type="button" id="${escaped(id(path))}-${act}" data-act="${act}" ${data(path)}${name === label ? "" : ` aria-label="${escaped(name)}"`}>${escaped(label)}</button>`;

// A distribution or a demand: its form, and the fields of that form.
function distribution(label, path, value, forms, { none = "", isSize = false } = {}) {
  const now = formOf(value), known = FORMS[now];
  const list = [...(none || now === "none" ? [["none", none || "choose"]] : []), ...forms.map((form) => [form, FORMS[form].label])];
  const chooser = choice(label, path, list, now, isSize ? "form-of-sizes" : "form");
  if (now === "none") return chooser;
  if (now === "constant") return chooser + field(isSize ? "Size" : "Time", path, value);
  if (known.fields === null) return chooser + field("As in the file (TOML)", path, value, { kind: "toml" });
  const further = ["scale", "shift"].filter((each) => value[each] !== undefined).map((each) => [each, each === "scale" ? "Times" : "Plus", each === "scale"]);
  return chooser + [...known.fields, ...further].map(([name, title, isPlain]) => field(title, [...path, name], value[name], { kind: isPlain ? "number" : "text" })).join("");
}

// ---- Panels

function station(name, table, content) {
  const path = ["stations", name], { discipline } = table;
  const demand = table.rate === undefined
    ? distribution("Service demand", [...path, "demand"], table.demand, DEMANDS, { none: "each visit has its own" })
    : "";
  const line = table.rate === undefined ? "" : field("Bandwidth of the line", [...path, "rate"], table.rate);
  const places = discipline === "fifo" || discipline === "lps";
  const limited = table.capacity !== undefined || table.queue !== undefined;
  const full = isTable(table.when_full) ? "retry" : (table.when_full ?? "refuse");
  const limits = discipline === "is" ? "" : `<fieldset><legend>Limits</legend>
${places ? field("Places to wait", [...path, "queue"], table.queue, { kind: "number", act: "limit", placeholder: "no limit" }) : ""}
${field("Capacity, in service too", [...path, "capacity"], table.capacity, { kind: "number", act: "limit", placeholder: "no limit" })}
${limited ? choice("When it is full", [...path, "when_full"], [["refuse", "refuse the job"], ["block", "block the station before"], ["retry", "the job tries again"]], full, "when-full") : ""}
${full === "retry" && limited ? distribution("Tries again after", [...path, "when_full", "retry"], table.when_full.retry, LAWS) + field("Each time longer by the factor", [...path, "when_full", "backoff"], table.when_full.backoff, { kind: "number", placeholder: "1" }) + field("At most, times", [...path, "when_full", "retries"], table.when_full.retries, { kind: "number", placeholder: "no limit" }) : ""}</fieldset>`;
  const speed = discipline === "ps" || discipline === "lps"
    ? `<details${table.speed === undefined ? "" : " open"}><summary>Speed with several jobs</summary>${field("v(n), in TOML, in place of servers", [...path, "speed"], table.speed, { kind: "toml" })}</details>`
    : "";
  return `<h2>Station</h2>${field("Name", [...path, "name"], name, { act: "rename" })}
${choice("Discipline", [...path, "discipline"], DISCIPLINES, discipline, "discipline")}
${discipline === "lps" ? field("r, the most in service", [...path, "r"], table.r, { kind: "number" }) : ""}
${discipline === "is" || table.speed !== undefined ? "" : field("Servers", [...path, "servers"], table.servers, { kind: "number", placeholder: "1" })}
<fieldset><legend>Work</legend>${choice("Kind", [...path, "demand"], [["demand", "time per visit"], ["rate", "a line with a bandwidth"]], table.rate === undefined ? "demand" : "rate", "kind")}${demand}${line}</fieldset>
${limits}${speed}
<p class="buttons">${button("Add a visit to it", "visit-station", path, `add a visit to ${name} to the route`)}${button("Remove the station", "remove-station", path)}</p>`;
}

function visit(each, path, index, count, stations) {
  const name = stationOf(each), own = isTable(each) ? each : {}, number = index + 1;
  const list = stations.includes(name) ? stations : [name ?? "?", ...stations];
  const places = stations.map((at) => [at, `of ${at}`]), held = heldBy(each);
  const heldPlace = (now, place) => choice(place === 0 ? "Holds a place meanwhile" : "And a place", [...path, "holds", place], [["", "none"], ...places], now, "holds");
  return `<li><div class="visit"><select ${data(path)} data-act="visit" aria-label="station of visit ${number}">${options(list.map((at) => [at, at]), name)}</select>
${button("↑", "earlier", path, `visit ${number} earlier`)}${button("↓", "later", path, `visit ${number} later`)}${button("✕", "remove", path, `remove visit ${number}`)}</div>
<details${own.demand !== undefined || own.holds !== undefined ? " open" : ""}><summary>Own demand, places held</summary>
${distribution("Demand of this visit", [...path, "demand"], own.demand, DEMANDS, { none: "as the station's" })}
${[...held, ""].map(heldPlace).join("")}</details></li>`;
}

function route(each, index, path, isOnly, chosen, stations) {
  const visits = [...path, ...each.path], below = visits.slice(0, -1);
  const heading = isOnly ? "" : `${field("Name", [...below, "name"], each.name)}${field("Probability", [...below, "probability"], each.probability, { kind: "number", act: "probability" })}`;
  const add = stations.length
    ? `<div class="visit"><select id="${escaped(id(visits))}-add" aria-label="station of a further visit">${options(stations.map((at) => [at, at]))}</select>${button("Add a visit", "add-visit", visits)}</div>`
    : '<p class="note">Add a station first.</p>';
  const title = isOnly ? "Route" : `Route ${each.name}, ${percent(each.probability)}`;
  return `<fieldset class="route${chosen ? " chosen" : ""}" data-route="${index}"><legend>${escaped(title)}</legend>${heading}
<ol>${each.visits.map((stop, at) => visit(stop, [...visits, at], at, each.visits.length, stations)).join("")}</ol>
<p class="wrong" id="${escaped(id(visits))}-wrong" ${data(visits)} hidden></p>${add}
${isOnly ? "" : `<p class="buttons">${button("Remove the route", "remove-route", below)}</p>`}</fieldset>`;
}

function classPanel(name, table, content, chosen) {
  const path = ["classes", name], stations = stationsOf(content).map(([each]) => each), routes = routesOf(table);
  const isClosed = table.users !== undefined;
  const load = isClosed
    ? field("Users", [...path, "users"], table.users, { kind: "number" }) + distribution("Think time", [...path, "think_time"], table.think_time, LAWS)
    : field("Arrival rate", [...path, "rate"], table.rate, { placeholder: "10/s" });
  return `<h2>Class</h2>${field("Name", [...path, "name"], name, { act: "rename" })}
${choice("Kind", path, [["open", "open: arrivals at a rate"], ["closed", "closed: users who think"]], isClosed ? "closed" : "open", "class-kind")}${load}
${routes.map((each, index) => route(each, index, path, table.routes === undefined, index === (chosen.route ?? 0), stations)).join("")}
<p class="buttons">${button("Add a route", "add-route", path)}</p>
<details${table.latency !== undefined || table.document !== undefined ? " open" : ""}><summary>Latency, documents of its own</summary>
${field("Latency added to every response", [...path, "latency"], table.latency, { placeholder: "0ms" })}
${distribution("Document sizes", [...path, "document"], table.document, LAWS, { none: "those of the system", isSize: true })}</details>
<p class="buttons">${button("Remove the class", "remove-class", path)}</p>`;
}

function whole(content) {
  return `<h2>System</h2>${field("Name", ["name"], content.name)}${field("Description", ["description"], content.description)}
${distribution("Document sizes", ["document"], content.document, LAWS, { none: "none", isSize: true })}
<p class="note">Choose a station or a class in the drawing to edit it.</p>`;
}

function panel(content, chosen) {
  if (chosen?.kind === "station") return station(chosen.name, content.stations[chosen.name], content);
  if (chosen?.kind === "class") return classPanel(chosen.name, content.classes[chosen.name], content, chosen);
  return whole(content);
}

// ---- Edits

// Demands by document size need sizes: without any, a file gets some.
const withDocument = (content, edits) => (content.document === undefined ? [...edits, ...Object.entries(DOCUMENT).map(([name, each]) => set(["document", name], each))] : edits);
const at = (content, path) => path.reduce((value, step) => value?.[step], content);
// A visit that is only a name becomes a table, which can state more.
const asTable = (content, path) => (typeof at(content, path) === "string" ? [set(path, { station: at(content, path) })] : []);

function form(content, path, chosen, isSize) {
  const visitPath = path.at(-1) === "demand" && typeof path.at(-2) === "number" ? [asTable(content, path.slice(0, -1))].flat() : [];
  if (chosen === "none") return [...visitPath, remove(path)];
  const edits = [...visitPath, set(path, formed(chosen, meanOf(at(content, path), isSize), isSize))];
  return chosen === "size" || chosen === "pieces" ? withDocument(content, edits) : edits;
}
function discipline(content, path, chosen) {
  const table = path.slice(0, -1), now = at(content, table) ?? {};
  const drop = { is: ["r", "servers", "speed", "capacity", "queue", "when_full"], fifo: ["r", "speed"], ps: ["r", "queue"], lps: [] }[chosen];
  const edits = [set(path, chosen), ...drop.filter((each) => now[each] !== undefined).map((each) => remove([...table, each]))];
  if (chosen === "lps" && now.r === undefined) edits.push(set([...table, "r"], Math.max(R_DEFAULT, Number(now.servers) || 1)));
  if (chosen === "ps" && now.queue !== undefined && now.capacity === undefined) edits.push(remove([...table, "when_full"]));
  return edits;
}
// A limit replaces the other way to state it; without any there is no fate of a job that finds no place.
function limit(content, path, typed) {
  const table = path.slice(0, -1), other = [...table, path.at(-1) === "queue" ? "capacity" : "queue"];
  if (typed !== "") return [remove(other), { do: "set", path, value: written(typed, "number") }];
  return [remove(path), ...(at(content, other) === undefined ? [remove([...table, "when_full"])] : [])];
}
function kind(content, path, chosen) {
  const table = path.slice(0, -1);
  if (chosen === "rate") return withDocument(content, [remove([...table, "demand"]), set([...table, "rate"], "10Mbit/s")]);
  return [remove([...table, "rate"]), set([...table, "demand"], "10ms")];
}
function classKind(content, path, chosen) {
  const from = chosen === "closed" ? ["rate"] : ["users", "think_time"];
  const to = chosen === "closed" ? { users: 10, think_time: { law: "exponential", mean: "1s" } } : { rate: "10/s" };
  return [...from.map((each) => remove([...path, each])), ...Object.entries(to).map(([name, each]) => set([...path, name], each))];
}
// The other routes of the class are scaled, so that the probabilities sum to one.
function probability(content, path, typed) {
  const value = Number(typed), routes = path.slice(0, -2), index = path.at(-2), all = at(content, routes) ?? [];
  const edits = [{ do: "set", path, value: written(typed, "number") }];
  if (!isNumber(typed) || value < 0 || value > 1) return edits;
  const others = all.map((each, place) => [place, Number(each?.probability) || 0]).filter(([place]) => place !== index);
  const sum = others.reduce((total, [, each]) => total + each, 0);
  return [...edits, ...others.map(([place, each]) => set([...routes, place, "probability"], round(sum > 0 ? (each * (1 - value)) / sum : (1 - value) / others.length)))];
}
const round = (value) => Number(value.toFixed(9));
// A class with one route states it as such, one with several as tables with names and probabilities.
function addRoute(content, path, visits) {
  const table = at(content, path), routes = routesOf(table);
  const names = new Set(routes.map((each) => each.name)), fresh = (name) => { let found = name, count = 2; while (names.has(found)) found = `${name}-${count++}`; names.add(found); return found; };
  if (table.routes === undefined) {
    const [first, second] = [fresh("route-1"), fresh("route-2")];
    const own = table.route ?? [];
    return [remove([...path, "route"]), ...[[first, own], [second, visits ?? own]].map(([name, each], place) => ({ do: "insert", path: [...path, "routes", place], value: toml({ name, probability: 0.5, visits: each }) }))];
  }
  const share = 1 / (routes.length + 1);
  return [
    ...routes.map((each, place) => set([...path, "routes", place, "probability"], round(each.probability * (1 - share)))),
    { do: "insert", path: [...path, "routes", routes.length], value: toml({ name: fresh(`route-${routes.length + 1}`), probability: round(share), visits: visits ?? routes.at(-1)?.visits ?? [] }) },
  ];
}
function removeRoute(content, path) {
  const [index, routes] = [path.at(-1), path.slice(0, -1)], all = at(content, routes);
  if (all.length === 2) {
    const left = all[1 - index];
    return [remove(routes), set([...routes.slice(0, -1), "route"], left.visits ?? [])];
  }
  const share = 1 - (Number(all[index].probability) || 0);
  const rest = all.map((each, place) => [place, Number(each?.probability) || 0]).filter(([place]) => place !== index);
  return [...rest.map(([place, each]) => set([...routes, place, "probability"], round(share > 0 ? each / share : 1 / rest.length))), remove(path)];
}
function swap(content, path, by) {
  const list = path.slice(0, -1), place = path.at(-1), all = at(content, list), other = place + by;
  if (other < 0 || other >= all.length) return [];
  return [set(path, all[other]), set([...list, other], all[place])];
}
// Every visit of a station, as its path with what it holds; the last first, so that removals leave the others in place.
function visitsOf(content) {
  return Canvas.classesOf(content).flatMap(([name, table]) => routesOf(table).flatMap(({ visits, path }) => visits.map((each, place) => [["classes", name, ...path, place], each]))).reverse();
}
function renameStation(content, from, to) {
  const edits = [{ do: "rename", path: ["stations", from], name: to }];
  for (const [path, each] of visitsOf(content)) {
    if (each === from) edits.push(set(path, to));
    if (isTable(each) && each.station === from) edits.push(set([...path, "station"], to));
    if (heldBy(each).includes(from)) edits.push(setHeld(path, heldBy(each).map((held) => (held === from ? to : held))));
  }
  if (content.drawing?.[from] !== undefined) edits.push({ do: "rename", path: ["drawing", from], name: to });
  return edits;
}
function removeStation(content, name) {
  const edits = [];
  for (const [path, each] of visitsOf(content)) {
    if (stationOf(each) === name) edits.push(remove(path));
    else if (heldBy(each).includes(name)) edits.push(setHeld(path, heldBy(each).filter((held) => held !== name)));
  }
  return [...edits, remove(["stations", name]), remove(["drawing", name])];
}
// The last choice of a visit, which says none, adds a place.
function holds(content, path, chosen) {
  const [visit, place] = [path.slice(0, -2), path.at(-1)];
  const held = heldBy(at(content, visit));
  held.splice(place, 1, ...(chosen === "" ? [] : [chosen]));
  return [...asTable(content, visit), setHeld(visit, held)];
}
function visitOf(content, path, chosen) {
  return [isTable(at(content, path)) ? set([...path, "station"], chosen) : set(path, chosen)];
}
function whenFull(content, path, chosen) {
  return [set(path, chosen === "retry" ? { retry: "1s" } : chosen)];
}

return {
  panel, id, toml, written, set, remove, at,
  form, discipline, limit, kind, classKind, probability, addRoute, removeRoute, swap, renameStation, removeStation, holds, visitOf, whenFull,
};
})();
