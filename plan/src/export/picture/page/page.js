"use strict";
(function () {
  const MAX_LINES = 4000, MAX_ROWS = 500, MAX_CELLS = 4000000;
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const { nodes, links, chunks, members, epochs } = data;
  const count = data.sends.length / 3;
  const isSwitch = (node) => nodes[node][3];

  // The sends, a column for each thing.
  const epochOf = new Float64Array(count), linkOf = new Int32Array(count), chunkOf = new Int32Array(count);
  const adds = new Uint8Array(count);
  let before = 0, longest = 1, anyAdds = false;
  for (let i = 0; i < count; i++) {
    before += data.sends[3 * i];
    const link = data.sends[3 * i + 1];
    epochOf[i] = before;
    adds[i] = link < 0 ? 1 : 0;
    linkOf[i] = link < 0 ? -1 - link : link;
    chunkOf[i] = data.sends[3 * i + 2];
    anyAdds = anyAdds || link < 0;
    longest = Math.max(longest, links[linkOf[i]][3], links[linkOf[i]][4]);
  }
  const usable = (i) => epochOf[i] + links[linkOf[i]][4];
  const busyUntil = (i) => epochOf[i] + Math.max(1, Math.min(links[linkOf[i]][3], Math.max(1, links[linkOf[i]][4])));
  const isUnderWay = (i, epoch) => epochOf[i] <= epoch && epoch < Math.max(busyUntil(i), usable(i));
  const part = (i) => (data.pieces ? data.pieces[2 * i + 1] / data.units : 1);
  // In the order in which they arrive.
  const arrivals = Array.from({ length: count }, (_, i) => i).sort((a, b) => usable(a) - usable(b) || a - b);

  // The first send that begins in this epoch or later.
  function firstFrom(epoch) {
    let low = 0, high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (epochOf[middle] < epoch) low = middle + 1; else high = middle;
    }
    return low;
  }

  // How much of each chunk each node holds at the start of an epoch: 1 is all of it, or the complete sum.
  const canHold = nodes.length * chunks.length <= MAX_CELLS;
  const cell = (node, chunk) => node * chunks.length + chunk;
  function heldAt(epoch) {
    const held = new Float64Array(nodes.length * chunks.length);
    const carried = new Float64Array(count);
    const passing = new Map();
    chunks.forEach(([source], chunk) => {
      if (anyAdds) members.forEach((node) => { held[cell(node, chunk)] = 1 / members.length; });
      else held[cell(source, chunk)] = 1;
    });
    const arrive = (i) => {
      const to = links[linkOf[i]][1], at = cell(to, chunkOf[i]);
      if (isSwitch(to)) {
        const key = at + "@" + usable(i);
        if (!passing.has(key)) passing.set(key, []);
        passing.get(key).push(carried[i]);
      } else if (adds[i] || data.pieces) held[at] += carried[i];
      else held[at] = 1;
    };
    const leave = (i) => {
      const from = links[linkOf[i]][0], at = cell(from, chunkOf[i]);
      if (isSwitch(from)) {
        const there = passing.get(at + "@" + epochOf[i]) || [];
        if (data.pieces) carried[i] = part(i);
        else if (adds[i] && nodes[from][5]) carried[i] = there.splice(0).reduce((sum, one) => sum + one, 0);
        else if (!adds[i] && nodes[from][4]) carried[i] = there.length ? there[0] : 1;
        else carried[i] = there.length ? there.shift() : adds[i] ? 0 : 1;
      } else if (adds[i]) {
        carried[i] = held[at];
        held[at] = 0;
      } else if (data.pieces) {
        carried[i] = part(i);
        held[at] -= carried[i];
      } else carried[i] = 1;
    };
    let next = 0, coming = 0;
    while (true) {
      const begins = next < count && epochOf[next] < epoch ? epochOf[next] : Infinity;
      const comes = coming < count && usable(arrivals[coming]) <= epoch ? usable(arrivals[coming]) : Infinity;
      // What arrives for an epoch is there before that epoch's sends.
      if (comes < Infinity && comes <= begins && arrivals[coming] < next) arrive(arrivals[coming++]);
      else if (begins < Infinity) leaveAll();
      else return held;
    }
    // All sends of an epoch; switches send first, and theirs may arrive at once.
    function leaveAll() {
      const now = epochOf[next], end = firstFrom(now + 1), first = next;
      for (let i = first; i < end; i++) if (isSwitch(links[linkOf[i]][0])) leave(i);
      next = end;
      while (coming < count && usable(arrivals[coming]) <= now && arrivals[coming] < end) arrive(arrivals[coming++]);
      for (let i = first; i < end; i++) if (!isSwitch(links[linkOf[i]][0])) leave(i);
    }
  }

  const hue = (source) => "hsl(" + Math.round((source * 137.508) % 360) + " 68% 48%)";
  const linkName = (link) => nodes[link[0]][0] + (link[2] < 0 ? "" : " → " + nodes[link[2]][0]) + " → " + nodes[link[1]][0];
  const chunkName = (i) => {
    const [source, number, tenant] = chunks[chunkOf[i]];
    const bytes = data.pieces ? ", bytes " + data.pieces[2 * i] + " to " + (data.pieces[2 * i] + data.pieces[2 * i + 1]) : "";
    return number + " of " + nodes[source][0] + (tenant ? " for " + tenant : "") + bytes + (adds[i] ? ", added up" : "");
  };

  // The fabric: a line for each link in use, nodes above.
  const SVG = "http://www.w3.org/2000/svg";
  const shape = (name, keys, inside) => {
    const made = document.createElementNS(SVG, name);
    for (const key in keys) made.setAttribute(key, keys[key]);
    if (inside !== undefined) made.textContent = inside;
    return made;
  };
  const fabric = $("fabric"), drawn = links.length <= MAX_LINES, active = shape("g", {});
  fabric.setAttribute("viewBox", "-10 -10 " + (data.size[0] + 20) + " " + (data.size[1] + 20));
  const pathOf = (link) => {
    // Beside the straight line, to its right, so that both directions are seen.
    const stops = link[2] < 0 ? [link[0], link[1]] : [link[0], link[2], link[1]];
    let path = "";
    for (let i = 1; i < stops.length; i++) {
      const a = nodes[stops[i - 1]], b = nodes[stops[i]], dx = b[1] - a[1], dy = b[2] - a[2];
      const length = Math.max(1, Math.hypot(dx, dy)), x = (-dy / length) * 3, y = (dx / length) * 3;
      path += "M" + (a[1] + x).toFixed(1) + " " + (a[2] + y).toFixed(1) + "L" + (b[1] + x).toFixed(1) + " " + (b[2] + y).toFixed(1);
    }
    return path;
  };
  if (drawn) links.forEach((link) => fabric.append(shape("path", { class: "idle", d: pathOf(link) })));
  fabric.append(active);
  nodes.forEach(([id, x, y, sw]) => {
    const group = shape("g", {}), width = Math.min(60, 12 + 6 * id.length);
    group.append(shape("title", {}, id));
    group.append(shape("rect", { class: "node", x: x - width / 2, y: y - 9, width: width, height: 18, rx: sw ? 1 : 8 }));
    group.append(shape("text", { x: x, y: y + 3.5 }, id.length > 9 ? "…" + id.slice(-8) : id));
    fabric.append(group);
  });

  // How many links are in use in each epoch.
  const busy = $("busy"), columns = busy.width, load = new Float64Array(columns);
  const column = (epoch) => Math.min(columns - 1, Math.floor((epoch / Math.max(1, epochs)) * columns));
  for (let i = 0; i < count; i++) {
    const last = column(Math.max(busyUntil(i), usable(i)) - 1);
    for (let x = column(epochOf[i]); x <= last; x++) load[x]++;
  }
  const most = load.reduce((a, b) => Math.max(a, b), 1);
  function drawBusy(epoch) {
    const pen = busy.getContext("2d"), style = getComputedStyle(document.body);
    pen.clearRect(0, 0, columns, busy.height);
    pen.fillStyle = style.getPropertyValue("--line");
    for (let x = 0; x < columns; x++) pen.fillRect(x, busy.height * (1 - load[x] / most), 1, busy.height);
    pen.fillStyle = style.getPropertyValue("--fg");
    pen.fillRect(column(epoch), 0, 2, busy.height);
  }

  // Who holds what: a row for each node that stores, a column for each chunk.
  const rows = nodes.map((_, node) => node).filter((node) => !isSwitch(node));
  const order = chunks.map((_, chunk) => chunk).sort((a, b) => chunks[a][0] - chunks[b][0] || chunks[a][1] - chunks[b][1]);
  const held = $("held"), across = Math.max(1, Math.min(12, Math.floor(900 / Math.max(1, chunks.length))));
  const down = Math.max(2, Math.min(12, Math.floor(480 / Math.max(1, rows.length))));
  const isFull = (value) => value > 1 - 0.5 / (anyAdds ? members.length : data.units);
  const fullOf = (state, node) => order.reduce((sum, chunk) => sum + (isFull(state[cell(node, chunk)]) ? 1 : 0), 0);
  const atEnd = canHold ? heldAt(epochs) : null;
  const ends = canHold ? rows.map((node) => fullOf(atEnd, node)) : [];
  if (canHold) {
    held.width = across * chunks.length;
    held.height = down * rows.length;
    $("holds").textContent = "A row for each of " + rows.length + " nodes, a column for each of " + chunks.length +
      " chunks by their source; pale where only a part, or not all of a sum, is there.";
  } else $("holds").textContent = "Too many nodes and chunks to show.";
  const counts = rows.map((node) => {
    const line = document.createElement("tr");
    for (let i = 0; i < 3; i++) line.append(document.createElement("td"));
    line.children[0].textContent = nodes[node][0];
    if (canHold) $("counts").append(line);
    return line;
  });
  function drawHeld(epoch) {
    if (!canHold) return;
    const pen = held.getContext("2d"), state = heldAt(epoch);
    pen.clearRect(0, 0, held.width, held.height);
    rows.forEach((node, row) => {
      order.forEach((chunk, place) => {
        const value = state[cell(node, chunk)];
        if (value < 1e-9) return;
        pen.globalAlpha = isFull(value) ? 1 : 0.2 + 0.4 * value;
        pen.fillStyle = hue(chunks[chunk][0]);
        pen.fillRect(place * across, row * down, Math.max(1, across - (across > 3 ? 1 : 0)), down - (down > 3 ? 1 : 0));
      });
      counts[row].children[1].textContent = fullOf(state, node);
      counts[row].children[2].textContent = ends[row];
    });
    pen.globalAlpha = 1;
  }

  function drawUnderWay(epoch) {
    const all = [];
    for (let i = firstFrom(epoch - longest); i < count && epochOf[i] <= epoch; i++) if (isUnderWay(i, epoch)) all.push(i);
    $("under").textContent = "Under way in epoch " + epoch + ": " + all.length + (all.length > MAX_ROWS ? ", the first " + MAX_ROWS + " of them" : "");
    active.replaceChildren();
    const lines = document.createDocumentFragment();
    all.forEach((i, place) => {
      const link = links[linkOf[i]], source = chunks[chunkOf[i]][0], late = epoch >= busyUntil(i);
      const words = linkName(link) + ": chunk " + chunkName(i);
      if (drawn) {
        const line = shape("path", { d: pathOf(link), fill: "none", stroke: hue(source), "stroke-width": 3, class: late ? "late" : "" });
        line.append(shape("title", {}, words));
        active.append(line);
      }
      if (place >= MAX_ROWS) return;
      const row = document.createElement("tr"), cells = [linkName(link), chunkName(i), epochOf[i], usable(i)];
      cells.forEach((text, at) => {
        const made = document.createElement("td");
        if (at === 1) {
          const mark = document.createElement("i");
          mark.style.background = hue(source);
          made.append(mark);
        }
        made.append(String(text));
        row.append(made);
      });
      lines.append(row);
    });
    $("list").replaceChildren(lines);
  }

  const slider = $("epoch"), time = (epoch) => Number((epoch * data.tau_us).toPrecision(6));
  slider.max = epochs;
  function show() {
    const epoch = Number(slider.value);
    $("now").textContent = "epoch " + epoch + " of " + epochs + ", " + time(epoch) + " of " + time(epochs) + " µs";
    drawBusy(epoch);
    drawHeld(epoch);
    drawUnderWay(epoch);
  }
  const go = (epoch) => { slider.value = Math.max(0, Math.min(epochs, epoch)); show(); };
  let playing = null;
  function stop() {
    clearInterval(playing);
    playing = null;
    $("play").textContent = "Play";
  }
  function play() {
    if (Number(slider.value) >= epochs) slider.value = 0;
    const speed = Number($("speed").value), step = Math.max(1, Math.round(speed / 25));
    $("play").textContent = "Stop";
    playing = setInterval(() => {
      go(Number(slider.value) + step);
      if (Number(slider.value) >= epochs) stop();
    }, (1000 * step) / speed);
  }
  const toggle = () => (playing === null ? play() : stop());
  slider.addEventListener("input", show);
  $("play").addEventListener("click", toggle);
  $("speed").addEventListener("change", () => { if (playing !== null) { stop(); play(); } });
  $("back").addEventListener("click", () => go(Number(slider.value) - 1));
  $("on").addEventListener("click", () => go(Number(slider.value) + 1));
  busy.addEventListener("click", (event) => go(Math.floor((event.offsetX / busy.clientWidth) * epochs)));
  document.addEventListener("keydown", (event) => {
    if (event.key === " " && !["BUTTON", "SELECT"].includes(event.target.tagName)) { event.preventDefault(); toggle(); }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
})();
