// The calculator of a report: controls, curves by the analytic solvers, and a simulation that follows in a worker.
// The page's thread solves means, in milliseconds. Percentiles may take longer: a second worker solves them point by
// point, the present one first, and each is drawn when it comes. The fragment of the address holds the state.
"use strict";
(() => {

const POINTS = 25;
const SOLVERS_MAX = 4;
const STEPS = 200;
const SOLVING_MS = 15;
const PAINTING_SHARE = 0.25;
const STATIONS_DRAWN_MAX = 8;
const SIMULATION_WAIT_MS = 400;
const ADDRESS_WAIT_MS = 150;
const HALF_WIDTH = 0.02;
const SEARCH_STEPS = 24;
const SEARCH_PRECISION = 2e-3;
// As sojourn plan confirms: with as many jobs, and the limit corrected as often.
const CONFIRMATION_JOBS = 1_000_000;
const CORRECTIONS_MAX = 6;
const SLACK = 0.02;
const REACH = 1024;
const COUNT_MAX = 4096;
const TIMES = [["mean", 1, "solid", "disc"], ["p95", 2, "dashed", "square"], ["p99", 4, "dotted", "triangle"]];
const STATISTICS = ["mean", "p50", "p90", "p95", "p99", "p999"];
const DAYS_PER_MONTH = 365.25 / 12;
const CACHE_MAX = 20000;

const { escaped, number, seconds, percent, linear, logarithmic, scaleOf, draw } = Drawing;
const text = (id) => document.getElementById(id).textContent;
const given = JSON.parse(text("what-if-data"));
const root = document.getElementById("what-if-calculator");
const controls = new Map(given.controls.map((each) => [each.path, each]));

// ---- Text

function shown(control, value, digits = 3) {
  switch (control.kind) {
    case "count": return number(value, 6);
    case "factor": return `× ${number(value, digits)}`;
    case "fraction": return percent(value);
    default: return `${number(value, digits)} ${control.unit}`;
  }
}
const called = (name) => given.names[name] ?? name;
const capital = (words) => words[0].toUpperCase() + words.slice(1);

// ---- State

const initial = () => ({
  values: new Map(),
  against: given.measured ? given.measured.path : given.controls[0].path,
  of: given.aim?.of ?? "",
  statistic: STATISTICS.includes(given.aim?.statistic) ? given.aim.statistic : "p95",
  limit: given.aim && STATISTICS.includes(given.aim.statistic) ? given.aim.seconds : null,
  growth: given.growth_percent_per_month,
  prices: new Map(Object.entries(given.prices ?? {})),
});
let state = initial();

const value = (path) => state.values.get(path) ?? controls.get(path)?.present ?? 1;
function setting(path, at) {
  const control = controls.get(path);
  return `${path}=${control.kind === "count" ? Math.round(at) : at}${control.unit}`;
}
// The settings of the state, with one parameter at another value. Factors come behind what they multiply.
function settings(path = null, at = null) {
  const chosen = new Map(state.values);
  if (path !== null) chosen.set(path, at);
  const paths = [...controls.keys()].filter((each) => chosen.has(each) && chosen.get(each) !== controls.get(each).present);
  return paths.map((each) => setting(each, chosen.get(each)));
}

const FRAGMENT = "#what-if?";
function write() {
  const fields = new URLSearchParams();
  for (const each of settings()) fields.append("set", each);
  const start = initial();
  for (const key of ["against", "of", "statistic", "limit", "growth"]) {
    if (state[key] !== start[key]) fields.set(key, state[key] ?? "");
  }
  for (const [path, price] of state.prices) if (start.prices.get(path) !== price) fields.append("price", `${path}=${price}`);
  const fragment = fields.size || [...fields].length ? FRAGMENT + fields : "";
  if (location.hash === fragment) return;
  try {
    history.replaceState(null, "", fragment || location.pathname + location.search);
  } catch {
    location.replace(fragment || "#");
  }
}
function read() {
  state = initial();
  if (!location.hash.startsWith(FRAGMENT)) return;
  const fields = new URLSearchParams(location.hash.slice(FRAGMENT.length));
  for (const each of fields.getAll("set")) {
    const [path, written] = split(each);
    const control = controls.get(path);
    const at = Number.parseFloat(written);
    if (control && allowed(control, at)) state.values.set(path, at);
  }
  if (controls.has(fields.get("against"))) state.against = fields.get("against");
  if (given.classes.includes(fields.get("of"))) state.of = fields.get("of");
  if (STATISTICS.includes(fields.get("statistic"))) state.statistic = fields.get("statistic");
  for (const key of ["limit", "growth"]) if (fields.has(key)) state[key] = positive(fields.get(key));
  for (const each of fields.getAll("price")) {
    const [path, price] = split(each);
    if (controls.has(path) && positive(price)) state.prices.set(path, positive(price));
  }
}
function allowed(control, at) {
  return Number.isFinite(at) && (control.kind === "fraction" ? at >= 0 && at <= 1 : at > 0);
}
function split(written) {
  const at = written.indexOf("=");
  return [written.slice(0, at), written.slice(at + 1)];
}
function positive(written) {
  const found = Number.parseFloat(written);
  return Number.isFinite(found) && found > 0 ? found : null;
}

// ---- Models

let models = null;
let bytes = null;
const means = new Map();
const complete = new Map();

function remember(cache, key, prediction) {
  if (cache.size >= CACHE_MAX) cache.clear();
  cache.set(key, prediction);
}
const known = (list) => refused(list) ?? complete.get(list.join("\n")) ?? means.get(list.join("\n"));
// Why the system file cannot answer for these settings; null if it can. A limit that the file does not have is one of
// the total rate.
function beyond(list) {
  if (!given.limit) return null;
  const all = list.map(split), chosen = new Map(all);
  // One after the other, as the models take them: growth comes on top of what was chosen.
  const traffic = all.filter(([path]) => path === "traffic").reduce((whole, [, factor]) => whole * Number.parseFloat(factor), 1);
  const rate = traffic * ratesOf(({ path, present }) => (chosen.has(path) ? Number.parseFloat(chosen.get(path)) : present));
  if (rate <= given.limit.per_second) return null;
  return `${given.limit.what} can take ${number(given.limit.per_second, 4)} requests/s, and ${number(rate, 4)} are asked for; the system file does not have that limit, so it cannot say what would change it`;
}
function refused(list) {
  const because = beyond(list);
  return because ? { error: because, overloaded: true } : null;
}
const ratesOf = (of) => given.controls.filter(({ path }) => /^class\..*\.rate$/.test(path)).reduce((sum, control) => sum + of(control), 0);
// The factor of the present traffic at which that limit is reached.
function roomOfLimit() {
  return given.limit ? given.limit.per_second / (value("traffic") * ratesOf((control) => value(control.path))) : Infinity;
}
// A prediction of the means, at once; of percentiles, too, if they are known already.
function solved(list) {
  if (!known(list)) {
    const [found] = models.ask({ do: "predict", system: given.system, variants: [list] });
    remember(means, list.join("\n"), found);
  }
  return known(list);
}

const asker = () => new Asker(text("what-if-models"), () => ({ bytes, models }));
const simulator = asker(), confirmer = asker();
const solvers = Array.from({ length: Math.max(1, Math.min(SOLVERS_MAX, (navigator.hardwareConcurrency || 2) - 1)) }, asker);
const idle = [...solvers];
const waitingFor = [];

// A prediction with percentiles, by the next solver that is free.
async function withPercentiles(list) {
  if (refused(list)) return refused(list);
  const key = list.join("\n");
  if (complete.has(key)) return complete.get(key);
  const solver = idle.pop() ?? (await new Promise((resolve) => waitingFor.push(resolve)));
  try {
    const request = { do: "predict", system: given.system, variants: [list], percentiles: true };
    const [found] = await solver.ask(request);
    remember(complete, key, found);
    return found;
  } finally {
    const next = waitingFor.shift();
    if (next) next(solver); else idle.push(solver);
  }
}

const figures = (response) => preferredAnswer(response, given.preference, state.of);

// ---- Ranges

function isLoad(path) { return controls.get(path).group === "Load" && !path.endsWith("think_time"); }

// The ends of a count: models refuse a station with more servers than helpers, or more of these than its capacity.
function ends({ kind, smaller, larger }) {
  if (kind !== "count") return [0, Infinity];
  const now = (counts) => Object.entries(counts).map(([path, present]) => state.values.get(path) ?? present);
  const least = Math.max(1, ...now(smaller)), most = Math.min(Infinity, ...now(larger));
  return least <= most ? [least, most] : [1, Infinity];
}
// The part of a range that is within the ends of a count; the nearest end if none is.
function within(control, low, high) {
  const [least, most] = ends(control), from = Math.min(most, Math.max(low, least));
  return [from, Math.max(from, Math.min(high, most))];
}

// Values that a target needed, which a curve shows too.
const reached = new Map();

function range(path) {
  const control = controls.get(path), now = value(path), needs = reached.get(path) ?? now;
  if (!isLoad(path)) return within(control, Math.min(control.low, now, needs), Math.max(control.high, now, control.kind === "fraction" ? 0 : control.kind === "count" ? Math.ceil(1.5 * needs) : 1.5 * needs));
  const measured = given.measured?.path === path ? Math.max(...given.measured.points.map((each) => each.load)) : 0;
  const response = solved(settings());
  let full = 0;
  if (response.ok) {
    const { bottleneck, bounds } = response.ok;
    if (control.kind === "count") full = 2 * (bounds?.saturation_users ?? now);
    else if (bottleneck.growth_factor_max && given.classes.length === 1) full = now * bottleneck.growth_factor_max;
    else if (bottleneck.growth_factor_max) full = path === "traffic" ? now * bottleneck.growth_factor_max : 2 * now;
    else full = 2 * now;
  }
  if (control.kind !== "count" && (path === "traffic" || given.classes.length === 1)) full = Math.min(full, 1.05 * now * roomOfLimit());
  const high = Math.max(full, 1.1 * now, 1.1 * measured);
  return [control.kind === "count" ? 1 : high / POINTS, control.kind === "count" ? Math.ceil(high) : high];
}
function geometric(path, low, high) {
  const { kind } = controls.get(path);
  return low > 0 && high / low > 3 && !isLoad(path) && kind !== "fraction" && !(kind === "count" && high <= 64);
}
function places(path) {
  const control = controls.get(path), [low, high] = range(path);
  let values = Array.from({ length: POINTS }, (_, index) => {
    const share = index / (POINTS - 1);
    return geometric(path, low, high) ? low * (high / low) ** share : low + (high - low) * share;
  });
  values.push(value(path));
  if (control.kind === "count") values = values.map(Math.round);
  else if (control.kind !== "fraction") values = values.map((each) => each === value(path) ? each : Number(each.toPrecision(6)));
  return [...new Set(values)].sort((a, b) => a - b);
}

// ---- Extrapolation

function extrapolated() {
  const measured = given.measured;
  if (!measured) return "Nothing was measured for this report: every figure here is the model's.";
  const loads = measured.points.map((each) => each.load);
  const control = controls.get(measured.path);
  const changed = [...state.values.keys()].filter((path) => path !== measured.path && value(path) !== controls.get(path).present);
  const reasons = changed.map((path) => `measured with ${controls.get(path).label} ${shown(controls.get(path), controls.get(path).present)}`);
  const now = value(measured.path), low = Math.min(...loads), high = Math.max(...loads);
  if (now < low || now > high) reasons.push(`measured from ${shown(control, low)} to ${shown(control, high)}`);
  return reasons.length ? `Extrapolated: ${reasons.join("; ")}.` : "Within what was measured.";
}

// ---- The page

const groups = [...new Set(given.controls.map((each) => each.group))];
function row(control) {
  const id = `what-if-${control.path}`;
  const priced = control.group === "Resources" && !control.path.endsWith(".demand");
  const unit = control.kind === "fraction" ? "%" : control.kind === "factor" ? "×" : control.unit;
  return `<div class="control"><label for="${escaped(id)}">${escaped(capital(control.label))}</label>
${slider(control)}
<span class="value"><input type="number" step="any" min="0" id="${escaped(id)}" data-value="${escaped(control.path)}"${unit ? ` aria-describedby="${escaped(id)}-unit"` : ""}><span class="unit" id="${escaped(id)}-unit">${escaped(unit)}</span></span>
${priced ? `<label class="price">price per ${control.unit ? escaped(control.unit) : "unit"} <input type="number" step="any" min="0" data-price="${escaped(control.path)}" aria-label="${escaped(`${control.label}, price per ${control.unit || "unit"}`)}"></label>` : ""}</div>`;
}
function build() {
  const option = (at, label) => `<option value="${escaped(at)}">${escaped(label)}</option>`;
  root.innerHTML = `<form class="controls" aria-label="What-if controls">
${groups.map((group) => `<fieldset><legend>${group}</legend>${given.controls.filter((each) => each.group === group).map(row).join("")}</fieldset>`).join("")}
<fieldset><legend>Questions</legend><div class="questions">
<label>Draw against <select id="what-if-against">${given.controls.map((each) => option(each.path, each.label)).join("")}</select></label>
${given.classes.length > 1 ? `<label>Class <select id="what-if-of">${option("", "all together, means only")}${given.classes.map((each) => option(each, called(each))).join("")}</select></label>` : ""}
<label>Target <select id="what-if-statistic">${STATISTICS.map((each) => option(each, each)).join("")}</select></label>
<label>below, ms <input type="number" step="any" min="0" id="what-if-limit"></label>
<label>Growth, % a month <input type="number" step="any" min="0" id="what-if-growth"></label></div></fieldset>
<p class="buttons"><button type="button" id="what-if-save">Save the system file</button>
<button type="button" id="what-if-copy">Copy a link to this</button>
<button type="reset" id="what-if-reset">As in the file</button> <output id="what-if-said"></output></p>
</form>
<div id="what-if-answer"></div><p id="what-if-progress" class="note"></p><div id="what-if-live" class="unseen" role="status"></div>
<div class="plots"><figure id="what-if-times"></figure><figure id="what-if-load"></figure></div>
<div class="scrolls" tabindex="0" role="region" aria-label="figures"><table id="what-if-table" class="grid"></table></div>
<p class="note" id="what-if-note"></p>`;
  findInputs();
}
const $ = (name) => document.getElementById(`what-if-${name}`);

// A slider of a count has its values, so that an arrow key is one more; others have steps of equal factors or shares.
function onSlider({ kind, low, high }, place) {
  if (kind === "count") return place;
  const share = place / STEPS;
  return kind === "fraction" ? share : Number((low * (high / low) ** share).toPrecision(3));
}
function sliderOf({ kind, low, high }, at) {
  if (kind === "count") return at;
  return Math.round(STEPS * (kind === "fraction" ? at : Math.log(at / low) / Math.log(high / low)));
}
function slider(control) {
  const [least, most, step] = control.kind === "count" ? [control.low, control.high, Math.max(1, Math.round(control.high / STEPS))] : [0, STEPS, 1];
  return `<input type="range" min="${least}" max="${most}" step="${step}" data-slider="${escaped(control.path)}" aria-label="${escaped(`${control.label}, slider`)}">`;
}
const factorOf = (control) => (control.kind === "fraction" ? 100 : 1);

// The inputs of each control, and the value that they show. A large system has hundreds of controls: looking them all up
// in the document, or writing what they show already, would take longer than to solve it.
const inputs = new Map();
function findInputs() {
  const found = (kind) => new Map([...root.querySelectorAll(`[data-${kind}]`)].map((each) => [each.dataset[kind], each]));
  const [sliders, values, prices] = ["slider", "value", "price"].map(found);
  for (const { path } of given.controls) inputs.set(path, { slider: sliders.get(path), input: values.get(path), price: prices.get(path), shown: null, paid: "" });
}

// Puts the state into the inputs, but for the one that is being typed in.
function show() {
  for (const control of given.controls) {
    const now = value(control.path), entry = inputs.get(control.path), { slider, input, price } = entry;
    if (control.kind === "count") {
      // They follow the other counts of the station.
      const [least, most] = within(control, control.low, control.high);
      if (Number(slider.min) !== least || Number(slider.max) !== most) {
        [slider.min, slider.max] = [least, most];
        slider.value = now;
      }
    }
    if (entry.shown !== now) {
      if (document.activeElement !== slider) slider.value = sliderOf(control, now);
      slider.setAttribute("aria-valuetext", shown(control, now));
      if (document.activeElement !== input) input.value = Number((now * factorOf(control)).toPrecision(6));
      input.closest(".control").classList.toggle("changed", now !== control.present);
      entry.shown = document.activeElement === input ? null : now;
    }
    const paid = state.prices.get(control.path) ?? "";
    if (price && entry.paid !== paid) {
      if (document.activeElement !== price) price.value = paid;
      entry.paid = document.activeElement === price ? null : paid;
    }
  }
  $("against").value = state.against;
  if ($("of")) $("of").value = state.of;
  $("statistic").value = state.statistic;
  if (document.activeElement !== $("limit")) $("limit").value = state.limit === null ? "" : Number((state.limit * 1e3).toPrecision(6));
  if (document.activeElement !== $("growth")) $("growth").value = state.growth === null ? "" : Number(state.growth.toPrecision(4));
}

let turn = 0;
let simulation = null;
let sentences = {};
let waiting = null;
let writing = null;

// Redraws for a new state: means at once, percentiles and the searches as they come, the simulation after a pause.
function changed() {
  const mine = ++turn;
  const began = performance.now();
  simulation = null;
  sentences = {};
  simulator.stop();
  confirmer.stop();
  clearTimeout(waiting);
  // A browser takes milliseconds for it, and a moving slider needs it only where it stops.
  clearTimeout(writing);
  writing = setTimeout(write, ADDRESS_WAIT_MS);
  show();
  root.dataset.state = "solving";
  paint(SOLVING_MS);
  root.dataset.redrawMs = (performance.now() - began).toFixed(1);
  waiting = setTimeout(() => simulate(mine), SIMULATION_WAIT_MS);
  fill(mine);
  refine(mine).catch((error) => { if (mine === turn) failed(error); });
}

function failed(error) {
  root.dataset.state = "failed";
  $("note").textContent = `The calculator failed: ${error.message}`;
}

// The values of the curve, the present first, then the ends, then between: a curve that gets finer.
function coarseToFine(values) {
  const last = values.length - 1;
  const order = new Set([values.indexOf(value(state.against)), 0, last]);
  for (let step = last; step > 1; step = Math.ceil(step / 2)) for (let at = 0; at <= last; at += step) order.add(at);
  values.forEach((_, index) => order.add(index));
  return [...order].filter((index) => index >= 0).map((index) => values[index]);
}

// Solves the means of the whole curve, a few at a time, so that the page goes on answering.
async function fill(mine) {
  let until = 0;
  for (const at of coarseToFine(places(state.against))) {
    if (performance.now() > until) {
      await new Promise((next) => setTimeout(next));
      if (mine !== turn) return;
      until = performance.now() + SOLVING_MS;
    }
    solved(settings(state.against, at));
  }
  paint();
}

async function refine(mine) {
  let due = performance.now();
  await withPercentiles([]);
  const open = coarseToFine(places(state.against)).map((at) => settings(state.against, at));
  const part = async () => {
    while (open.length && mine === turn) {
      const list = open.shift();
      // A solver that refuses the means has no percentiles.
      if (known(list) && figures(known(list)).by === undefined) continue;
      await withPercentiles(list);
      const began = performance.now();
      if (mine !== turn || began < due) continue;
      paint();
      due = performance.now() + (performance.now() - began) / PAINTING_SHARE;
    }
  };
  await Promise.all(solvers.map(part));
  if (mine !== turn) return;
  paint();
  if (state.limit !== null) {
    await needed(mine);
    if (mine !== turn) return;
  }
  if (state.growth) {
    await lasting(mine);
    if (mine !== turn) return;
  }
  paint();
  root.dataset.solved = String(mine);
  settle(mine);
}

// Once everything is there, it is said once to who hears the page.
function settle(mine) {
  if (root.dataset.solved !== String(mine) || !simulation?.done) return;
  root.dataset.state = "done";
  $("live").textContent = $("answer").innerText;
}

async function simulate(mine) {
  const because = beyond(settings());
  if (because) {
    simulation = { reason: because, done: true };
    settle(mine);
    return;
  }
  simulation = { jobs: 0 };
  tell();
  const request = {
    do: "simulate", system: given.system, settings: settings(), seed: given.seed, half_width: HALF_WIDTH,
    jobs_max: given.jobs_max, targets: ["mean"],
  };
  try {
    const result = await simulator.ask(request, (jobs) => {
      if (mine === turn && simulation) { simulation.jobs = jobs; tell(); }
    });
    if (mine !== turn) return;
    simulation = { result, done: true };
  } catch (error) {
    if (mine !== turn) return;
    simulation = { reason: unplaced(error.message), done: true };
  }
  paint();
  settle(mine);
}

// ---- Searches

// The metric of a list of settings; infinite where a station is overloaded, or refuses more than the target allows.
async function metric(list) {
  const quick = figures(solved(list));
  if (quick.by === undefined) return quick.overloaded ? Infinity : NaN;
  if (given.loss_max !== null && quick.lost > given.loss_max) return Infinity;
  if (state.statistic === "mean") return quick.times.mean;
  const found = figures(await withPercentiles(list));
  return found.times?.[state.statistic] ?? NaN;
}
const target = () => `${state.statistic}${state.of ? ` of ${called(state.of)}` : ""} below ${seconds(state.limit)}${given.loss_max === null ? "" : ` and loss below ${percent(given.loss_max)}`}`;

const isExact = ({ means, percentiles }) => means === "exact" && (state.statistic === "mean" || percentiles === "exact");

async function simulatedMetric(list) {
  const result = await confirmer.ask({
    do: "simulate", system: given.system, settings: list, seed: given.seed + 1, half_width: HALF_WIDTH,
    jobs_min: CONFIRMATION_JOBS, jobs_max: CONFIRMATION_JOBS, targets: ["mean"],
  });
  const { probability, probability_half_width: half } = result.loss;
  if (given.loss_max !== null && probability > given.loss_max + (half ?? 0)) return Infinity;
  return (state.of ? result.classes[state.of] : result).response_time_seconds[state.statistic];
}

// Where a solver approximates, a long simulation judges the value that was found with it, and the search goes on with a
// limit corrected by their ratio. Gives the last value that the simulation confirms, or null; `search` takes a limit.
async function confirmed(mine, first, listOf, search) {
  let value = first, limit = state.limit, kept = null;
  const tried = [];
  for (let round = 0; round < CORRECTIONS_MAX && value !== null; round++) {
    if (tried.some((each) => Math.abs(each - value) <= SEARCH_PRECISION * Math.abs(each))) break;
    tried.push(value);
    if (isExact(figures(solved(listOf(value))))) return { value, how: "" };
    const found = await simulatedMetric(listOf(value));
    if (mine !== turn) return null;
    if (found <= state.limit) kept = { value, how: `simulated: ${seconds(found)}` };
    if (!Number.isFinite(found) || found <= 0 || (found <= state.limit && found >= state.limit * (1 - SLACK))) break;
    limit *= (state.limit * (1 - SLACK / 2)) / found;
    value = await search(limit);
    if (mine !== turn) return null;
  }
  return kept ?? { value: first, how: "by the solver alone: the simulation does not confirm it" };
}

// The edge of the values that meet the target: between one that does and one that does not.
async function edge(mine, met, missed, meets, whole) {
  for (let step = 0; step < SEARCH_STEPS; step++) {
    if (whole ? Math.abs(met - missed) <= 1 : Math.abs(met - missed) <= SEARCH_PRECISION * Math.abs(met)) break;
    let middle = met > 0 && missed > 0 && !whole ? Math.sqrt(met * missed) : (met + missed) / 2;
    if (whole) middle = Math.floor(middle);
    if (await meets(middle)) met = middle; else missed = middle;
    if (mine !== turn) return null;
  }
  return met;
}

async function needed(mine) {
  const path = state.against, control = controls.get(path), now = value(path);
  const meetsWithin = (limit) => async (at) => {
    const found = await metric(settings(path, at));
    if (Number.isNaN(found)) throw new Unknown();
    return found <= limit;
  };
  const meets = meetsWithin(state.limit);
  const whole = control.kind === "count";
  const [fewest, largest] = ends(control);
  const [least, most] = control.kind === "fraction" ? [0, 1] : whole ? [fewest, Math.min(largest, Math.max(COUNT_MAX, fewest, now))] : [now / REACH, now * REACH];
  try {
    const top = isLoad(path) || !whole ? most : await sufficient(meets, Math.max(least, now), most);
    const [atLeast, atTop] = [await meets(least), await meets(top)];
    if (mine !== turn) return;
    const label = control.label, between = `from ${shown(control, least)} to ${shown(control, top)}`;
    if (atLeast && atTop) sentences.needed = `Target, ${target()}: met with ${label} anywhere ${between}.`;
    else if (!atLeast && !atTop) sentences.needed = `Target, ${target()}: not met with any ${label} ${between}.`;
    else {
      const search = async (limit) => {
        const met = meetsWithin(limit);
        return limit !== state.limit && !(await met(atLeast ? least : top)) ? null : edge(mine, atLeast ? least : top, atLeast ? top : least, met, whole);
      };
      const say = ({ value: found, how }) => {
        reached.set(path, found);
        sentences.needed = `Target, ${target()}: needs ${label} of ${atLeast ? "at most" : "at least"} ${shown(control, found, 4)}.${how && ` (${capital(how)}.)`}`;
      };
      const found = await search(state.limit);
      if (found === null) return;
      say({ value: found, how: isExact(figures(solved(settings(path, found)))) ? "" : "a simulation follows" });
      paint();
      const sure = await confirmed(mine, found, (at) => settings(path, at), search);
      if (sure === null) return;
      say(sure);
    }
  } catch (error) {
    if (!(error instanceof Unknown)) throw error;
    sentences.needed = `Target, ${target()}: no solver knows this figure here. ${capital(figures(solved(settings())).percentiles ?? "")}`.trim();
  }
}
class Unknown extends Error {}

// The solvers take longer the more servers there are, so the upper end of a count is one that suffices.
async function sufficient(meets, first, most) {
  for (let at = first; at < most; at *= 2) if (await meets(at)) return at;
  return most;
}

// When growth takes the traffic beyond the target, and beyond what the first station can do.
async function lasting(mine) {
  const rate = Math.log(1 + state.growth / 100) / DAYS_PER_MONTH;
  const day = (factor) => {
    const days = Math.log(factor) / rate;
    if (days <= 0) return "already";
    const start = given.start ? new Date(`${given.start}T00:00:00Z`) : new Date();
    start.setUTCDate(start.getUTCDate() + Math.floor(days));
    return days > 200 * 365.25 ? "in more than 200 years" : `on ${start.toISOString().slice(0, 10)}`;
  };
  const found = figures(solved(settings()));
  const { bottleneck } = found, { bounds } = solved(settings()).ok ?? {};
  const users = given.controls.find((each) => each.path.endsWith(".users"));
  const ofStation = bottleneck?.growth_factor_max ?? (bounds && users ? bounds.saturation_users / value(users.path) : null);
  const ofLimit = roomOfLimit();
  const [first, full] = ofLimit < (ofStation ?? Infinity) ? [given.limit.what, ofLimit] : [bottleneck?.station, ofStation];
  const said = [];
  if (state.limit !== null) {
    const grown = (factor) => [...settings(), `traffic=${factor}`];
    const meetsWithin = (limit) => async (factor) => {
      const at = await metric(grown(factor));
      if (Number.isNaN(at)) throw new Unknown();
      return at <= limit;
    };
    const meets = meetsWithin(state.limit);
    try {
      // At exactly a full station the solvers' answers are of no use: a little beyond, they refuse.
      let missed = Math.min(REACH, Math.max(1.001 * (full ?? 1), 1 / REACH));
      while (missed < REACH && (await meets(missed))) missed = Math.min(REACH, 2 * missed);
      if (!(await meets(1 / REACH))) said.push("the target is missed at any traffic");
      else if (!(await meets(missed))) {
        const search = async (limit) => ((await meetsWithin(limit)(1 / REACH)) ? edge(mine, 1 / REACH, missed, meetsWithin(limit), false) : null);
        const found = await search(state.limit);
        if (found === null) return;
        const sure = await confirmed(mine, found, grown, search);
        if (sure === null) return;
        said.push(`the target is missed ${day(sure.value)} (traffic × ${number(sure.value)}${sure.how && `; ${sure.how}`})`);
      }
    } catch (error) {
      if (!(error instanceof Unknown)) throw error;
    }
  }
  if (full) said.push(`${first} is full ${day(full)} (traffic × ${number(full)})`);
  if (said.length) sentences.growth = `At ${number(state.growth)} % a month, ${said.join("; ")}.`;
}

function cost(of) {
  return [...state.prices].reduce((sum, [path, price]) => sum + price * of(path), 0);
}

// ---- Painting

// Solves what is missing for at most `solving` ms, so that a redraw takes less than 50 ms; `fill` solves the rest.
function paint(solving = 0) {
  const path = state.against, control = controls.get(path), now = value(path);
  const began = performance.now(), all = places(path);
  const ready = new Set();
  for (const at of coarseToFine(all)) {
    const list = settings(path, at);
    if (!known(list) && ready.size > 0 && performance.now() - began > solving) continue;
    solved(list);
    ready.add(at);
  }
  const values = all.filter((at) => ready.has(at));
  const found = values.map((at) => figures(known(settings(path, at))));
  const most = (name) => Math.max(0, ...found.map((each) => each.utilisations?.[name] ?? 0));
  const at = (index, statistic) => found[index].times?.[statistic];
  const series = TIMES.map(([name, colour, line]) => ({
    name, colour, line,
    points: values.map((x, index) => ({ x, y: at(index, name), text: `${seconds(at(index, name))} at ${shown(control, x)}` })).filter((each) => Number.isFinite(each.y)),
  })).filter((each) => each.points.length);
  const measured = given.measured?.path === path ? given.measured.points : [];
  for (const [name, colour, , mark] of TIMES) {
    const points = measured.filter((each) => each[name] !== null).map((each) => ({ x: each.load, y: each[name], text: `${seconds(each[name])} at ${shown(control, each.load)}` }));
    if (points.length) series.push({ name: `${name}, measured`, colour, mark, points });
  }
  const simulated = simulatedTimes();
  if (simulated) {
    const points = TIMES.map(([name]) => ({ x: now, y: simulated[name], half: simulated[`${name}_half_width`], text: `${name} ${interval(simulated, name)}` }));
    series.push({ name: "simulated", colour: 3, mark: "diamond", hollow: true, points });
  }
  const times = series.flatMap((each) => each.points.flatMap((point) => (point.half ? [point.y - point.half, point.y, point.y + point.half] : [point.y])));
  const guides = [{ axis: "x", value: now, label: shown(control, now) }];
  if (state.limit !== null) guides.push({ axis: "y", value: state.limit, label: `target: ${state.statistic} ${seconds(state.limit)}` });
  const [low, high] = [all[0], all[all.length - 1]];
  const x = {
    label: `${control.label}${control.unit ? ` (${control.unit})` : control.kind === "factor" ? " (factor)" : ""}`,
    scale: geometric(path, low, high) ? logarithmic(low / 1.05, high * 1.05) : linear(control.kind === "fraction" || isLoad(path) ? 0 : low, high + (high - low) * 0.02),
    tick: (each) => (control.kind === "fraction" ? percent(each) : number(each, 4)),
  };
  const shades = [];
  if (measured.length) {
    const loads = measured.map((each) => each.load);
    const other = [...state.values.keys()].some((each) => each !== path && value(each) !== controls.get(each).present);
    if (other) shades.push({ from: 0, to: high * 2 });
    else shades.push({ from: 0, to: Math.min(...loads) }, { from: Math.max(...loads), to: high * 2 });
  }
  let only = "";
  if (given.measured && path !== given.measured.path) {
    shades.push({ from: low, to: high * 2 });
    only = ` Only ${shown(control, control.present)} was measured.`;
  }
  const answered = found.some((each) => each.by !== undefined);
  const cut = found.some((each) => each.overloaded) ? " Curves end where a station would be overloaded." : "";
  const caption = answered ? `Everything else as set above.${only}${cut}` : "No solver answers here.";
  draw($("times"), {
    title: `Response time against ${control.label}`, caption, series, guides, shades, x,
    y: { label: "response time", scale: scaleOf(state.limit === null ? times : [...times, state.limit], true), tick: seconds },
  });
  const busiest = [...given.stations].sort((a, b) => most(b) - most(a)).slice(0, STATIONS_DRAWN_MAX);
  const drawn = given.stations.filter((name) => busiest.includes(name));
  const stations = drawn.map((name, index) => ({
    name, colour: [1, 2, 3, 4, 0][index % 5], line: ["solid", "dashed", "dotted"][Math.floor(index / 5 + index) % 3],
    points: values.map((each, place) => {
      const used = found[place].utilisations?.[name];
      return { x: each, y: used === null || used === undefined ? NaN : used, text: `${percent(used)} at ${shown(control, each)}` };
    }).filter((each) => Number.isFinite(each.y)),
  }));
  draw($("load"), {
    title: `Utilisation against ${control.label}`, caption: `Busy share of each station's servers.${drawn.length < given.stations.length ? ` The ${drawn.length} of ${given.stations.length} stations that are used most.` : ""}`, series: stations,
    guides: [{ axis: "x", value: now, label: shown(control, now) }], shades, x,
    y: { label: "utilisation", scale: linear(0, 1), tick: percent },
  });
  table();
  tell();
}

function simulatedTimes() {
  const result = simulation?.result;
  if (!result) return null;
  return state.of ? result.classes[state.of].response_time_seconds : result.response_time_seconds;
}
function interval(times, name) {
  const half = times[`${name}_half_width`];
  return !Number.isFinite(half) ? `${seconds(times[name])}, no interval` : `${seconds(times[name])} ± ${number((100 * half) / times[name], 2)} %`;
}

function table() {
  const file = figures(solved([]));
  const now = figures(solved(settings()));
  const simulated = simulatedTimes(), result = simulation?.result;
  const rows = TIMES.map(([name]) => [
    `${name} response time`, seconds(file.times?.[name]), seconds(now.times?.[name]), simulated ? interval(simulated, name) : "",
  ]);
  const done = state.of ? result?.classes[state.of] : result;
  const rate = (each) => (each === undefined || each === null ? "–" : `${number(each, 4)}/s`);
  rows.push(["throughput", rate(file.throughput), rate(now.throughput), done ? rate(done.throughput_per_second) : ""]);
  if (now.lostOwn > 1e-9 || file.lostOwn > 1e-9) rows.push(["lost", percent(file.lostOwn), percent(now.lostOwn), done ? percent(done.loss.probability) : ""]);
  for (const name of given.stations) {
    rows.push([`utilisation of ${name}`, percent(file.utilisations?.[name]), percent(now.utilisations?.[name]), result ? percent(result.stations[name].utilisation) : ""]);
  }
  if (state.prices.size) rows.push(["cost", number(cost((path) => controls.get(path).present), 4), number(cost(value), 4), ""]);
  const head = ["", "as in the file", "what if", "what if, simulated"];
  $("table").innerHTML = `<caption>${escaped(state.of || given.classes.length === 1 ? `Figures${state.of ? ` of ${called(state.of)}` : ""}` : "Figures of all classes together")}</caption>
<thead><tr>${head.map((each) => `<th scope="col">${each}</th>`).join("")}</tr></thead>
<tbody>${rows.map(([name, ...cells]) => `<tr><th scope="row">${escaped(name)}</th>${cells.map((each) => `<td>${escaped(each)}</td>`).join("")}</tr>`).join("")}</tbody>`;
  root.dataset.times = JSON.stringify(now.times ?? null);
  root.dataset.simulated = JSON.stringify(simulated ?? null);
  $("note").textContent = now.by ? solvedBy(now, complete.has(settings().join("\n"))) : "";
}

function simulatedBy() {
  const result = simulation?.result;
  return result ? `Simulated: ${number(result.jobs, 4)} jobs, seed ${result.seed}, as sojourn simulate does.` : "";
}

function tell() {
  const now = figures(solved(settings()));
  const said = [];
  const condition = settings().map((each) => split(each)[0]).map((path) => `${controls.get(path).label} ${shown(controls.get(path), value(path))}`);
  if (now.by) {
    const { times } = now;
    const busiest = Object.entries(now.utilisations).filter(([, each]) => each !== null).sort((a, b) => b[1] - a[1])[0];
    const tails = ["p95", "p99"].filter((name) => Number.isFinite(times[name])).map((name) => `, ${name} ${seconds(times[name])}`).join("");
    said.push(`<strong>${condition.length ? `With ${escaped(condition.join(", "))}` : "As in the file"}: mean ${seconds(times.mean)}${tails}.</strong>${busiest ? ` ${escaped(busiest[0])} is used most, ${percent(busiest[1])}.` : ""}`);
  } else {
    said.push(`<strong>${condition.length ? `With ${escaped(condition.join(", "))}: ` : ""}${now.overloaded ? "overloaded" : "no analytic answer"}.</strong> ${escaped(capital(now.reason))}.`);
  }
  if (sentences.needed) said.push(escaped(sentences.needed));
  if (sentences.growth) said.push(escaped(sentences.growth));
  if (simulation?.reason && simulation.reason !== now.reason) said.push(`Not simulated: ${escaped(simulation.reason)}.`);
  const beyond = extrapolated();
  said.push(beyond.startsWith("Extrapolated") ? `<span class="extrapolated">${escaped(beyond)}</span>` : escaped(beyond));
  const content = said.map((each) => `<p>${each}</p>`).join("");
  if ($("answer").innerHTML !== content) $("answer").innerHTML = content;
  const waits = simulation === null ? "The simulation follows." : `Simulating${simulation.jobs ? `, ${number(simulation.jobs, 3)} jobs so far` : ""}…`;
  $("progress").textContent = simulation?.done ? simulatedBy() : waits;
}

// ---- Events

let frame = null;
// Several events of a moving slider become one redraw.
function soon() {
  if (frame !== null) return;
  frame = requestAnimationFrame(() => { frame = null; changed(); });
}

function listen() {
  root.addEventListener("input", ({ target: input }) => {
    const { slider, value: typed, price } = input.dataset;
    if (slider) {
      const control = controls.get(slider);
      state.values.set(slider, onSlider(control, Number(input.value)));
    } else if (typed) {
      const control = controls.get(typed), at = Number.parseFloat(input.value) / factorOf(control);
      input.setAttribute("aria-invalid", String(!allowed(control, at)));
      if (!allowed(control, at)) return;
      state.values.set(typed, control.kind === "count" ? Math.max(1, Math.round(at)) : at);
    } else if (price) {
      if (positive(input.value)) state.prices.set(price, positive(input.value));
      else state.prices.delete(price);
    } else if (input === $("limit")) state.limit = positive(input.value) === null ? null : positive(input.value) / 1e3;
    else if (input === $("growth")) state.growth = positive(input.value);
    else if (input === $("against")) state.against = input.value;
    else if (input === $("of")) state.of = input.value;
    else if (input === $("statistic")) state.statistic = input.value;
    else return;
    soon();
  });
  root.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  root.querySelector("form").addEventListener("reset", (event) => { event.preventDefault(); state = initial(); soon(); });
  $("save").addEventListener("click", () => {
    const written = models.ask({ do: "write", system: given.system, settings: settings() });
    const changes = settings().map((each) => `#   --set ${each}\n`).join("");
    const content = settings().length ? `# ${given.name}, with the settings of a what-if:\n${changes}\n${written}` : given.system;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type: "application/toml" }));
    link.download = `${given.name.replace(/[^\w.-]+/g, "-")}${settings().length ? "-what-if" : ""}.toml`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    $("said").textContent = `Saved as ${link.download}.`;
  });
  $("copy").addEventListener("click", async () => {
    write();
    try {
      await navigator.clipboard.writeText(location.href);
      $("said").textContent = "Copied.";
    } catch {
      $("said").textContent = "The browser does not allow it: copy the address of this page.";
    }
  });
  window.addEventListener("hashchange", () => { read(); soon(); });
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (Math.abs(root.clientWidth - width) < 1) return;
    width = root.clientWidth;
    paint();
  }).observe(root);
}

async function unpacked(encoded) {
  const packed = Uint8Array.from(atob(encoded.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function begin() {
  const plain = document.getElementById("what-if-without-script");
  try {
    bytes = await unpacked(text("what-if-wasm"));
    models = await Models.load(bytes);
    read();
    build();
    listen();
    plain.hidden = true;
    root.hidden = false;
    changed();
  } catch (error) {
    root.hidden = true;
    plain.hidden = false;
    plain.textContent = `The calculator does not run in this browser: ${error.message}. Everything else on this page is complete without it.`;
  }
}
document.addEventListener("DOMContentLoaded", begin);

})();
