/* Draws the charts of the dashboard from the JSON beside them, in the colours of the theme. */
"use strict";

(() => {
  const HEIGHT = 200;

  function colour(element, place) {
    return getComputedStyle(element).getPropertyValue(`--series-${(place % 7) + 1}`).trim();
  }

  function written(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit === "ms") return value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${Math.round(value)} ms`;
    if (unit === "usd") return `$${(value / 1e9).toFixed(4)}`;
    return value.toLocaleString("en");
  }

  function short(value, unit) {
    if (unit === "ms") return value >= 1000 ? `${value / 1000} s` : `${value} ms`;
    if (unit === "usd") return `$${value / 1e9}`;
    return new Intl.NumberFormat("en", { notation: "compact" }).format(value);
  }

  /* UTC, as everything here: the time of day, or the day. */
  function moment(seconds, step) {
    const text = new Date(seconds * 1000).toISOString();
    return step < 86400 ? text.slice(11, 16) : text.slice(5, 10);
  }

  function whole(seconds, step) {
    return new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, step < 86400 ? 16 : 10);
  }

  /* Each series on top of those before it; uPlot draws the tallest first. */
  function stacked(series) {
    const sums = series[0].values.map(() => 0);
    return series.map((one) => one.values.map((value, at) => (sums[at] += value || 0)));
  }

  function draw(element) {
    const data = JSON.parse(document.getElementById(element.dataset.chart).textContent);
    const isBars = data.kind === "bars";
    const shown = data.series.map((one, place) => ({ ...one, place }));
    const values = isBars ? stacked(shown) : shown.map((one) => one.values);
    const order = isBars ? shown.map((_, place) => place).reverse() : shown.map((_, place) => place);
    const style = getComputedStyle(element);
    const text = style.color;
    const line = style.getPropertyValue("--line").trim();
    const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const series = order.map((place) => ({
      label: shown[place].name.replaceAll("_", " "),
      stroke: colour(element, place),
      fill: isBars ? colour(element, place) : undefined,
      width: isBars ? 0 : 2,
      points: { show: !isBars, size: 5 },
      spanGaps: false,
      paths: isBars ? uPlot.paths.bars({ size: [0.75, 40], align: 1 }) : undefined,
      value: (_, __, ___, at) => (at === null ? "" : written(shown[place].values[at], data.unit)),
    }));
    const options = {
      width: Math.max(240, element.clientWidth),
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { x: { range: () => [data.moments[0], data.moments.at(-1) + (isBars || data.moments.length < 2 ? data.step : 0)] }, y: { range: (_, __, high) => [0, (high || 1) * 1.05] } },
      axes: [{ ...axis, space: 60, values: (_, splits) => splits.map((seconds) => moment(seconds, data.step)) }, { ...axis, size: 60, values: (_, splits) => splits.map((value) => short(value, data.unit)) }],
      series: [{ label: "from (UTC)", value: (_, seconds) => (seconds === null ? "" : whole(seconds, data.step)) }, ...series],
      legend: { live: true },
      cursor: { drag: { x: false, y: false } },
    };
    element.replaceChildren();
    const chart = new uPlot(options, [data.moments, ...order.map((place) => values[place])], element);
    element.querySelectorAll(".u-legend .u-series").forEach((row, at) => {
      // The moment comes last, since it is there only while one points at something.
      row.style.order = at === 0 ? series.length + 1 : isBars ? series.length - at + 1 : at;
    });
    return chart;
  }

  function start() {
    for (const element of document.querySelectorAll(".bridge-chart")) {
      let chart = draw(element);
      new ResizeObserver(() => {
        const width = Math.max(240, element.clientWidth);
        if (Math.abs(width - chart.width) > 1) chart.setSize({ width, height: HEIGHT });
      }).observe(element);
      new MutationObserver(() => {
        chart.destroy();
        chart = draw(element);
      }).observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
    }
  }

  if (document.readyState === "complete") start();
  else window.addEventListener("load", start);
})();
