// How long to wait before the next try. Pure: chance is an argument.
//
// Laws: never longer than LONGEST; never shorter than what the service asked for (up to that); two tabs that lost the
// same service do not come back at the same moment.

export const LONGEST = 30_000; // ms

// `tries` counts failures in a row from 1, `asked` is Retry-After in seconds (0 for none), `chance` is in [0, 1).
export function backoff(tries, asked = 0, chance = Math.random(), longest = LONGEST) {
  const step = Math.min(500 * 2 ** Math.min(tries - 1, 10), longest);
  const own = step * (0.5 + chance / 2);
  const least = asked * 1000 + (asked > 0 ? chance * 1000 : 0);
  return Math.min(Math.max(own, least), LONGEST);
}

// Retry-After as seconds; a date or anything else counts as none.
export function retryAfter(response) {
  const field = response.headers.get("Retry-After") ?? "";
  return /^\d{1,6}$/.test(field) ? Number(field) : 0;
}
