// The drawing of a system: where stations stand, and stations, classes and routes as SVG. It only draws; what a file
// states may be incomplete or wrong.
"use strict";
const Canvas = (() => {

const { escaped, percent } = Drawing;
const STATION = { width: 136, height: 66 }, SOURCE = { width: 112, height: 46 }, SINK = { width: 44, height: 44 };
const MARGIN = 28, GAP_X = 64, GAP_Y = 46, HEIGHT_MIN = 250;
const COLOURS = [1, 2, 3, 4, 0], LINES = ["solid", "dashed", "dotted"];
const LETTERS_MAX = 15;
const SAMPLES = 16;
const SCALE_MIN = 0.75;
const BOWS_AHEAD = [0, 75, -75, 125, -125, 180, -180], BOWS_BACK = [85, -85, 135, -135, 190, -190];
const REACH_BENT = 50, AIR = 5;

const isTable = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const tables = (value) => (isTable(value) ? Object.entries(value).filter(([, each]) => isTable(each)) : []);
const stationsOf = (content) => tables(content.stations);
const classesOf = (content) => tables(content.classes);
const stationOf = (visit) => (isTable(visit) ? visit.station : visit);
// The routes of a class, each with the path of its visits below the class.
function routesOf(table) {
  if (Array.isArray(table.route)) return [{ name: "all", probability: 1, visits: table.route, path: ["route"] }];
  if (!Array.isArray(table.routes)) return [];
  return table.routes.map((each, index) => ({
    name: each?.name ?? "", probability: Number(each?.probability) || 0, visits: Array.isArray(each?.visits) ? each.visits : [],
    path: ["routes", index, "visits"],
  }));
}

// ---- Places

// Stations stand in columns, in the order in which routes come to them.
function columnsOf(content) {
  const column = new Map(stationsOf(content).map(([name]) => [name, -1]));
  for (const [, table] of classesOf(content)) {
    for (const { visits } of routesOf(table)) {
      const order = [...new Set(visits.map(stationOf))].filter((name) => column.has(name));
      order.forEach((name, index) => column.set(name, Math.max(column.get(name), index)));
    }
  }
  const used = [...new Set([...column.values()].filter((each) => each >= 0))].sort((a, b) => a - b);
  // What no route visits stands in a column of its own, behind the others.
  return new Map([...column].map(([name, each]) => [name, each < 0 ? used.length : used.indexOf(each)]));
}

// Keys of boxes that no station can have: of a class, and of the end of routes.
const CLASS = "\u0000class ", END = "\u0000end";
const keyOfClass = (name) => `${CLASS}${name}`;
const classOfKey = (key) => (key.startsWith(CLASS) ? key.slice(CLASS.length) : null);

// The boxes of all stations (by their names), classes and of the end of routes.
function places(content, moved = new Map()) {
  const found = new Map(), rows = new Map(), columns = columnsOf(content);
  for (const [name, column] of columns) rows.set(column, [...(rows.get(column) ?? []), name]);
  const classes = classesOf(content);
  const tallest = Math.max(...[...rows.values()].map((each) => each.length * (STATION.height + GAP_Y)), classes.length * (SOURCE.height + 22), HEIGHT_MIN - 2 * MARGIN);
  classes.forEach(([name], index) => {
    const y = MARGIN + (tallest - classes.length * (SOURCE.height + 22)) / 2 + index * (SOURCE.height + 22);
    found.set(keyOfClass(name), { x: MARGIN, y, ...SOURCE });
  });
  const left = MARGIN + SOURCE.width + GAP_X;
  for (const [column, names] of rows) {
    names.forEach((name, index) => {
      const drawn = content.drawing?.[name], at = moved.get(name) ?? (Array.isArray(drawn) && drawn.every(Number.isFinite) ? drawn : null);
      const y = MARGIN + (tallest - names.length * (STATION.height + GAP_Y) + GAP_Y) / 2 + index * (STATION.height + GAP_Y);
      const [x, top] = at ?? [left + column * (STATION.width + GAP_X), y];
      found.set(name, { x: Math.max(0, x), y: Math.max(0, top), ...STATION });
    });
  }
  const boxes = [...found].filter(([name]) => columns.has(name)).map(([, box]) => box);
  const right = Math.max(left - GAP_X, ...boxes.map((box) => box.x + box.width));
  found.set(END, { x: right + GAP_X, y: MARGIN + tallest / 2 - SINK.height / 2, ...SINK });
  return found;
}

// ---- Edges

// The connections of all routes: per class and pair of boxes the share of the class's requests that take it.
function edgesOf(content, boxes) {
  const found = [];
  classesOf(content).forEach(([name, table], index) => {
    const own = new Map();
    routesOf(table).forEach(({ visits, probability }, route) => {
      const stops = [keyOfClass(name), ...visits.map(stationOf).filter((each) => boxes.has(each)), END];
      const pairs = new Set(stops.slice(1).map((to, at) => JSON.stringify([stops[at], to])));
      for (const pair of pairs) {
        const edge = own.get(pair) ?? { name, index, pair: JSON.parse(pair), share: 0, routes: [] };
        edge.share += probability;
        edge.routes.push(route);
        own.set(pair, edge);
      }
    });
    found.push(...own.values());
  });
  return found;
}

function pointOf([a, b, c, d], t) {
  const s = 1 - t;
  return [0, 1].map((axis) => s * s * s * a[axis] + 3 * s * s * t * b[axis] + 3 * s * t * t * c[axis] + t * t * t * d[axis]);
}
// A curve from the right of one box to the left of another, bent around boxes that stand between.
function curve(from, to, shift, boxes) {
  const begin = [from.x + from.width, from.y + from.height / 2 + shift], end = [to.x - 2, to.y + to.height / 2 + shift];
  if (from === to) {
    const above = from.y - 34;
    return [begin, [begin[0] + 52, above], [end[0] - 52, above], end];
  }
  const ahead = end[0] - begin[0], reach = ahead > 20 ? ahead / 2 : Math.min(130, 60 - ahead / 4);
  const others = boxes.filter((box) => box !== from && box !== to);
  const bent = (bow) => {
    // A bend begins at once, so that it is past the corner of the next box.
    const out = bow && ahead > 20 ? Math.min(reach, REACH_BENT) : reach;
    return [begin, [begin[0] + out, begin[1] + bow], [end[0] - out, end[1] + bow], end];
  };
  const isFree = (points) => Array.from({ length: SAMPLES }, (_, index) => pointOf(points, (index + 0.5) / SAMPLES))
    .every(([x, y]) => y > AIR && others.every((box) => x < box.x - AIR || x > box.x + box.width + AIR || y < box.y - AIR || y > box.y + box.height + AIR));
  const bows = ahead > 20 ? BOWS_AHEAD : BOWS_BACK;
  return bent(bows.find((bow) => isFree(bent(bow))) ?? bows[0]);
}

function edge(each, points, view) {
  const [begin, first, second, end] = points.map((point) => point.map((value) => value.toFixed(1)).join(" "));
  const angle = (Math.atan2(points[3][1] - points[2][1], points[3][0] - points[2][0]) * 180) / Math.PI;
  const [x, y] = pointOf(points, 0.5);
  const { chosen } = view, own = chosen?.kind === "class" && chosen.name === each.name;
  const route = own && each.routes.includes(chosen.route ?? 0);
  const state = own ? (route ? "chosen" : "") : chosen?.kind === "class" ? "faded" : "";
  const path = `M${begin}C${first} ${second} ${end}`;
  const label = each.share < 0.9995 ? `<text x="${x.toFixed(1)}" y="${(y + 4).toFixed(1)}" text-anchor="middle" class="share">${escaped(percent(each.share))}</text>` : "";
  return `<g class="edge colour-${COLOURS[each.index % 5]} ${state}" data-class="${escaped(each.name)}" data-route="${each.routes[0]}">
<path d="${path}" class="reach"></path><path d="${path}" class="line ${LINES[Math.floor(each.index / 5 + each.index) % 3]}"></path>
<path d="M0 0l-9 -4.5v9z" class="head" transform="translate(${end}) rotate(${angle.toFixed(1)})"></path>${label}</g>`;
}

// ---- Boxes

const short = (name) => (name.length > LETTERS_MAX ? `${name.slice(0, LETTERS_MAX - 1)}…` : name);
function servers(table) {
  const count = table.servers ?? 1;
  if (table.discipline === "is") return "delay";
  const discipline = table.discipline === "lps" ? `lps, r ${table.r ?? "?"}` : (table.discipline ?? "?");
  const limit = table.capacity !== undefined ? `, K ${table.capacity}` : table.queue !== undefined ? `, queue ${table.queue}` : "";
  return `${discipline}${count === 1 ? "" : ` × ${count}`}${limit}`;
}
function arrivals(table) {
  if (table.users !== undefined) return `${table.users} users`;
  return table.rate !== undefined ? String(table.rate) : "?";
}

function station([name, table], box, view) {
  const used = view.used?.[name], known = Number.isFinite(used);
  const is = (list) => list.filter(([, holds]) => holds).map(([word]) => word);
  const states = is([["bottleneck", view.bottleneck === name], ["overloaded", view.overloaded === name], ["wrong", view.wrong?.kind === "station" && view.wrong.name === name]]);
  const isChosen = view.chosen?.kind === "station" && view.chosen.name === name;
  const said = [`station ${name}`, servers(table), ...(known ? [`utilisation ${percent(used)}`] : []), ...states].join(", ");
  const tag = states.map((each) => (each === "wrong" ? "error" : each)).join(", ");
  const inner = box.width - 24;
  const meter = known
    ? `<rect x="12" y="50" width="${inner - 48}" height="6" class="meter"></rect><rect x="12" y="50" width="${(Math.min(1, used) * (inner - 48)).toFixed(1)}" height="6" class="used"></rect><text x="${box.width - 12}" y="56.5" text-anchor="end" class="detail">${escaped(percent(used))}</text>`
    : "";
  return `<g class="node station ${states.join(" ")}${isChosen ? " chosen" : ""}" data-station="${escaped(name)}" tabindex="0" role="button" aria-pressed="${isChosen}" aria-label="${escaped(said)}" transform="translate(${box.x} ${box.y})">
<rect width="${box.width}" height="${box.height}" rx="${table.discipline === "is" ? box.height / 2 : 5}" class="box"></rect>
<text x="${table.discipline === "is" ? 22 : 12}" y="21" class="title">${escaped(short(name))}</text><text x="${table.discipline === "is" ? 22 : 12}" y="39" class="detail">${escaped(short(servers(table)))}</text>
${table.discipline === "is" ? "" : meter}${tag ? `<text x="0" y="-7" class="tag">${escaped(tag)}</text>` : ""}
<circle cx="${box.width}" cy="${box.height / 2}" r="15" class="reach" data-port=""></circle><circle cx="${box.width}" cy="${box.height / 2}" r="5.5" class="port" data-port=""></circle></g>`;
}

function source([name, table], index, box, view) {
  const isChosen = view.chosen?.kind === "class" && view.chosen.name === name;
  const wrong = view.wrong?.kind === "class" && view.wrong.name === name;
  const said = [`class ${name}`, arrivals(table), ...(wrong ? ["error"] : [])].join(", ");
  return `<g class="node source colour-${COLOURS[index % 5]}${isChosen ? " chosen" : ""}${wrong ? " wrong" : ""}" data-class="${escaped(name)}" tabindex="0" role="button" aria-pressed="${isChosen}" aria-label="${escaped(said)}" transform="translate(${box.x} ${box.y})">
<rect width="${box.width}" height="${box.height}" rx="${box.height / 2}" class="box"></rect>
<text x="18" y="20" class="title">${escaped(short(name).slice(0, 13))}</text><text x="18" y="36" class="detail">${escaped(short(arrivals(table)))}</text>
${wrong ? '<text x="0" y="-7" class="tag">error</text>' : ""}
<circle cx="${box.width}" cy="${box.height / 2}" r="15" class="reach" data-port=""></circle><circle cx="${box.width}" cy="${box.height / 2}" r="5.5" class="port" data-port=""></circle></g>`;
}

// Draws a system into an SVG element and returns its boxes. `view` has what is chosen, wrong, used and the bottleneck;
// `moved` the places of stations that are being dragged.
function draw(svg, content, view, moved) {
  const boxes = places(content, moved), classes = classesOf(content), all = [...boxes.values()];
  const edges = edgesOf(content, boxes).map((each) => {
    const [from, to] = each.pair.map((name) => boxes.get(name));
    const shift = (each.index - (classes.length - 1) / 2) * Math.min(11, 36 / classes.length);
    return [each, curve(from, to, shift, all)];
  });
  const width = Math.max(...all.map((box) => box.x + box.width)) + MARGIN;
  const lowest = edges.map(([, points]) => pointOf(points, 0.5)[1] + MARGIN / 2);
  const height = Math.max(HEIGHT_MIN, ...all.map((box) => box.y + box.height + MARGIN), ...lowest);
  const focused = document.activeElement?.closest?.("svg") === svg ? { ...document.activeElement.dataset } : null;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  // A drawing that is a little too wide is made smaller, one that is much too wide is scrolled.
  const scale = Math.max(SCALE_MIN, Math.min(1, svg.parentElement.clientWidth / width));
  svg.style.width = `${width * scale}px`;
  svg.style.height = `${height * scale}px`;
  const done = boxes.get(END);
  svg.innerHTML = `${edges.map(([each, points]) => edge(each, points, view)).join("")}
${classes.map((each, index) => source(each, index, boxes.get(keyOfClass(each[0])), view)).join("")}
${stationsOf(content).map((each) => station(each, boxes.get(each[0]), view)).join("")}
${classes.length ? `<g class="node sink" data-sink="" transform="translate(${done.x} ${done.y})"><circle cx="22" cy="22" r="21" class="box"></circle><text x="22" y="26" text-anchor="middle" class="detail">done</text></g>` : ""}
<path class="rubber" hidden></path>`;
  if (focused) {
    const kind = ["station", "class"].find((each) => focused[each] !== undefined);
    if (kind) svg.querySelector(`.node[data-${kind}="${CSS.escape(focused[kind])}"]`)?.focus();
  }
  return boxes;
}

return { draw, isTable, stationsOf, classesOf, stationOf, routesOf, END, keyOfClass, classOfKey };
})();
