// What a tab without a valid token shows in place of any page.

import { el, setText } from "../dom.js";
import { fromPaste, keep } from "../session.js";

export function lockedView(root, unlocked) {
  const field = el("input", {
    id: "link",
    type: "text", // no password: browsers would offer to keep it; the sheet hides it
    autocomplete: "off",
    spellcheck: false,
    required: true,
    "aria-describedby": "link-help link-error",
  });
  const error = el("p.error", { id: "link-error", role: "alert" });
  const form = el(
    "form.unlock",
    { onsubmit: submitted, noValidate: true },
    el("label", { htmlFor: "link" }, "Link or token"),
    el("div.row", {}, field, el("button.primary", { type: "submit" }, "Open")),
    error,
  );
  root.append(
    el("p.empty.asking", {}, "Asking the other tabs of this browser for the link."), // the sheet shows it for a moment
    el(
      "section.locked.card",
      { "aria-labelledby": "locked-title" },
      el("h1", { id: "locked-title" }, "Link needed"),
      el(
        "p",
        {},
        "This tab has no valid token: it was opened without one, or the service was started again with another.",
      ),
      el("p", { id: "link-help" }, "Open the link that the command printed, or paste it here. It stays in this tab."),
      form,
    ),
  );

  function submitted(event) {
    event.preventDefault();
    const token = fromPaste(field.value);
    field.setAttribute("aria-invalid", String(!token));
    if (token) {
      field.value = "";
      keep(token);
      unlocked();
    } else {
      setText(error, "This is neither the link nor a token. The link ends in #token= and at least 32 characters.");
      field.focus();
      field.select();
    }
  }

  return { title: "Link needed", update() {}, close() {} };
}
