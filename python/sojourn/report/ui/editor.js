// The editor of a system file. The text of the file is the only state: what is drawn and filled in is read from it, and
// every change is an edit of it by the models (crates/queueing/src/system_file/edit.rs), which keeps all the rest. So
// undo is an earlier text, and what is saved is what predict, simulate and plan read.
"use strict";
(() => {

const { escaped, number, seconds, percent } = Drawing;
const { draw, isTable, stationsOf, classesOf, routesOf, stationOf, END, keyOfClass, classOfKey } = Canvas;
const UNDO_MAX = 500;
const SOLVE_WAIT_MS = 60, SIMULATION_WAIT_MS = 700;
const HALF_WIDTH = 0.02;
const KEY_STEP = 10;
const CLICK_PIXELS = 4;
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const $ = (name) => document.getElementById(name);
const svg = $("canvas"), panel = $("panel"), root = $("editor");
const given = JSON.parse($("given").textContent);
const token = new URLSearchParams(location.search).get("token");
const address = (place) => `${place}?token=${encodeURIComponent(token)}`;

let text = given.text, content = {}, error = null;
let past = [], future = [], coalesced = null;
let chosen = null, lastClass = null;
let moved = new Map(), boxes = new Map();
let answer = {}, simulated = null, solvedFor = null;
let onDisk = { text: given.text, version: given.version };
let models = null, solver = null, simulator = null;

// ---- Text

const say = (words) => { $("said").textContent = words; };

// Makes edits. Changes of one field in a row, with one `key`, are undone together.
function edit(edits, key = null, keepPanel = false) {
  if (!edits.length) return false;
  let next;
  try {
    next = models.ask({ do: "edit", system: text, edits });
  } catch (failure) {
    say(`Not changed: ${failure.message}.`);
    return false;
  }
  commit(next, key, keepPanel);
  return true;
}
function commit(next, key = null, keepPanel = false) {
  if (next === text) return;
  if (key === null || key !== coalesced) past.push(text);
  if (past.length > UNDO_MAX) past.shift();
  coalesced = key;
  future = [];
  text = next;
  say("");
  changed(keepPanel);
}
function restore(from, to) {
  if (!from.length) return;
  to.push(text);
  text = from.pop();
  coalesced = null;
  changed();
}

const names = (pairs) => new Set(pairs.map(([name]) => name));
function changed(keepPanel = false) {
  const began = performance.now();
  const outline = models.ask({ do: "outline", system: text });
  error = outline.error;
  // A text that is no TOML leaves the drawing as it was.
  if (Object.keys(outline.content).length || !error || isUnfinished()) content = outline.content;
  if (chosen && !names(chosen.kind === "station" ? stationsOf(content) : classesOf(content)).has(chosen.name)) chosen = null;
  if (chosen?.kind === "class") chosen.route = Math.min(chosen.route ?? 0, Math.max(0, routesOf(content.classes[chosen.name]).length - 1));
  paint();
  if (!keepPanel) fill();
  mark();
  if (document.activeElement !== $("text")) $("text").value = text;
  $("undo").disabled = !past.length;
  $("redo").disabled = !future.length;
  const isSaved = text === onDisk.text && onDisk.version !== "";
  $("state").textContent = isSaved ? "saved" : "not saved";
  $("save").disabled = isSaved || text.trim() === "";
  // Where stations are drawn changes no answer.
  const asked = JSON.stringify({ ...content, drawing: null, error });
  if (asked !== solvedFor) solve();
  solvedFor = asked;
  root.dataset.redrawMs = (performance.now() - began).toFixed(1);
}

// ---- Drawing and panel

// Without stations or classes there is no error yet, but nothing to answer either.
const isUnfinished = () => /^(`(stations|classes)` is missing|the system has no )/.test(error?.message ?? "");
const hasNothing = () => !stationsOf(content).length && !classesOf(content).length;
function placeOfError() {
  const [kind, name] = error?.path ?? [];
  return kind === "stations" && name !== undefined ? { kind: "station", name } : kind === "classes" && name !== undefined ? { kind: "class", name } : null;
}
function paint() {
  const view = { chosen, wrong: placeOfError(), used: answer.used, bottleneck: answer.bottleneck, overloaded: answer.overloaded };
  boxes = draw(svg, content, view, moved);
  $("hint").hidden = !hasNothing();
}
function fill() {
  const focused = panel.contains(document.activeElement) ? document.activeElement.id : "";
  const shown = `${chosen?.kind} ${chosen?.name}`, isSame = panel.dataset.shown === shown;
  const open = [...panel.querySelectorAll("details")].map((each) => each.open);
  panel.innerHTML = Forms.panel(content, chosen);
  panel.dataset.shown = shown;
  if (isSame) [...panel.querySelectorAll("details")].forEach((each, index) => { each.open ||= Boolean(open[index]); });
  if (focused) $(focused)?.focus();
}

const named = (message) => [...message.matchAll(/`([^`]+)`/g)].map((each) => each[1]);
// Shows the error at its field; if it has none there, or is about something else, above.
function mark() {
  for (const each of panel.querySelectorAll("[aria-invalid]")) each.removeAttribute("aria-invalid");
  for (const each of panel.querySelectorAll(".wrong")) { each.hidden = true; each.textContent = ""; }
  const box = $("wrong");
  box.hidden = true;
  if (!error || isUnfinished()) return;
  const fields = [...panel.querySelectorAll("[data-path][aria-describedby]")];
  const at = JSON.stringify(error.path), path = (each) => JSON.parse(each.dataset.path);
  const place = placeOfError(), isHere = place ? chosen?.kind === place.kind && chosen.name === place.name : !chosen;
  const keys = named(error.message);
  const field = fields.find((each) => each.dataset.path === at)
    ?? (isHere ? fields.find((each) => keys.includes(path(each).at(-1)) && at.startsWith(JSON.stringify(path(each).slice(0, -1)).slice(0, -1))) : undefined)
    ?? (isHere && error.path.length > 2 ? fields.find((each) => each.dataset.path.startsWith(`${at.slice(0, -1)},`)) : undefined);
  const list = [...panel.querySelectorAll("p.wrong[data-path]")].find((each) => at.startsWith(each.dataset.path.slice(0, -1)));
  const said = field ? $(`${field.id}-wrong`) : list;
  if (field) field.setAttribute("aria-invalid", "true");
  if (said) {
    said.hidden = false;
    said.textContent = error.message;
  }
  box.hidden = false;
  const where = place ? `${place.kind} ${place.name}` : `line ${error.line}`;
  box.innerHTML = `${escaped(where)}: ${escaped(error.message)}${place && !isHere ? ' <button type="button" id="show">Show it</button>' : ""}`;
}

function choose(next) {
  chosen = next;
  if (next?.kind === "class") lastClass = { name: next.name, route: next.route ?? 0 };
  coalesced = null;
  paint();
  fill();
  mark();
}

// ---- Answers

let turn = 0, solving = null, simulating = null;

function solve() {
  const mine = ++turn;
  clearTimeout(solving);
  clearTimeout(simulating);
  simulator.stop();
  simulated = null;
  root.dataset.state = "solving";
  if (error) {
    answer = {};
    root.dataset.state = "wrong";
    tell();
    return;
  }
  const [response] = models.ask({ do: "predict", system: text, variants: [[]] });
  take(response, false);
  solving = setTimeout(() => percentiles(mine), SOLVE_WAIT_MS);
  simulating = setTimeout(() => simulate(mine), SIMULATION_WAIT_MS);
}
function take(response, complete) {
  const found = Object.fromEntries(classesOf(content).map(([name]) => [name, preferredAnswer(response, given.preference, name)]));
  const first = Object.values(found)[0] ?? {};
  const prediction = response.ok;
  const overloaded = first.overloaded ? prediction?.bottleneck.station : null;
  const used = first.utilisations ?? Object.fromEntries(Object.entries(prediction?.bottleneck.stations ?? {}).map(([name, each]) => [name, each.open_utilisation]));
  answer = { found, first, used, prediction, overloaded, complete, bottleneck: prediction?.bottleneck.station ?? null };
  paint();
  tell();
}
async function percentiles(mine) {
  // What is still being solved is of an older text.
  if (solver.busy) solver.stop();
  solver.busy = true;
  try {
    const [response] = await solver.ask({ do: "predict", system: text, variants: [[]], percentiles: true });
    solver.busy = false;
    if (mine !== turn) return;
    take(response, true);
    settle();
  } catch (failure) {
    if (mine === turn) say(`The percentiles failed: ${failure.message}.`);
  }
}
async function simulate(mine) {
  simulated = { jobs: 0 };
  tell();
  const request = { do: "simulate", system: text, seed: 1, half_width: HALF_WIDTH, jobs_max: given.jobs_max, targets: ["mean"] };
  try {
    const result = await simulator.ask(request, (jobs) => {
      if (mine === turn && simulated) { simulated.jobs = jobs; tell(); }
    });
    if (mine !== turn) return;
    simulated = { result };
  } catch (failure) {
    if (mine !== turn) return;
    simulated = { reason: unplaced(failure.message) };
  }
  tell();
  settle();
}
// Once everything is there, the first sentence is said to who hears the page.
function settle() {
  if (!answer.complete || !(simulated?.result || simulated?.reason)) return;
  root.dataset.state = "done";
  $("live").textContent = $("sentence").textContent;
}

const rate = (each) => (Number.isFinite(each) ? `${number(each, 4)}/s` : "–");
const within = (times, name) => {
  const half = times?.[`${name}_half_width`];
  return Number.isFinite(half) ? `${seconds(times[name])} ± ${number((100 * half) / times[name], 2)} %` : seconds(times?.[name]);
};
function sentence() {
  if (hasNothing()) return "";
  if (error) return isUnfinished() ? "Add a class: who asks, how often, and by which stations." : "No answer while the file has an error.";
  const { bottleneck } = answer.prediction ?? {};
  if (answer.first.by === undefined && !answer.overloaded) return `No solver answers: ${answer.first.reason}. The simulation may.`;
  if (answer.overloaded) return `${answer.overloaded} is overloaded: lower the rate or its demand, or give it more servers.`;
  if (!bottleneck?.station) return "No station is limited by itself.";
  const used = answer.used?.[bottleneck.station];
  const room = bottleneck.growth_factor_max ? ` The traffic can grow ${number(bottleneck.growth_factor_max)} times before it is full.` : "";
  return `${bottleneck.station} is the bottleneck${Number.isFinite(used) ? `, ${percent(used)} used` : ""}.${room}${bottleneck.next ? ` Next is ${bottleneck.next}.` : ""}`;
}
function tell() {
  const { found = {}, first = {}, used = {} } = answer;
  $("sentence").textContent = sentence();
  const tables = $("answer-tables");
  tables.hidden = Boolean(error) || hasNothing();
  if (tables.hidden) { $("note").textContent = ""; return; }
  const result = simulated?.result;
  const row = (head, cells) => `<tr><th scope="row">${escaped(head)}</th>${cells.map((each) => `<td>${escaped(each)}</td>`).join("")}</tr>`;
  const table = (caption, head, rows) => `<div class="scrolls" tabindex="0" role="region" aria-label="${caption}"><table class="grid"><caption>${caption}</caption><thead><tr>${head.map((each) => `<th scope="col">${each}</th>`).join("")}</tr></thead><tbody>${rows.join("")}</tbody></table></div>`;
  const p95 = (times) => (Number.isFinite(times?.p95) ? seconds(times.p95) : answer.complete || first.by === undefined ? "–" : "…");
  tables.innerHTML = table("Classes", ["", "throughput", "mean", "p95", "mean, simulated", "p95, simulated"], Object.entries(found).map(([name, each]) => {
    const times = result?.classes[name]?.response_time_seconds;
    return row(name, [rate(each.throughput), seconds(each.times?.mean), p95(each.times), within(times, "mean"), within(times, "p95")]);
  })) + table("Stations", ["", "utilisation", "simulated", ""], stationsOf(content).map(([name]) => row(name, [
    percent(used?.[name]), percent(result?.stations[name]?.utilisation), answer.bottleneck === name ? (answer.overloaded ? "overloaded" : "bottleneck") : "",
  ])));
  const by = first.by ? solvedBy(first, answer.complete) : "";
  const jobs = result ? ` Simulated: ${number(result.jobs, 4)} jobs, seed ${result.seed}.` : simulated?.reason ? ` Not simulated: ${simulated.reason}.` : simulated ? ` Simulating, ${number(simulated.jobs, 3)} jobs so far…` : " The simulation follows.";
  $("note").textContent = by + jobs;
  root.dataset.answer = JSON.stringify(Object.fromEntries(Object.entries(found).map(([name, each]) => [name, each.times ?? null])));
}

// ---- Stations, classes, routes

function fresh(base, taken) {
  let count = 1;
  while (taken.has(`${base}-${count}`)) count++;
  return `${base}-${count}`;
}
function addStation() {
  const name = fresh("station", names(stationsOf(content)));
  const table = { discipline: "ps", demand: "10ms" };
  const edits = Object.entries(table).map(([key, value]) => Forms.set(["stations", name, key], value));
  if (!edit(edits)) return;
  choose({ kind: "station", name });
  focusName();
}
function addClass() {
  const stations = stationsOf(content).map(([name]) => name);
  if (!stations.length) { say("Add a station first: a class visits stations."); return; }
  const name = fresh("class", names(classesOf(content)));
  const table = { rate: "10/s", route: [chosen?.kind === "station" ? chosen.name : stations[0]] };
  if (!edit(Object.entries(table).map(([key, value]) => Forms.set(["classes", name, key], value)))) return;
  choose({ kind: "class", name, route: 0 });
  focusName();
}
function focusName() {
  const field = panel.querySelector("input");
  field?.focus();
  field?.select();
}
// The class whose route is edited: the one that is chosen or was last, or the only one.
function edited() {
  const all = classesOf(content), last = chosen?.kind === "class" ? chosen : lastClass;
  const known = all.find(([name]) => name === last?.name) ?? (all.length === 1 ? all[0] : null);
  if (!known) return null;
  const [name, table] = known, routes = routesOf(table);
  const index = Math.min(last?.name === name ? (last.route ?? 0) : 0, Math.max(0, routes.length - 1));
  return { name, routes, index, route: routes[index] };
}
// Connects two boxes on the route that is edited: the second becomes the visit behind the first.
function connect(from, to) {
  const ofClass = classOfKey(from);
  if (ofClass !== null && !(chosen?.kind === "class" && chosen.name === ofClass)) chosen = { kind: "class", name: ofClass, route: 0 };
  const now = edited();
  if (!now) { say(classesOf(content).length ? "Choose the class whose route it is first." : "Add a class first: routes belong to classes."); return; }
  const place = ["classes", now.name], visits = now.route?.visits ?? [];
  const before = ofClass !== null ? -1 : visits.map(stationOf).lastIndexOf(from);
  if (ofClass === null && before < 0) { say(`The route of ${now.name} does not visit ${from}: begin where it does.`); return; }
  const isLast = before === visits.length - 1;
  if ($("connecting").value === "branch" && !isLast) {
    const branch = [...visits.slice(0, before + 1), ...(to === END ? [] : [to])];
    if (!branch.length) { say("A route has at least one visit."); return; }
    const count = now.routes.length;
    if (edit(Forms.addRoute(content, place, branch))) choose({ kind: "class", name: now.name, route: count });
    return;
  }
  const path = now.route ? [...place, ...now.route.path] : [...place, "route"];
  let edits;
  if (to === END) {
    if (before < 0) { say("A route has at least one visit."); return; }
    edits = visits.slice(before + 1).map((_, index) => Forms.remove([...path, before + 1 + index])).reverse();
  } else edits = [{ do: "insert", path: [...path, before + 1], value: Forms.toml(to) }];
  const route = now.index;
  if (edit(edits)) choose({ kind: "class", name: now.name, route });
}

// ---- Panel events

function rename(path, name) {
  const [kind, from] = path;
  if (name === "" || name === from) return;
  const edits = kind === "stations" ? Forms.renameStation(content, from, name) : [{ do: "rename", path: ["classes", from], name }];
  const before = chosen;
  chosen = { ...chosen, name };
  if (!edit(edits)) { chosen = before; fill(); } else if (chosen?.kind === "class") lastClass = chosen;
}
// What a button or a choice of the panel does: the edits, or null where it did everything itself.
const ACTS = {
  "form": (path, value) => Forms.form(content, path, value, false),
  "form-of-sizes": (path, value) => Forms.form(content, path, value, true),
  "discipline": (path, value) => Forms.discipline(content, path, value),
  "kind": (path, value) => Forms.kind(content, path, value),
  "class-kind": (path, value) => Forms.classKind(content, path, value),
  "when-full": (path, value) => Forms.whenFull(content, path, value),
  "holds": (path, value) => Forms.holds(content, path, value),
  "visit": (path, value) => Forms.visitOf(content, path, value),
  "remove": (path) => [Forms.remove(path)],
  "earlier": (path) => Forms.swap(content, path, -1),
  "later": (path) => Forms.swap(content, path, 1),
  "add-visit": (path) => [{ do: "insert", path: [...path, (Forms.at(content, path) ?? []).length], value: Forms.toml($(`${Forms.id(path)}-add`).value) }],
  "add-route": (path) => {
    const route = routesOf(content.classes[path[1]]).length;
    if (edit(Forms.addRoute(content, path))) choose({ kind: "class", name: path[1], route: Math.max(1, route) });
    return [];
  },
  "remove-route": (path) => Forms.removeRoute(content, path),
  "remove-class": (path) => [Forms.remove(path)],
  "remove-station": (path) => Forms.removeStation(content, path[1]),
  "visit-station": (path) => {
    const now = edited(), visits = now?.route?.visits ?? [];
    if (!now) { say("Choose a class first, or add one."); return []; }
    connect(visits.length ? stationOf(visits.at(-1)) : keyOfClass(now.name), path[1]);
    return [];
  },
};
function act(target) {
  const path = JSON.parse(target.dataset.path);
  edit(ACTS[target.dataset.act](path, target.value));
}

function listen() {
  panel.addEventListener("click", ({ target }) => {
    const pressed = target.closest("button[data-act]");
    if (pressed) { act(pressed); return; }
    const route = target.closest("fieldset[data-route]");
    if (route && chosen?.kind === "class" && chosen.route !== Number(route.dataset.route)) {
      chosen = { ...chosen, route: Number(route.dataset.route) };
      for (const each of panel.querySelectorAll("fieldset[data-route]")) each.classList.toggle("chosen", each === route);
      paint();
    }
  });
  panel.addEventListener("change", ({ target }) => {
    if (target.matches("select[data-act]")) act(target);
    else if (target.dataset.act === "rename") rename(JSON.parse(target.dataset.path), target.value.trim());
    // What hangs on a limit appears and goes with it.
    else if (target.dataset.act === "limit" || target.dataset.act === "probability") fill(), mark();
  });
  panel.addEventListener("input", ({ target }) => {
    if (!target.dataset.path || target.dataset.act === "rename" || target.matches("select")) return;
    const path = JSON.parse(target.dataset.path), typed = target.value.trim(), key = target.dataset.path;
    if (target.dataset.act === "limit") edit(Forms.limit(content, path, typed), key, true);
    else if (target.dataset.act === "probability") edit(Forms.probability(content, path, typed), key, true);
    else edit([typed === "" ? Forms.remove(path) : { do: "set", path, value: Forms.written(typed, target.dataset.kind) }], key, true);
  });
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chosen) svg.querySelector(".node.chosen")?.focus();
  });
  $("wrong").addEventListener("click", ({ target }) => { if (target.id === "show") { choose(placeOfError()); panel.querySelector("[aria-invalid]")?.focus(); } });
  $("text").addEventListener("input", ({ target }) => commit(target.value, "text"));
  $("add-station").addEventListener("click", addStation);
  $("add-class").addEventListener("click", addClass);
  $("undo").addEventListener("click", () => restore(past, future));
  $("redo").addEventListener("click", () => restore(future, past));
  $("arrange").addEventListener("click", () => edit([Forms.remove(["drawing"])]));
  $("whole").addEventListener("click", () => choose(null));
  $("save").addEventListener("click", () => save());
  document.addEventListener("keydown", keys);
  svg.addEventListener("pointerdown", begin);
  svg.addEventListener("pointermove", follow);
  svg.addEventListener("pointerup", finish);
  svg.addEventListener("pointercancel", () => { drag = null; moved = new Map(); paint(); });
  window.addEventListener("beforeunload", (event) => { if (text !== onDisk.text) event.preventDefault(); });
  window.addEventListener("focus", look);
}

function keys(event) {
  const typing = event.target.matches?.("input, textarea, select");
  if ((event.ctrlKey || event.metaKey) && !event.altKey) {
    const letter = event.key.toLowerCase();
    if (letter === "s") { event.preventDefault(); save(); return; }
    // A text field that is being typed in has an undo of its own.
    if (typing || (letter !== "z" && letter !== "y")) return;
    event.preventDefault();
    if (letter === "y" || event.shiftKey) restore(future, past); else restore(past, future);
    return;
  }
  const node = event.target.closest?.("svg .node");
  if (!node) return;
  const { station, class: name } = node.dataset;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    choose(station !== undefined ? { kind: "station", name: station } : { kind: "class", name, route: 0 });
    if (event.key === "Enter") focusName();
  } else if (event.key === "Delete") {
    event.preventDefault();
    edit(station !== undefined ? Forms.removeStation(content, station) : [Forms.remove(["classes", name])]);
  } else if (MOVES[event.key] && station !== undefined) {
    event.preventDefault();
    const { x, y } = boxes.get(station), [dx, dy] = MOVES[event.key].map((each) => each * KEY_STEP * (event.shiftKey ? 5 : 1));
    edit([Forms.set(["drawing", station], [Math.max(0, Math.round(x + dx)), Math.max(0, Math.round(y + dy))])], `move ${station}`, true);
  }
}

// ---- Pointer

let drag = null;
const pointOf = (event) => {
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return [x, y];
};
const keyOf = (node) => (node.dataset.station !== undefined ? node.dataset.station : node.dataset.sink !== undefined ? END : keyOfClass(node.dataset.class));

function begin(event) {
  if (event.button !== 0) return;
  // A name that is being typed is taken over first. Then both the panel and the drawing may be new.
  if (panel.contains(document.activeElement)) document.activeElement.blur();
  const target = document.elementFromPoint(event.clientX, event.clientY) ?? event.target;
  const node = target.closest(".node"), edge = target.closest(".edge");
  if (edge) { choose({ kind: "class", name: edge.dataset.class, route: Number(edge.dataset.route) }); return; }
  if (!node) { choose(null); return; }
  const point = pointOf(event), key = keyOf(node);
  if (target.closest("[data-port]")) drag = { from: key, point };
  else if (node.dataset.station !== undefined) drag = { station: key, point, at: [boxes.get(key).x, boxes.get(key).y], travelled: 0 };
  else if (node.dataset.class !== undefined) { choose({ kind: "class", name: node.dataset.class, route: 0 }); return; }
  if (!drag) return;
  event.preventDefault();
  svg.setPointerCapture(event.pointerId);
}
function follow(event) {
  if (!drag) return;
  const [x, y] = pointOf(event);
  if (drag.station !== undefined) {
    drag.travelled = Math.max(drag.travelled, Math.hypot(x - drag.point[0], y - drag.point[1]));
    if (drag.travelled < CLICK_PIXELS) return;
    moved = new Map([[drag.station, drag.at.map((each, axis) => Math.max(0, Math.round(each + [x, y][axis] - drag.point[axis])))]]);
    paint();
    return;
  }
  const rubber = svg.querySelector(".rubber"), box = boxes.get(drag.from);
  rubber.removeAttribute("hidden");
  rubber.setAttribute("d", `M${box.x + box.width} ${box.y + box.height / 2}L${x} ${y}`);
}
function finish(event) {
  if (!drag) return;
  const { from, station, travelled } = drag;
  drag = null;
  if (station !== undefined) {
    const place = moved.get(station);
    moved = new Map();
    if (travelled >= CLICK_PIXELS && place) edit([Forms.set(["drawing", station], place)]);
    choose({ kind: "station", name: station });
    svg.querySelector(`.station[data-station="${CSS.escape(station)}"]`)?.focus({ preventScroll: true });
    return;
  }
  const [x, y] = pointOf(event);
  const to = [...boxes].find(([key, box]) => classOfKey(key) === null && x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height);
  paint();
  if (to) connect(from, to[0]);
}

// ---- File

async function request(options) {
  const response = await fetch(address("file"), options);
  return { status: response.status, ...(await response.json()) };
}
async function save() {
  const name = $("name").value.trim(), sent = text;
  say("");
  let found;
  try {
    found = await request({ method: "PUT", body: JSON.stringify({ text: sent, version: onDisk.version, name }) });
  } catch {
    say("Not saved: the command does not answer. It may have ended; the text is below.");
    $("source").open = true;
    return;
  }
  if (found.status === 409) { conflict(found); return; }
  if (found.status !== 200) { say(`Not saved: ${found.said}.`); return; }
  onDisk = { text: sent, version: found.version };
  $("name").readOnly = true;
  $("conflict").hidden = true;
  changed(true);
  say(found.problem ? `Saved as ${found.name}, but predict refuses it: ${found.problem}.` : `Saved as ${found.name}.`);
}
// The file on the disk is another than the one that was opened: nobody's work is overwritten without being asked.
function conflict({ text: there, version, name }) {
  const box = $("conflict");
  box.hidden = false;
  box.innerHTML = `<p>${escaped(name)} was changed by another program since it was opened or saved here.</p>
<p class="buttons"><button type="button" id="take-theirs">Load it</button><button type="button" id="keep-mine">Overwrite it with this</button></p>`;
  $("take-theirs").addEventListener("click", () => {
    onDisk = { text: there, version };
    box.hidden = true;
    commit(there);
    changed();
    say("Loaded. Undo brings back what was here.");
  });
  $("keep-mine").addEventListener("click", () => {
    onDisk = { text: there, version };
    box.hidden = true;
    save();
  });
  $("take-theirs").focus();
}
// Back at the window, after the file may have been edited elsewhere.
async function look() {
  if (!onDisk.version) return;
  try {
    const found = await request({});
    if (found.version === onDisk.version) return;
    if (text === onDisk.text && found.version) {
      onDisk = { text: found.text, version: found.version };
      commit(found.text);
      changed();
      say("Loaded anew: the file was changed by another program. Undo brings back what was here.");
    } else if (found.version) conflict(found);
  } catch {
    say("The command does not answer: it may have ended.");
  }
}

async function start() {
  try {
    const bytes = await (await fetch(address("models.wasm"))).arrayBuffer();
    models = await Models.load(bytes);
    const asker = () => new Asker($("script-models").textContent, () => ({ bytes, models }));
    solver = asker();
    simulator = asker();
    $("name").value = given.name;
    $("name").title = given.is_named ? given.name : "";
    $("name").readOnly = given.is_named;
    root.hidden = false;
    $("without-script").hidden = true;
    listen();
    changed();
  } catch (failure) {
    root.hidden = true;
    $("without-script").hidden = false;
    $("without-script").textContent = `The editor does not run in this browser: ${failure.message}.`;
  }
}
document.addEventListener("DOMContentLoaded", start);

})();
