// Plots that a page draws itself, with the look of those that drawing.py draws.
"use strict";
const Drawing = (() => {

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (value) => String(value).replace(/[&<>"]/g, (letter) => ENTITIES[letter]);
const FORMATS = new Map();
function number(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const whole = Math.max(digits, Math.ceil(Math.log10(Math.abs(value)) + 1e-9));
  // A format takes longer to make than to draw a plot with.
  if (!FORMATS.has(whole)) FORMATS.set(whole, new Intl.NumberFormat("en", { maximumSignificantDigits: whole }));
  return FORMATS.get(whole).format(Number(value.toPrecision(digits)));
}
function seconds(value) {
  if (!Number.isFinite(value)) return "–";
  const [factor, unit] = value >= 1 || value === 0 ? [1, "s"] : value >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  return `${number(value * factor)} ${unit}`;
}
const percent = (value) => (Number.isFinite(value) ? `${number(value * 100)} %` : "–");
const LAYOUTS = {
  wide: { width: 568, height: 340, ticksX: 7, ticksY: 6, left: 62, right: 14, top: 18, bottom: 46 },
  narrow: { width: 360, height: 290, ticksX: 4, ticksY: 6, left: 56, right: 10, top: 18, bottom: 46 },
};
const LETTER = 6.4;
const SHAPES = {
  disc: (x, y) => `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z`,
  square: (x, y) => `M${x - 3.6} ${y - 3.6}h7.2v7.2h-7.2z`,
  diamond: (x, y) => `M${x} ${y - 5}l5 5l-5 5l-5 -5z`,
  triangle: (x, y) => `M${x} ${y - 4.8}l4 8h-8z`,
};

function linear(low, high) {
  const top = high > low ? high : low + 1;
  return {
    position: (each) => (each - low) / (top - low),
    ticks: (about) => {
      const wanted = (top - low) / about, power = 10 ** Math.floor(Math.log10(wanted));
      const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= wanted * 0.999);
      const first = Math.ceil(low / step - 1e-9), last = Math.floor(top / step + 1e-9);
      return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
    },
  };
}
function logarithmic(low, high) {
  const powers = Math.log10(high / low);
  return {
    position: (each) => (each > 0 ? Math.log(each / low) / Math.log(high / low) : -1),
    ticks: (about) => {
      const factors = [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3]].find((each) => powers * each.length <= about * 1.5) ?? [1];
      const every = [1, 2, 5, 10].find((each) => powers <= about * each) ?? 20;
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.floor(Math.log10(high)); power++) {
        if (power % every === 0) found.push(...factors.map((factor) => Number(`${factor}e${power}`)));
      }
      return found.filter((each) => each >= low * 0.999 && each <= high * 1.001);
    },
  };
}
function scaleOf(values, log) {
  const held = values.filter((each) => Number.isFinite(each));
  if (!held.length) return linear(0, 1);
  const low = Math.min(...held), high = Math.max(...held);
  if (log && low > 0 && high / low > 3) {
    const air = Math.max((high / low) ** 0.05, 1.2);
    return logarithmic(low / air, high * air);
  }
  return linear(0, high * 1.06);
}

function draw(figure, chart) {
  const narrow = figure.clientWidth > 0 && figure.clientWidth < 480;
  const layout = narrow ? LAYOUTS.narrow : LAYOUTS.wide;
  const right = layout.width - layout.right, bottom = layout.height - layout.bottom;
  const across = (each) => layout.left + chart.x.scale.position(each) * (right - layout.left);
  const down = (each) => bottom - chart.y.scale.position(each) * (bottom - layout.top);
  const fixed = (each) => each.toFixed(1);
  const parts = [], hover = [];
  let free = 0;
  for (const each of chart.x.scale.ticks(layout.ticksX)) {
    const x = across(each), label = chart.x.tick(each);
    parts.push(`<line x1="${fixed(x)}" x2="${fixed(x)}" y1="${layout.top}" y2="${bottom}" class="grid"></line>`);
    if (x - label.length * LETTER / 2 >= free) {
      parts.push(`<text x="${fixed(x)}" y="${bottom + 17}" text-anchor="middle">${escaped(label)}</text>`);
      free = x + (label.length + 1) * LETTER / 2;
    }
  }
  for (const each of chart.y.scale.ticks(layout.ticksY)) {
    const y = fixed(down(each));
    parts.push(`<line x1="${layout.left}" x2="${right}" y1="${y}" y2="${y}" class="grid"></line>`);
    parts.push(`<text x="${layout.left - 7}" y="${Number(y) + 4}" text-anchor="end">${escaped(chart.y.tick(each))}</text>`);
  }
  parts.push(`<line x1="${layout.left}" x2="${right}" y1="${bottom}" y2="${bottom}" class="axis"></line>`);
  parts.push(`<text x="${(layout.left + right) / 2}" y="${layout.height - 8}" text-anchor="middle" class="label">${escaped(chart.x.label)}</text>`);
  parts.push(`<text x="2" y="10" class="label">${escaped(chart.y.label)}</text>`);
  const inside = [];
  for (const { from, to } of chart.shades) {
    const left = Math.max(layout.left, across(from)), end = Math.min(right, across(to));
    if (end - left < 1) continue;
    inside.push(`<rect x="${fixed(left)}" y="${layout.top}" width="${fixed(end - left)}" height="${bottom - layout.top}" class="guide-interval"></rect>`);
    if (end - left > 12 * LETTER) inside.push(`<text x="${fixed((left + end) / 2)}" y="${layout.top + 14}" text-anchor="middle" class="guide-label">extrapolated</text>`);
  }
  for (const series of chart.series) {
    const drawn = [];
    const placed = series.points.filter((each) => Number.isFinite(each.y));
    if (series.line && placed.length) {
      drawn.push(`<path d="M${placed.map((each) => `${fixed(across(each.x))} ${fixed(down(each.y))}`).join("L")}" class="line ${series.line}"></path>`);
    }
    for (const each of placed) {
      const x = across(each.x), y = down(each.y);
      if (each.half) drawn.push(`<path d="M${fixed(x - 3)} ${fixed(down(each.y - each.half))}h6m-3 0V${fixed(down(each.y + each.half))}m-3 0h6" class="bar"></path>`);
      if (series.mark) drawn.push(`<path d="${SHAPES[series.mark](Number(fixed(x)), Number(fixed(y)))}" class="mark ${series.hollow ? "hollow" : "plain"}"></path>`);
      hover.push([Number(fixed(x)), Number(fixed(y)), series.name, each.text]);
    }
    inside.push(`<g class="series colour-${series.colour}">${drawn.join("")}</g>`);
  }
  const guides = [];
  for (const guide of chart.guides) {
    if (guide.axis === "y") {
      const y = down(guide.value);
      if (y < layout.top || y > bottom) continue;
      guides.push(`<line x1="${layout.left}" x2="${right}" y1="${fixed(y)}" y2="${fixed(y)}" class="guide"></line><text x="${layout.left + 6}" y="${fixed(y - 5)}" class="guide-label">${escaped(guide.label)}</text>`);
    } else {
      const x = across(guide.value), leans = x > (layout.left + right) / 2;
      if (x < layout.left - 1 || x > right + 1) continue;
      guides.push(`<line x1="${fixed(x)}" x2="${fixed(x)}" y1="${layout.top}" y2="${bottom}" class="guide"></line><text x="${fixed(leans ? x - 6 : x + 6)}" y="${bottom - 8}" text-anchor="${leans ? "end" : "start"}" class="guide-label">${escaped(guide.label)}</text>`);
    }
  }
  const entries = chart.series.filter((each) => each.points.length).map((each) => {
    const line = each.line ? `<path d="M1 8h28" class="line ${each.line}"></path>` : "";
    const mark = each.mark ? `<path d="${SHAPES[each.mark](15, 8)}" class="mark ${each.hollow ? "hollow" : "plain"}"></path>` : "";
    return `<li><svg class="swatch series colour-${each.colour}" viewBox="0 0 30 16" aria-hidden="true">${line}${mark}</svg>${escaped(each.name)}</li>`;
  });
  const clip = `${figure.id}-area`;
  figure.innerHTML = `<h3>${escaped(chart.title)}</h3><ul class="legend">${entries.join("")}</ul>
<svg class="plot" viewBox="0 0 ${layout.width} ${layout.height}" role="img" aria-label="${escaped(`${chart.title}. ${chart.caption}`)}">
<defs><clipPath id="${clip}"><rect x="${layout.left}" y="${layout.top - 3}" width="${right - layout.left}" height="${bottom - layout.top + 6}"></rect></clipPath></defs>
<g class="axes">${parts.join("")}</g><g clip-path="url(#${clip})">${inside.join("")}</g>${guides.join("")}<circle r="7" class="focus"></circle></svg>
<figcaption>${escaped(chart.caption)}</figcaption>`;
  const plot = figure.querySelector("svg.plot");
  plot.dataset.points = JSON.stringify(hover);
  window.followPointer?.(plot);
}

return { escaped, number, seconds, percent, linear, logarithmic, scaleOf, draw };
})();
