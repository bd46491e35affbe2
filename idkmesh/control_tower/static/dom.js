// The document, by its safe interfaces alone.
//
// Laws: text is set as text, never as markup; an attribute never gets text of an event or an answer, except labels,
// which run nothing; what explains is text that everybody sees, never a `title`; a node that stays in place is not
// touched, so focus and scrolling stay.

const SVG = "http://www.w3.org/2000/svg";

// el("p.note", {id: "x", onclick: f}, "text", child): a tag with classes, its properties, its children.
export function el(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const made = document.createElement(tag);
  made.classList.add(...classes);
  apply(made, properties);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function apply(target, properties) {
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) {
      target.addEventListener(key.slice(2), value);
    } else if (key === "dataset") {
      Object.assign(target.dataset, value);
    } else if (key in target && !key.startsWith("aria")) {
      target[key] = value;
    } else {
      target.setAttribute(key, value);
    }
  }
}

// An unchanged live region is not read out again.
export function setText(target, text) {
  if (target.textContent !== text) {
    target.textContent = text;
  }
}

export function setAttribute(target, name, value) {
  if (target.getAttribute(name) !== String(value)) {
    target.setAttribute(name, value);
  }
}

// Gives `parent` exactly these children, moving none that is already in its place.
export function reconcile(parent, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...parent.childNodes]) {
    if (!wanted.has(child)) {
      child.remove();
    }
  }
  let place = parent.firstChild;
  for (const node of nodes) {
    if (node === place) {
      place = place.nextSibling;
    } else {
      parent.insertBefore(node, place);
    }
  }
}

// A list of names and values whose rows are kept: [[name, value, note?], ...].
export function showRows(list, rows) {
  while (list.children.length > rows.length) {
    list.lastElementChild.remove();
  }
  rows.forEach(([name, value, note = ""], index) => {
    let row = list.children[index];
    if (!row) {
      row = el("div", {}, el("dt", {}, el("span"), el("span.note")), el("dd"));
      list.append(row);
    }
    const [shown, explained] = row.firstElementChild.children;
    setText(shown, name);
    setText(explained, note);
    explained.hidden = note === "";
    setText(row.lastElementChild, value);
  });
}

const MARKS = {
  good: "M4 8.5 7 11.5 12.5 5",
  warn: "M8 3.5V9M8 11.6V12.2",
  bad: "M4.5 4.5 11.5 11.5M11.5 4.5 4.5 11.5",
  info: "M8 7V12M8 4V4.6",
  idle: "M4.5 8H11.5",
  unknown: "M5.9 6.3A2.1 2.1 0 1 1 9 8.1C8.3 8.5 8 8.8 8 9.6M8 12V12.2",
};

// A sign whose shape says the same as its colour.
export function sign(kind) {
  const drawn = svg("svg", { viewBox: "0 0 16 16", class: `sign ${kind}`, "aria-hidden": "true" });
  drawn.append(svg("path", { d: MARKS[kind] ?? MARKS.idle }));
  return drawn;
}
