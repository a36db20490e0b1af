// The interactive part: everything is drawn from one block of JSON; text from data only ever becomes textContent.
(() => {
  const data = JSON.parse(document.getElementById("explorer-data").textContent);
  const byId = (id) => document.getElementById(id);
  const { trajectories, layout, colors, names } = data;
  const K = names.length;
  const INK = "#1b1f24", MUTED = "#57606a", LINE = "#cfd5dc";
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";
  const stateName = (s) => (data.states ? data.states[s] : `state ${s}`);
  const actionName = (a) => (data.actions ? data.actions[a] : `action ${a}`);
  const title = (one) => (one.group === undefined ? one.name : `${one.name} (${one.group})`);
  // A duration in words, where the data say how long a step takes.
  const seconds = (steps) => {
    if (!data.step_seconds) return "";
    const s = steps * data.step_seconds, short = (value) => String(Number(value.toPrecision(3)));
    return s >= 7200 ? `${short(s / 3600)} h` : s >= 120 ? `${short(s / 60)} min` : s >= 0.1 || s === 0 ? `${short(s)} s` : `${short(1000 * s)} ms`;
  };
  const stepName = (t) => (data.step_seconds ? `step ${t} (${seconds(t)})` : `step ${t}`);
  for (const one of trajectories) {
    one.T = one.states.length;
    one.z = one.states.map((_, t) => {
      let best = 0;
      for (let k = 1; k < K; k++) if (one.p[t * K + k] > one.p[t * K + best]) best = k;
      return best;
    });
    // Which events happen at each step: most steps have none.
    one.at = new Map();
    for (const [name, steps] of Object.entries(one.events || {})) {
      for (const t of steps) one.at.set(t, [...(one.at.get(t) || []), name]);
    }
  }
  const events = data.events || [];
  const longest = Math.max(...trajectories.map((one) => one.T));
  const fold = byId("explorer").querySelector("details");
  let row = 0, step = 0;
  // A page that is being closed or hidden can have no width at all.
  const widthOf = (node) => Math.max(120, node.parentElement.clientWidth);

  const stretches = (labels) => {
    const found = [];
    for (let t = 0, from = 0; t < labels.length; t++) {
      if (t + 1 === labels.length || labels[t + 1] !== labels[from]) {
        found.push([from, t + 1, labels[from]]);
        from = t + 1;
      }
    }
    return found;
  };
  const reading = (i, t) => {
    const one = trajectories[i];
    const shares = names.map((name, k) => [one.p[t * K + k], name]).sort((a, b) => b[0] - a[0]);
    const words = shares.map(([p, name]) => `${name} ${(p / 10).toFixed(p > 990 && p < 1000 ? 1 : 0)}%`).join(", ");
    const lines = [`Trajectory ${title(one)}, ${stepName(t)}`, `${stateName(one.states[t])}, ${actionName(one.actions[t])}`, words];
    if (one.at.has(t)) lines.splice(2, 0, `Here: ${one.at.get(t).join(", ")}`);
    return lines;
  };

  // -- raster ---------------------------------------------------------------------------------------------------------
  const canvas = byId("raster"), tooltip = byId("tooltip"), marks = byId("marks");
  const high = Math.max(3, Math.min(18, Math.floor(400 / trajectories.length)));
  const markSize = Math.max(1.5, Math.min(4, 0.3 * high));
  const chosenMark = () => (marks ? events[marks.selectedIndex - 1] : undefined);
  const drawRaster = () => {
    const width = widthOf(canvas), height = high * trajectories.length;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const ink = canvas.getContext("2d");
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink.fillStyle = "#eef0f3";
    ink.fillRect(0, 0, width, height);
    const unit = width / longest;
    trajectories.forEach((one, i) => {
      for (const [from, to, k] of stretches(one.z)) {
        ink.fillStyle = colors[k];
        ink.fillRect(from * unit, i * high, (to - from) * unit, high > 5 ? high - 1 : high);
      }
    });
    ink.fillStyle = INK; // dark with a light rim: seen on every colour
    ink.strokeStyle = "#fff";
    ink.lineWidth = 1;
    trajectories.forEach((one, i) => {
      for (const t of (one.events || {})[chosenMark()] || []) {
        ink.beginPath();
        ink.arc((t + 0.5) * unit, (i + 0.5) * high - 0.5, markSize, 0, 2 * Math.PI);
        ink.fill();
        ink.stroke();
      }
    });
    ink.strokeStyle = INK;
    ink.lineWidth = 2;
    ink.strokeRect(1, row * high + (high > 3 ? 0 : -1), Math.max(4, trajectories[row].T * unit) - 2, Math.max(3, high - 1));
    ink.fillStyle = "#fff";
    ink.fillRect((step + 0.5) * unit - 2, row * high - 1, 4, high + 1);
    ink.fillStyle = INK;
    ink.fillRect((step + 0.5) * unit - 1, row * high - 1, 2, high + 1);
  };
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const i = Math.floor((event.clientY - box.top) / high);
    const t = Math.floor(((event.clientX - box.left) / box.width) * longest);
    return i >= 0 && i < trajectories.length && t >= 0 && t < trajectories[i].T ? [i, t] : null;
  };
  canvas.addEventListener("pointermove", (event) => {
    const found = under(event);
    tooltip.hidden = found === null;
    if (found === null) return;
    tooltip.textContent = reading(...found).join("\n");
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    tooltip.style.left = `${Math.max(0, Math.min(x + 14, box.width - tooltip.offsetWidth))}px`;
    tooltip.style.top = `${y + 18}px`;
  });
  if (marks) {
    marks.append(new Option("nothing"), ...events.map((name) => new Option(name)));
    // The rarest kind of event says most; what happens all the time would cover the raster.
    const times = events.map((name) => trajectories.reduce((n, one) => n + ((one.events || {})[name] || []).length, 0) || Infinity);
    const rarest = Math.min(...times);
    const steps = trajectories.reduce((n, one) => n + one.T, 0);
    marks.selectedIndex = rarest > 0.2 * steps ? 0 : 1 + times.indexOf(rarest);
    marks.addEventListener("change", drawRaster);
  }
  canvas.addEventListener("pointerleave", () => { tooltip.hidden = true; });
  canvas.addEventListener("click", (event) => {
    const found = under(event);
    if (!found) return;
    fold.open = true;
    show(...found);
  });
  canvas.addEventListener("keydown", (event) => {
    const moves = {
      ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], PageUp: [-10, 0], PageDown: [10, 0],
      Home: [0, -Infinity], End: [0, Infinity],
    };
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      fold.open = true;
      byId("scrub").focus();
    } else if (event.key in moves) {
      event.preventDefault();
      show(row + moves[event.key][0], step + moves[event.key][1]);
    }
  });

  // -- SVG ------------------------------------------------------------------------------------------------------------
  const make = (parent, tag, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };
  const write = (parent, x, y, text, more = {}) =>
    make(parent, "text", { x, y, "font-size": 11, "font-family": FONT, fill: MUTED, ...more }, text);
  const blank = (svg, width, height) => {
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
  };

  // -- timeline -------------------------------------------------------------------------------------------------------
  const timeline = byId("timeline");
  const LEFT = 30, BAND = 150, EACH = 13;
  let cursor = null, unit = 1;
  // One shape for each kind of event, so that nobody has to tell colours apart.
  const SHAPES = [
    (x, y) => `M${x} ${y + 4}l-4 -8h8z`,
    (x, y) => `M${x - 3.5} ${y - 3.5}l7 7m0 -7l-7 7`,
    (x, y) => `M${x} ${y - 4.5}l4.5 4.5l-4.5 4.5l-4.5 -4.5z`,
    (x, y) => `M${x - 3.5} ${y - 3.5}h7v7h-7z`,
    (x, y) => `M${x} ${y - 4}v8m-4 -4h8`,
  ];
  const mark = (x, y, kind) => make(timeline, "path", {
    d: SHAPES[kind % SHAPES.length](Number(x.toFixed(2)), y), fill: INK, stroke: INK, "stroke-width": 1.4,
    "data-event": events[kind],
  });
  // The names of the marks, broken into as many lines as they need; returns the height that was used.
  const drawKey = (width) => {
    let x = LEFT, y = 8;
    events.forEach((name, kind) => {
      const space = 26 + 6.2 * name.length;
      if (x > LEFT && x + space > width) { x = LEFT; y += 16; }
      const shape = mark(x + 5, y, kind);
      shape.removeAttribute("data-event");
      write(timeline, x + 14, y + 4, name);
      x += space;
    });
    return y + 10;
  };
  const drawTimeline = () => {
    const one = trajectories[row], T = one.T;
    const width = widthOf(timeline);
    const counters = Object.entries(one.counters || {});
    const strip = one.truth ? 18 : 0;
    blank(timeline, width, 0);
    const KEY = events.length ? drawKey(width) : 0;
    const TOP = 8 + KEY + EACH * events.length;
    const height = TOP + BAND + strip + (editor.open ? 34 : 0) + counters.length * 50 + 32;
    timeline.setAttribute("viewBox", `0 0 ${width} ${height}`);
    timeline.setAttribute("height", height);
    unit = (width - LEFT - 6) / T;
    const x = (t) => (LEFT + t * unit).toFixed(2);
    events.forEach((name, kind) => {
      const y = KEY + 6 + EACH * kind;
      make(timeline, "line", { x1: x(0), x2: x(T), y1: y, y2: y, stroke: "#e6e9ed" });
      for (const t of (one.events || {})[name] || []) mark(LEFT + (t + 0.5) * unit, y, kind);
    });
    const low = new Float64Array(T);
    for (let k = 0; k < K; k++) {
      const top = [], bottom = [];
      for (let t = 0; t < T; t++) {
        const from = low[t], to = from + one.p[t * K + k] / 1000;
        const yTop = (TOP + BAND * (1 - Math.min(1, to))).toFixed(2), yBottom = (TOP + BAND * (1 - from)).toFixed(2);
        top.push(`${x(t)},${yTop}`, `${x(t + 1)},${yTop}`);
        bottom.push(`${x(t)},${yBottom}`, `${x(t + 1)},${yBottom}`);
        low[t] = to;
      }
      make(timeline, "polygon", { points: [...top, ...bottom.reverse()].join(" "), fill: colors[k] });
    }
    for (const [value, words] of [[0, "0"], [0.5, ".5"], [1, "1"]]) {
      write(timeline, LEFT - 6, TOP + BAND * (1 - value) + 4, words, { "text-anchor": "end" });
    }
    let y = TOP + BAND;
    if (one.truth) {
      for (const [from, to, k] of stretches(one.truth)) {
        make(timeline, "rect", { x: x(from), y: y + 6, width: ((to - from) * unit).toFixed(2), height: 10, fill: colors[k] });
      }
      write(timeline, LEFT - 4, y + 15, "truth", { "text-anchor": "end", "font-size": 10 });
      y += strip;
    }
    if (editor.open) {
      drawLabels(x, y + 6);
      y += 34;
    }
    for (const [name, values] of counters) {
      const most = Math.max(1, ...values);
      const points = values.flatMap((v, t) => [t, t + 1].map((u) => `${x(u)},${(y + 46 - (34 * v) / most).toFixed(2)}`));
      const outline = [`${x(0)},${y + 46}`, ...points, `${x(T)},${y + 46}`];
      make(timeline, "polygon", { points: outline.join(" "), fill: INK, opacity: 0.13 });
      make(timeline, "polyline", { points: points.join(" "), fill: "none", stroke: INK });
      write(timeline, LEFT + 4, y + 18, `${name} (hidden), up to ${most}`);
      y += 50;
    }
    const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((n) => n * unit >= 45) || 10000;
    for (let t = 0; t < T; t += every) write(timeline, LEFT + (t + 0.5) * unit, y + 16, t, { "text-anchor": "middle" });
    write(timeline, width - 6, y + 30, data.step_seconds ? `step (${seconds(1)} each)` : "step", { "text-anchor": "end" });
    cursor = make(timeline, "rect", {
      y: KEY + (events.length ? 0 : 4), height: y - KEY - (events.length ? 0 : 4), fill: "none", stroke: INK, "stroke-width": 2, rx: 2,
    });
  };
  const stepUnder = (event) => (event.clientX - timeline.getBoundingClientRect().left - LEFT) / unit;
  timeline.addEventListener("click", (event) => show(row, Math.floor(stepUnder(event))));

  // -- labels -----------------------------------------------------------------------------------------------------------
  // What somebody says that a step is: it begins as the fit's own labels; steps that were changed or confirmed are known.
  const editor = byId("editor"), shelf = `prism labels ${location.pathname}`;
  let drag = null;
  const labelsOf = (one) => (one.said ??= { z: [...one.z], known: one.z.map(() => false), before: [] });
  const around = (z, t) => stretches(z).find(([from, to]) => from <= t && t < to);
  // Labels of some steps become those of a function; the steps that change, or all of them, are known from then on.
  const relabel = (from, to, label, all = false) => {
    const said = labelsOf(trajectories[row]);
    said.before.push({ z: [...said.z], known: [...said.known] });
    for (let t = from; t < to; t++) {
      const k = label(t);
      if (all || k !== said.z[t]) said.known[t] = true;
      said.z[t] = k;
    }
    keepLabels();
  };
  const keepLabels = () => {
    const kept = trajectories.flatMap((one, i) => (one.said && one.said.known.some(Boolean) ? [[i, one.name, one.said.z.map((k, t) => (one.said.known[t] ? k : -1))]] : []));
    try { localStorage.setItem(shelf, JSON.stringify(kept)); } catch { /* it is only a convenience */ }
    drawTimeline();
    show(row, step);
  };
  try {
    for (const [i, name, known] of JSON.parse(localStorage.getItem(shelf) || "[]")) {
      const one = trajectories[i];
      if (!one || one.name !== name || known.length !== one.T || known.some((k) => k >= K)) continue;
      const said = labelsOf(one);
      known.forEach((k, t) => { if (k >= 0) { said.z[t] = k; said.known[t] = true; } });
    }
  } catch { /* no storage, or somebody else's */ }
  const drawLabels = (x, y) => {
    const said = labelsOf(trajectories[row]);
    for (const [from, to, k] of stretches(said.z.map((label, t) => 2 * label + Number(said.known[t])))) {
      make(timeline, "rect", { x: x(from), y, width: ((to - from) * unit).toFixed(2), height: 18, fill: colors[k >> 1], opacity: k % 2 ? 1 : 0.4 });
    }
    const found = stretches(said.z), [begin, end] = around(said.z, step);
    make(timeline, "rect", { x: x(begin), y: y - 2, width: ((end - begin) * unit).toFixed(2), height: 22, fill: "none", stroke: INK, "stroke-width": 2, class: "chosen" });
    for (const [from] of found.slice(1)) {
      make(timeline, "rect", { x: (LEFT + from * unit - 2).toFixed(2), y: y - 3, width: 4, height: 24, rx: 2, fill: "#fff", stroke: INK, "data-boundary": from, class: "boundary" });
    }
    write(timeline, LEFT - 4, y + 13, "labels", { "text-anchor": "end", "font-size": 9 });
  };
  timeline.addEventListener("pointerdown", (event) => {
    if (!editor.open) return;
    const handles = [...timeline.querySelectorAll("[data-boundary]")].map((node) => [node.getBoundingClientRect(), Number(node.dataset.boundary)]);
    const near = handles.map(([box, at]) => [Math.abs(event.clientX - box.left - box.width / 2), at, box]).filter(([apart, , box]) => apart <= 8 && event.clientY >= box.top - 4 && event.clientY <= box.bottom + 4);
    if (!near.length) return;
    const at = near.sort((a, b) => a[0] - b[0])[0][1], z = labelsOf(trajectories[row]).z;
    drag = { at, from: around(z, at - 1)[0], to: around(z, at)[1], before: [...z] };
    timeline.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  const moved = (t) => Math.max(drag.from + 1, Math.min(drag.to - 1, Math.round(t)));
  const dragged = (t) => (s) => (s < t ? drag.before[drag.from] : drag.before[drag.to - 1]);
  timeline.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const said = labelsOf(trajectories[row]), label = dragged(moved(stepUnder(event)));
    for (let t = drag.from; t < drag.to; t++) said.z[t] = label(t);
    drawTimeline();
    show(row, step);
  });
  timeline.addEventListener("pointerup", (event) => {
    if (!drag) return;
    labelsOf(trajectories[row]).z = drag.before;
    relabel(drag.from, drag.to, dragged(moved(stepUnder(event))));
    drag = null;
  });
  timeline.addEventListener("pointercancel", () => {
    if (drag) labelsOf(trajectories[row]).z = drag.before;
    drag = null;
    show(row, step, true);
  });
  const edits = {
    "label-stretch": () => { const [from, to] = around(labelsOf(trajectories[row]).z, step); relabel(from, to, () => byId("label-as").selectedIndex, true); },
    "label-rest": () => { const [, to] = around(labelsOf(trajectories[row]).z, step); relabel(step, to, () => byId("label-as").selectedIndex, true); },
    "begin-here": () => { const z = labelsOf(trajectories[row]).z, [from] = around(z, step); if (from > 0) relabel(from, step, () => z[from - 1]); },
    "end-here": () => { const z = labelsOf(trajectories[row]).z, [, to] = around(z, step); if (to < z.length) { const next = z[to]; relabel(step + 1, to, () => next); } },
    "confirm-labels": () => { const z = [...labelsOf(trajectories[row]).z]; relabel(0, z.length, (t) => z[t], true); },
    "undo-label": () => { const said = labelsOf(trajectories[row]), last = said.before.pop(); if (last) { Object.assign(said, last); keepLabels(); } },
  };
  for (const [id, act] of Object.entries(edits)) byId(id).addEventListener("click", act);
  byId("save-labels").addEventListener("click", () => {
    const rows = trajectories.flatMap((one) => (one.said ? one.said.z.flatMap((k, t) => (one.said.known[t] ? [[one.name, t, names[k]]] : [])) : []));
    download("labels.csv", "text/csv", table2csv([["trajectory", "step", "label"], ...rows]));
  });
  editor.addEventListener("toggle", () => show(row, step, true));
  const sayLabels = () => {
    const said = labelsOf(trajectories[row]), [from, to, k] = around(said.z, step);
    const known = trajectories.reduce((n, one) => n + (one.said ? one.said.known.filter(Boolean).length : 0), 0);
    byId("label-state").textContent = `This stretch: ${names[k]}, steps ${from} to ${to - 1}${data.step_seconds ? ` (${seconds(to - from)})` : ""}. ${known ? `${known} step${known === 1 ? "" : "s"} labelled so far.` : "Nothing is labelled yet."}`;
    byId("undo-label").disabled = !said.before.length;
    byId("save-labels").disabled = !known;
  };

  // -- map ------------------------------------------------------------------------------------------------------------
  const map = byId("map"), shade = byId("shade");
  const places = layout ? layout.xy.map((xy, s) => [s, xy]).filter(([, xy]) => xy !== null) : [];
  let path = null, at = () => [0, 0], radius = 6;
  const shades = () => {
    const found = [["nothing", null, 0]];
    names.forEach((name, k) => {
      if (data.leads) found.push([`where ${name} leads`, data.leads[k], k]);
      found.push([`time of ${name}`, data.occupancy[k], k]);
      if (data.values) found.push([`value of ${name}`, data.values[k], k]);
      if (data.rewards) {
        found.push([`where ${name} earns its reward`, data.rewards[k].map((r, s) => (r === null ? null : r * data.occupancy[k][s])), k]);
        found.push([`reward of a visit, ${name}`, data.rewards[k], k]);
      }
    });
    return found;
  };
  const drawMap = () => {
    if (!layout) return;
    const width = widthOf(map);
    const [xs, ys] = [0, 1].map((i) => places.map(([, xy]) => xy[i]));
    const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const pad = layout.kind === "grid" ? 0.6 : 0.05 * Math.max(x1 - x0, y1 - y0) + 0.3;
    const scale = Math.min(width / (x1 - x0 + 2 * pad), 380 / (y1 - y0 + 2 * pad));
    const height = Math.ceil(scale * (y1 - y0 + 2 * pad));
    const shift = (width - scale * (x1 - x0 + 2 * pad)) / 2;
    blank(map, width, height);
    at = (s) => {
      const xy = layout.xy[s];
      return xy ? [shift + scale * (xy[0] - x0 + pad), height - scale * (xy[1] - y0 + pad)] : null;
    };
    const grid = layout.kind === "grid";
    radius = grid ? 0.46 * scale : Math.max(3, Math.min(13, layout.kind === "maze" ? 0.3 * scale : 0.28 * scale));
    for (const [i, j] of layout.edges) {
      const [a, b] = [at(i), at(j)];
      if (a && b) {
        const thick = layout.kind === "maze" ? radius * 1.4 : 1.5;
        make(map, "line", { x1: a[0], y1: a[1], x2: b[0], y2: b[1], stroke: layout.kind === "maze" ? "#e6e9ed" : LINE, "stroke-width": thick });
      }
    }
    for (const [wx, wy, vx, vy] of layout.walls || []) {
      const place = (x, y) => [shift + scale * (x - x0 + pad), height - scale * (y - y0 + pad)];
      const [a, b] = [place(wx, wy), place(vx, vy)];
      make(map, "line", { x1: a[0], y1: a[1], x2: b[0], y2: b[1], stroke: "#3a4048", "stroke-width": 1.2 });
    }
    // On a crowded map only the places that matter have a label: those where an intention leads.
    const crowded = !grid && (places.length > 60 || radius <= 6);
    const matter = new Set((data.leads || []).flatMap((shares) => shares.map((v, s) => [v, s]).sort((a, b) => b[0] - a[0]).slice(0, 2).filter(([v]) => v > 0.05).map(([, s]) => s)));
    const [, values, k] = shades()[Math.max(0, shade.selectedIndex)];
    // A place that was left once in many visits can have a huge reward, which would drown all others.
    const known = (values || []).filter((v) => v !== null).sort((a, b) => a - b);
    const [low, top] = known.length ? [0.02, 0.98].map((q) => known[Math.round(q * (known.length - 1))]) : [0, 1];
    const labels = [];
    for (const [s] of places) {
      const [cx, cy] = at(s);
      const barrier = layout.barriers.includes(s);
      const seen = data.occupancy.some((times) => times[s] > 0);
      const look = { fill: barrier ? "#3a4048" : seen ? "#f3f5f8" : "#d3d8de", stroke: LINE };
      const draw = (attributes) => (grid
        ? make(map, "rect", { x: cx - radius, y: cy - radius, width: 2 * radius, height: 2 * radius, rx: 3, ...attributes })
        : make(map, "circle", { cx, cy, r: radius, ...attributes }));
      draw(look);
      if (values && values[s] !== null && !barrier) draw({ fill: colors[k], opacity: (0.08 + 0.87 * Math.max(0, Math.min(1, (values[s] - low) / (top - low || 1)))).toFixed(3) });
      make(map.lastChild, "title", {}).textContent = stateName(s);
      if (barrier || (crowded && !matter.has(s))) continue;
      const text = data.states && layout.kind !== "cells" ? data.states[s] : String(s);
      if (crowded) {
        const sides = [cy - radius - 3, cy + radius + 11]; // above, or below where another name is in the way
        const free = sides.find((y) => !labels.some(([x, taken, other]) => Math.abs(x - cx) < 3.6 * (other.length + text.length) && Math.abs(taken - y) < 11));
        labels.push([cx, free ?? sides[0], text]);
      }
      else if (text.length <= 7) {
        write(map, grid ? cx - radius + 3 : cx, grid ? cy - radius + 10 : cy + 3.5, text, { "font-size": 9, "text-anchor": grid ? "start" : "middle" });
      }
    }
    path = make(map, "g", { fill: "none", "stroke-linecap": "round" });
    for (const [x, y, text] of labels) {
      write(map, x, y, text, { "font-size": 11, "font-weight": 600, "text-anchor": "middle", fill: INK, stroke: "#fff", "stroke-width": 3, "paint-order": "stroke" });
    }
  };
  const drawPath = () => {
    if (!layout || !path) return;
    path.replaceChildren();
    const one = trajectories[row];
    const wide = Math.max(2, Math.min(6, 0.3 * radius));
    // Steps of different intentions run beside one another, so that a way there and back shows both.
    const beside = (k) => (k - (K - 1) / 2) * wide * 1.1;
    for (let t = 0; t < step; t++) {
      const [a, b] = [at(one.states[t]), at(one.states[t + 1])];
      if (!a || !b || one.states[t] === one.states[t + 1]) continue;
      const move = beside(one.z[t]), age = step - t;
      make(path, "line", {
        x1: a[0] + move, y1: a[1] + move, x2: b[0] + move, y2: b[1] + move, stroke: colors[one.z[t]],
        "stroke-width": wide, opacity: Math.max(0.18, 1 - age / 40).toFixed(2),
      });
    }
    const here = at(one.states[step]), first = at(one.states[0]);
    if (first) make(path, "circle", { cx: first[0], cy: first[1], r: 4, fill: "#fff", stroke: INK });
    if (here) {
      make(path, "circle", { cx: here[0], cy: here[1], r: Math.max(7, 0.5 * radius), fill: colors[one.z[step]], stroke: "#fff", "stroke-width": 2 });
      make(path, "circle", { cx: here[0], cy: here[1], r: Math.max(9, 0.5 * radius + 2), stroke: INK, "stroke-width": 1.5 });
    }
  };

  // -- frames ---------------------------------------------------------------------------------------------------------
  const frame = byId("frame"), frames = (data.frames || {}).trajectories || {};
  const drawFrame = () => {
    if (!frame) return;
    const own = frames[row];
    frame.hidden = own === undefined;
    byId("no-frame").hidden = own !== undefined;
    byId("frame-words").textContent = "";
    if (own === undefined) return;
    let i = 0;
    while (i + 1 < own.steps.length && own.steps[i + 1] <= step) i++;
    const address = `data:image/jpeg;base64,${own.jpeg[i]}`;
    if (frame.src !== address) frame.src = address;
    frame.alt = `What the camera saw at step ${own.steps[i]} of trajectory ${title(trajectories[row])}`;
    frame.style.borderColor = colors[trajectories[row].z[step]];
    byId("frame-words").textContent = `What the camera saw at step ${own.steps[i]}, bordered in the colour of the intention.`;
  };

  // -- one trajectory, one step ---------------------------------------------------------------------------------------
  const scrub = byId("scrub"), chooser = byId("trajectory");
  const show = (i, t, everything = false) => {
    const other = Math.max(0, Math.min(trajectories.length - 1, i));
    const changed = everything || other !== row;
    row = other;
    step = Math.max(0, Math.min(trajectories[row].T - 1, t));
    if (changed) {
      scrub.max = trajectories[row].T - 1;
      chooser.selectedIndex = row;
      drawTimeline();
    }
    scrub.value = step;
    const words = reading(row, step);
    scrub.setAttribute("aria-valuetext", words.join(". "));
    byId("readout").textContent = words.join(" · ");
    cursor.setAttribute("x", (LEFT + step * unit - 1).toFixed(2));
    cursor.setAttribute("width", Math.max(3, unit + 2).toFixed(2));
    if (editor.open) {
      const [begin, end] = around(labelsOf(trajectories[row]).z, step), chosen = timeline.querySelector(".chosen");
      chosen?.setAttribute("x", (LEFT + begin * unit).toFixed(2));
      chosen?.setAttribute("width", ((end - begin) * unit).toFixed(2));
    }
    sayLabels();
    drawRaster();
    drawPath();
    drawFrame();
  };
  trajectories.forEach((one, i) => chooser.append(new Option(frames[i] ? `${title(one)} – with frames` : title(one))));
  chooser.addEventListener("change", () => show(chooser.selectedIndex, 0));
  scrub.addEventListener("input", () => show(row, Number(scrub.value)));
  const play = byId("play");
  let timer = null;
  play.addEventListener("click", () => {
    const stop = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
      play.setAttribute("aria-pressed", "false");
    };
    if (timer !== null) { stop(); return; }
    if (step === trajectories[row].T - 1) show(row, 0);
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    timer = setInterval(() => (step < trajectories[row].T - 1 ? show(row, step + 1) : stop()), 250);
  });

  // -- names ----------------------------------------------------------------------------------------------------------
  const fillShades = () => {
    if (!shade) return;
    const chosen = Math.max(0, shade.selectedIndex);
    shade.replaceChildren(...shades().map(([words]) => new Option(words)));
    shade.selectedIndex = chosen;
  };
  // What was typed is there again when the page is opened again, unless the run has been given other names since.
  const given = names.join("\n"), drawer = `prism names ${location.pathname}`;
  const remembered = () => {
    try {
      const kept = JSON.parse(localStorage.getItem(drawer) || "null");
      return kept && kept.given === given && kept.names.length === K ? kept.names : null;
    } catch { return null; } // no storage, or somebody else's
  };
  const rename = (k, text) => {
    names[k] = text.trim() || `intention ${k}`;
    for (const place of document.querySelectorAll(`[data-name="${k}"]`)) place.textContent = names[k];
    byId("label-as").options[k].text = names[k];
  };
  byId("label-as").append(...names.map((name) => new Option(name)));
  for (const input of document.querySelectorAll(".names input")) {
    const k = Number(input.dataset.k), kept = remembered();
    if (kept && kept[k] !== names[k]) {
      input.value = kept[k];
      rename(k, kept[k]);
    }
    input.addEventListener("input", () => {
      rename(k, input.value);
      try { localStorage.setItem(drawer, JSON.stringify({ given, names })); } catch { /* it is only a convenience */ }
      fillShades();
      show(row, step);
    });
  }
  byId("export-names").addEventListener("click", () => {
    download("names.json", "application/json", JSON.stringify({ names }, null, 2) + "\n");
  });
  if (shade) {
    fillShades();
    shade.addEventListener("change", () => { drawMap(); drawPath(); });
  }

  // -- downloads ------------------------------------------------------------------------------------------------------
  const HEAD = ["trajectory", "step", "state", "action", "intention", "name", ...names.map((_, k) => `p_${k}`), ...events];
  const plain = (value, list) => (list ? list[value] : value);
  const rowsOf = (one) => one.states.map((s, t) => [
    one.name, t, plain(s, data.states), plain(one.actions[t], data.actions), one.z[t], names[one.z[t]],
    ...names.map((_, k) => one.p[t * K + k] / 1000), ...events.map((name) => Number((one.at.get(t) || []).includes(name))),
  ]);
  const saveSvg = (name, svg) => {
    const copy = svg.cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", copy.getAttribute("viewBox").split(" ")[2]);
    download(name, "image/svg+xml", new XMLSerializer().serializeToString(copy));
  };
  byId("raster-svg").addEventListener("click", () => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const width = 900, each = width / longest;
    blank(svg, width, high * trajectories.length + 26);
    trajectories.forEach((one, i) => {
      for (const [from, to, k] of stretches(one.z)) {
        make(svg, "rect", { x: (from * each).toFixed(2), y: i * high, width: ((to - from) * each).toFixed(2), height: high > 5 ? high - 1 : high, fill: colors[k] });
      }
      for (const t of (one.events || {})[chosenMark()] || []) {
        make(svg, "circle", { cx: ((t + 0.5) * each).toFixed(2), cy: (i + 0.5) * high - 0.5, r: markSize, fill: INK, stroke: "#fff" });
      }
    });
    names.forEach((name, k) => {
      const x = (k * width) / K, y = high * trajectories.length + 8;
      make(svg, "rect", { x, y, width: 12, height: 12, fill: colors[k] });
      write(svg, x + 18, y + 10, name, { fill: INK });
    });
    saveSvg("raster.svg", svg);
  });
  byId("raster-csv").addEventListener("click", () => download("raster.csv", "text/csv", table2csv([HEAD, ...trajectories.flatMap(rowsOf)])));
  byId("timeline-svg").addEventListener("click", () => saveSvg("timeline.svg", timeline));
  byId("timeline-csv").addEventListener("click", () => download("timeline.csv", "text/csv", table2csv([HEAD, ...rowsOf(trajectories[row])])));
  if (layout) {
    byId("map-svg").addEventListener("click", () => saveSvg("map.svg", map));
    byId("map-csv").addEventListener("click", () => {
      const kinds = [["leads", data.leads], ["time", data.occupancy], ["value", data.values], ["reward", data.rewards]].filter(([, values]) => values);
      const head = ["state", "x", "y", ...kinds.flatMap(([kind]) => names.map((_, k) => `${kind}_${k}`))];
      const rows = places.map(([s, xy]) => [plain(s, data.states), ...xy, ...kinds.flatMap(([, values]) => values.map((v) => v[s] ?? ""))]);
      download("map.csv", "text/csv", table2csv([head, ...rows]));
    });
  }

  const drawAll = () => { drawMap(); show(row, step, true); };
  row = Math.min(...Object.keys(frames).map(Number), trajectories.length); // the first that has something to see
  if (row === trajectories.length) row = 0;
  step = Math.floor(0.4 * trajectories[row].T); // somewhere with a path behind it
  drawAll();
  fold.addEventListener("toggle", () => { if (fold.open) drawAll(); }); // what is folded away has no width
  let known = widthOf(canvas);
  window.addEventListener("resize", () => {
    if (widthOf(canvas) !== known) {
      known = widthOf(canvas);
      drawAll();
    }
  });
})();
