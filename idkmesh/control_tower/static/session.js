// The session token of this tab.
//
// Laws: it lives in sessionStorage and in a field of a request, nowhere else: not in the address, not in localStorage,
// not in the page's text. A tab without it asks the living tabs of this origin, then the person.

const KEY = "idkmesh-token";
const GRAMMAR = /^[A-Za-z0-9\-._~]{32,4096}$/;

export const token = () => sessionStorage.getItem(KEY);

export const isToken = (text) => typeof text === "string" && GRAMMAR.test(text);

export function keep(text) {
  sessionStorage.setItem(KEY, text);
}

// Forgets the token, unless it has been replaced since `refused` was sent.
export function forget(refused) {
  if (token() === refused) {
    sessionStorage.removeItem(KEY);
    return true;
  }
  return false;
}

// Takes the token out of the address, whose fragment then names a page or nothing. Returns whether there was one.
export function takeFromAddress() {
  const match = /^#token=(.*)$/s.exec(location.hash);
  if (!match) {
    return false;
  }
  history.replaceState(null, "", location.pathname);
  if (!isToken(match[1])) {
    return false;
  }
  keep(match[1]);
  return true;
}

// What a person pastes: the link that the command printed, its end, or the token alone. Returns the token or null.
export function fromPaste(text) {
  const pasted = text.trim();
  const found = pasted.slice(pasted.lastIndexOf("#token=") + 1).replace(/^token=/, "");
  return isToken(found) ? found : null;
}
