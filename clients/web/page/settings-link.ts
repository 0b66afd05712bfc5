/** An address that carries settings behind its `#`, as `s=`: a JSON object of values by field, in base64url. */

const LONGEST = 8192;

/** The page's address with these values, and without anything secret. */
export function addressWith(values: { readonly [field: string]: unknown }, address: string): string {
  const url = new URL(address);
  url.searchParams.delete("token");
  const bytes = new TextEncoder().encode(JSON.stringify(values));
  const text = btoa(String.fromCharCode(...bytes));
  url.hash = `s=${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
  return url.href;
}

/** The values that an address carries; an empty object if it carries none, or none that can be read. */
export function valuesIn(address: string): { [field: string]: unknown } {
  const text = new URLSearchParams(new URL(address).hash.slice(1)).get("s");
  if (!text || text.length > LONGEST) return {};
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
    const values: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof values === "object" && values !== null && !Array.isArray(values) ? { ...values } : {};
  } catch {
    return {};
  }
}
