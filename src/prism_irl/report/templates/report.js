"use strict";
// The page is complete without this script: it only adds sorting, copying and downloads.
const download = (name, type, text) => {
  const link = document.createElement("a");
  const address = URL.createObjectURL(new Blob([text], { type }));
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
};
// A spreadsheet takes text that begins with =, +, - or @ for a formula; an apostrophe says that it is none.
const inert = (text) => (/^[=+\-@\t\r]/.test(text) && !/^[+-]?[\d.]+(e[+-]?\d+)?$/i.test(text) ? `'${text}` : text);
const quoted = (cell) => {
  const text = inert(String(cell));
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const table2csv = (rows) => rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
const button = (words, label, act) => {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = words;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
};
for (const place of document.querySelectorAll(".downloads[data-stem]")) {
  const image = place.closest("figure").querySelector("img");
  const kind = image.src.startsWith("data:image/svg") ? "svg" : "png";
  const name = `${place.dataset.stem}.${kind}`;
  place.prepend(button(kind.toUpperCase(), `Download the figure ${place.dataset.stem} as ${kind.toUpperCase()}`, () => {
    const link = document.createElement("a");
    link.href = image.src;
    link.download = name;
    link.click();
  }));
}
for (const place of document.querySelectorAll(".downloads[data-table]")) {
  place.append(button("CSV", "Download the table as CSV", () => {
    const table = place.parentElement.querySelector("table");
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.firstChild.textContent.trim());
    const rows = [...table.tBodies[0].rows].map((row) =>
      [...row.cells].map((cell, i) => (i === 0 ? cell.firstChild.textContent.trim() : cell.dataset.value)));
    download(`${place.dataset.table}.csv`, "text/csv", table2csv([heads, ...rows]));
  }));
}
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    head.title = "Sort by this column";
    const sort = () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => {
        const cell = row.cells[column];
        return column === 0 ? cell.textContent : cell.dataset.value === "" ? null : Number(cell.dataset.value);
      };
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        if (x === null || y === null) return (x === null) - (y === null); // empty cells stay at the end
        const order = column === 0 ? y.localeCompare(x) : x - y;
        return down ? -order : order;
      });
      table.tBodies[0].append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        sort();
      }
    });
  });
}
// A table or figure that is wider than the screen says so: nothing else shows on a phone that there is more.
const hints = [...document.querySelectorAll(".scroll")].map((box) => {
  const hint = document.createElement("p");
  hint.className = "scrolls";
  hint.textContent = "There is more to the right: scroll sideways.";
  box.after(hint);
  return [box, hint];
});
const hintAll = () => hints.forEach(([box, hint]) => { hint.hidden = box.scrollWidth <= box.clientWidth + 2; });
hintAll();
window.addEventListener("load", hintAll);
document.addEventListener("toggle", hintAll, true);
// On paper nothing can be unfolded.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")].filter((one) => !one.closest("#rerun"));
  folded.forEach((one) => { one.open = true; });
});
window.addEventListener("afterprint", () => folded.forEach((one) => { one.open = false; }));
window.addEventListener("resize", hintAll);
for (const block of document.querySelectorAll("pre.copy")) {
  if (!navigator.clipboard) break; // pages opened from disk may lack it
  const copy = button("Copy", "Copy to the clipboard", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  copy.className = "copy-button";
  block.before(copy);
}
