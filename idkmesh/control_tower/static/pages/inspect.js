// How the rules judge a raw request, at its byte.

import { ask, curl } from "../api.js";
import { announce } from "../announce.js";
import { copyButton } from "../copy.js";
import { el, sign } from "../dom.js";
import { bytes as size, count, number, visible } from "../format.js";
import { EXAMPLES } from "./examples.js";
import { byteName, drawBytes, toBytes } from "./request_bytes.js";

export const inspect = { name: "inspect", title: "Inspect", key: "i", open };

const PATH = "/api/v1/inspect/http-request";
const VERDICTS = { accepted: ["Accepted", "good"], refused: ["Refused", "bad"], incomplete: ["Incomplete", "warn"] };

let left = null; // what was written when the page was left: {text, how}, found again

function open(root) {
  const area = el("textarea", {
    id: "request",
    rows: 9,
    spellcheck: false,
    autocomplete: "off",
    placeholder: "GET / HTTP/1.1\nHost: localhost\n",
  });
  area.setAttribute("wrap", "off");
  const crlf = el("input", { type: "radio", name: "endings", value: "crlf", checked: true });
  const typed = el("input", { type: "radio", name: "endings", value: "typed" });
  const escapes = el("input", { type: "checkbox", checked: true });
  const result = el("div.result.told", { id: "result" }, hint());
  const button = el("button.primary", { type: "submit" }, "Inspect");
  const form = el(
    "form.request.card",
    { onsubmit: submitted },
    el("label", { htmlFor: "request" }, "Raw request"),
    area,
    el(
      "fieldset",
      {},
      el("legend", {}, "How it is sent"),
      el("label.choice", {}, crlf, "Line ends as CRLF"),
      el("label.choice", {}, typed, "Line ends as typed (LF)"),
      el("label.choice", {}, escapes, el("span", {}, "Read ", el("code", {}, "\\r \\n \\t \\x00"))),
    ),
    el("div.row", {}, button, el("span.note", {}, el("kbd", {}, "Ctrl"), " ", el("kbd", {}, "Enter"))),
  );
  const examples = el("div.examples", { role: "group", "aria-label": "Examples" });
  for (const [name, text, how] of EXAMPLES) {
    examples.append(el("button.small", { type: "button", onclick: () => example(text, how) }, name));
  }
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      form.requestSubmit();
    }
  });
  root.append(
    el("div.head", {}, el("h1", {}, "Inspect a request")),
    el("p.lead", {}, "The server's own rules judge the bytes. Nothing is sent anywhere else, and nothing is kept."),
    el("div.inspection", {}, el("div", {}, form, el("h2", {}, "Try one"), examples), result),
  );

  if (left) {
    write(left.text, left.how);
  }

  function write(text, how) {
    area.value = text;
    crlf.checked = how.endings === "crlf";
    typed.checked = !crlf.checked;
    escapes.checked = how.escapes;
  }

  function example(text, how) {
    write(text, how);
    form.requestSubmit();
  }

  const how = () => ({ endings: crlf.checked ? "crlf" : "typed", escapes: escapes.checked });

  async function submitted(event) {
    event.preventDefault();
    if (area.value === "") {
      show(el("p.empty.card", {}, "There is nothing to inspect yet: write a request, or take one below."));
      area.focus();
      return;
    }
    const body = toBytes(area.value, how());
    button.disabled = true;
    try {
      const answer = await ask(PATH, { method: "POST", headers: { "Content-Type": "message/http" }, body });
      show(...(answer.ok ? verdict(answer.body, body) : [refused(answer)]));
    } catch {
      show(el("p.empty.card", {}, "The service does not answer. Inspect again when it does."));
    }
    button.disabled = false;
  }

  // Shows an outcome where it can be seen: the marked byte in its box, and on a narrow screen the verdict itself.
  function show(...parts) {
    result.replaceChildren(...parts);
    announce(parts[0].querySelector(".outcome")?.textContent ?? parts[0].textContent);
    const mark = result.querySelector("mark.byte");
    const box = mark?.closest(".bytes");
    if (box) {
      const beside = mark.getBoundingClientRect().top - box.getBoundingClientRect().top;
      box.scrollTop += beside - (box.clientHeight - mark.offsetHeight) / 2;
    }
    if (result.getBoundingClientRect().top > innerHeight * 0.7) {
      result.scrollIntoView({ block: "start" });
    }
  }

  return {
    update() {},
    close() {
      left = { text: area.value, how: how() };
    },
    keys: {
      "/": { does: "Write the request", run: () => area.focus() },
      Escape: { does: "Leave the field", run: () => document.activeElement?.blur() },
    },
  };
}

const hint = () =>
  el("p.empty.card", {}, "The verdict appears here: the rule that was broken, its clause, and the byte.");

function refused({ status, code, message }) {
  return el("p.empty.card", {}, `The service answered ${status} ${code}: ${message}`);
}

function verdict(document, body) {
  const [word, kind] = VERDICTS[document.verdict] ?? [document.verdict, "idle"];
  const offset = document.offset;
  const card = el(
    "section.verdict-card.card",
    { "aria-labelledby": "inspected", dataset: { kind } },
    el(
      "h2",
      { id: "inspected" },
      sign(kind),
      word,
      document.status ? el("span.status", {}, `would be answered ${document.status}`) : null,
    ),
    el("p.outcome", { hidden: true }, `${word}. ${visible(document.message)}`),
    el("p", {}, visible(document.message)),
    rows([
      ["Reason", document.reason],
      ["Code", document.code],
      ["Clause", document.rfc?.replace(/ (?=[\d.]+$)/, " \u00a7")],
      ["Byte", offset === null ? null : `${number(offset)}, ${byteName(body[offset])}`],
    ]),
  );
  return [
    card,
    section(`Bytes, ${size(body.length)}`, [copyButton("Copy as curl", command(body))], drawBytes(body, offset)),
    ...parsed(document),
  ];
}

function rows(pairs) {
  const there = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el(
    "dl.rows",
    {},
    ...there.map(([name, value]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, el("bdi", {}, visible(String(value))))),
    ),
  );
}

function section(title, tools, ...children) {
  return el("section", {}, el("div.tools", {}, el("h2", {}, title), ...tools), ...children);
}

function parsed({ request, body }) {
  if (!request) {
    return [];
  }
  const head = rows([
    ["Method", request.method],
    ["Path", request.path],
    ["Query", request.query],
    ["Version", request.version],
    ["Authority", request.authority],
    ["Body", bodyWords(body)],
    ["Waits for 100 Continue", request.expect_continue ? "yes" : null],
  ]);
  const fields = rows(request.fields.map(({ name, value }) => [name, value === "" ? "(empty)" : value]));
  head.classList.add("card");
  fields.classList.add("card", "fields");
  return [section("As parsed", [], head), section(count(request.fields.length, "field"), [], fields)];
}

function bodyWords({ declared_bytes: declared, present_bytes: present, trailing_bytes: trailing }) {
  const own = declared === null ? "none declared" : `${number(present)} of ${count(declared, "byte")} are here`;
  return trailing > 0 ? `${own}; ${count(trailing, "byte")} beyond it, never read as a body` : own;
}

const command = (body) => curl(PATH, { method: "POST", type: "message/http", data: body });
