// The session token of this tab.
//
// Laws: it lives in sessionStorage and in a field of a request, nowhere else: not in the address, not in localStorage,
// not in the page's text. A tab without it asks the living tabs of this origin, then the person.

const KEY = "idkmesh-token";
const GIVEN = "idkmesh-link"; // where boot.js leaves what stood in the address
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

// Takes what boot.js took out of the address. Returns whether it was a token.
export function takeGiven() {
  const given = sessionStorage.getItem(GIVEN);
  sessionStorage.removeItem(GIVEN);
  const found = given && fromPaste(given);
  if (found) {
    keep(found);
  }
  return Boolean(found);
}

// What a person pastes: the link that the command printed, its end, or the token alone. Returns the token or null.
export function fromPaste(text) {
  const pasted = text.trim();
  const found = pasted.slice(pasted.lastIndexOf("#token=") + 1).replace(/^token=/, "");
  return isToken(found) ? found : null;
}
