// Draws a run while it runs: each event is a line of progress, as the terminal draws it.
"use strict";
(() => {

const { escaped, number, seconds, percent, linear, scaleOf, draw } = Drawing;
const HISTORY = 600;
const LINES = ["solid", "dashed", "dotted"], COLOURS = [3, 4, 2];
const PERCENTILES = [["p50", 1, "solid"], ["p95", 2, "dashed"], ["p99", 4, "dotted"]];
const $ = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token");

const lines = [];
let ended = false;

function series(name, colour, line, of) {
  return { name, colour, line, points: lines.map((each) => ({ x: each.seconds, y: of(each), text: `${number(each.seconds)} s` })).filter((each) => Number.isFinite(each.y)) };
}
function plot(id, title, label, curves, tick, log) {
  const shown = curves.filter((each) => each.points.length);
  $(id).hidden = !shown.length;
  if (!shown.length) return;
  for (const curve of shown) for (const point of curve.points) point.text = `${tick(point.y)} at ${point.text}`;
  const [first, last] = [lines[0].seconds, lines[lines.length - 1].seconds];
  draw($(id), {
    title, caption: "One point per line of progress.", series: shown, guides: [], shades: [],
    x: { label: "seconds since the run began", scale: linear(first, Math.max(last, first + 10)), tick: (each) => number(each, 4) },
    y: { label, scale: scaleOf(shown.flatMap((each) => each.points.map((point) => point.y)), log), tick },
  });
}

function tiers() {
  return [...new Set(lines.flatMap((each) => Object.keys(each.tiers ?? {})))];
}

function paint() {
  const last = lines[lines.length - 1];
  if (!last) return;
  $("done").value = last.progress;
  if (!stages.size || ended) $("state").textContent = ended ? "ended: the command prints the result" : `${last.step === null ? "warming up" : "measuring"}, ${percent(last.progress)} done`;
  const times = last.time_to_first_byte_intended_seconds ?? last.behind_seconds ?? {};
  const streams = last.streams_playing !== undefined;
  const figures = streams
    ? [["streams playing", number(last.streams_playing, 6)], ["conforming", number(last.streams_conforming, 6)], ["behind, p99", seconds(times.p99)]]
    : [["requests/s", number(last.requests_per_second, 4)], ["in flight", number(last.in_flight, 6)], ["first byte, p50", seconds(times.p50)],
      ["first byte, p95", seconds(times.p95)], ["first byte, p99", seconds(times.p99)], ["errors/s", number(last.errors_per_second, 4), last.errors_per_second > 0]];
  figures.push(["generator", `${number(last.generator_cpu_fraction)} cores`, last.generator_cpu_fraction > 0.9]);
  const probe = last.probe ?? {};
  if (probe.cpu_seconds !== undefined) figures.push(["server", `${number(probe.cpu_seconds)} cores`]);
  if (probe.resident_bytes !== undefined) figures.push(["server, resident", `${number(probe.resident_bytes / 2 ** 20)} MiB`]);
  if (probe.accept_queue !== undefined) figures.push(["accept queue", number(probe.accept_queue, 6)]);
  for (const [tier, used] of Object.entries(last.tiers ?? {})) if (used.cpu_cores !== undefined) figures.push([`tier ${tier}`, `${number(used.cpu_cores)} cores`]);
  $("figures").innerHTML = figures.map(([name, value, grave]) => `<div><dt>${escaped(name)}</dt><dd${grave ? ' class="grave"' : ""}>${escaped(value)}</dd></div>`).join("");
  if (streams) {
    plot("rate", "Streams", "streams", [series("playing", 1, "solid", (each) => each.streams_playing), series("conforming", 3, "dashed", (each) => each.streams_conforming)], (each) => number(each, 6));
    plot("times", "How far streams are behind", "time", PERCENTILES.map(([name, colour, line]) => series(name, colour, line, (each) => each.behind_seconds?.[name])), seconds, true);
  } else {
    plot("rate", "Throughput", "requests/s", [series("requests/s", 1, "solid", (each) => each.requests_per_second)], (each) => number(each, 4));
    plot("times", "Time to first byte", "time", PERCENTILES.map(([name, colour, line]) => series(name, colour, line, (each) => each.time_to_first_byte_intended_seconds?.[name])), seconds, true);
    plot("errors", "Errors", "errors/s", [series("errors/s", 2, "solid", (each) => each.errors_per_second)], (each) => number(each, 4));
  }
  plot("cores", "CPU", "cores", [
    series("generator", 1, "solid", (each) => each.generator_cpu_fraction),
    series("server", 2, "dashed", (each) => each.probe?.cpu_seconds),
    ...tiers().map((tier, index) => series(tier, COLOURS[index % COLOURS.length], LINES[index % LINES.length], (each) => each.tiers?.[tier]?.cpu_cores)),
  ], (each) => number(each));
}

const stages = new Map();
function paintStages() {
  $("stages").innerHTML = [...stages.values()].map(({ name, fraction, detail, ended: over }) => `<li${over ? ' class="ended"' : ""}><span>${escaped(name)}</span><progress max="1"${fraction === null ? "" : ` value="${fraction}"`} aria-label="${escaped(name)}"></progress><small>${escaped(detail)}</small></li>`).join("");
  const now = [...stages.values()].at(-1), over = [...stages.values()].filter((each) => each.ended).length;
  $("done").hidden = true;
  if (!ended) $("state").textContent = now.ended ? `${over} stages done` : `${now.name}${now.detail ? `: ${now.detail}` : ""}`;
}
function paintTable({ title, rows: [head, ...rows] }) {
  $("done").hidden = true;
  $("table").hidden = false;
  $("state").textContent = title;
  $("table").innerHTML = `<table class="grid"><thead><tr>${head.map((each) => `<th scope="col">${escaped(each)}</th>`).join("")}</tr></thead><tbody>${rows.map(([name, ...cells]) => `<tr><th scope="row">${escaped(name)}</th>${cells.map((each) => `<td>${escaped(each)}</td>`).join("")}</tr>`).join("")}</tbody></table>`;
}

const source = new EventSource(`events?token=${encodeURIComponent(token)}`);
source.addEventListener("progress", ({ data }) => {
  const line = JSON.parse(data);
  // Several machines report in turn: the plots show the first one, as their percentiles do not add up.
  if (line.progress === undefined || (line.host && lines.length && lines[0].host !== line.host)) return;
  if (line.requests_per_second === undefined && line.streams_playing === undefined) return;
  lines.push(line);
  if (lines.length > HISTORY) lines.shift();
  requestAnimationFrame(paint);
});
source.addEventListener("stage", ({ data }) => {
  const stage = JSON.parse(data);
  stages.set(stage.number, stage);
  requestAnimationFrame(paintStages);
});
source.addEventListener("table", ({ data }) => requestAnimationFrame(() => paintTable(JSON.parse(data))));
source.addEventListener("end", () => {
  ended = true;
  source.close();
  if (lines.length) paint(); else $("state").textContent = "ended: the command prints the result";
});
source.addEventListener("error", () => {
  if (!ended) $("state").textContent = "the command does not answer: it may have ended";
});

})();
