/** Parameters as the end of a URL, with their question mark; those that are undefined, null or empty are left out. */
export function search(params) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
