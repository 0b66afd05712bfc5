/** The page's address for somebody who goes on from a fork: without a role, and without a credential, which is not theirs. */
export function forkAddress(address: string, fork: string): string {
  const url = new URL(address);
  url.searchParams.delete("role");
  url.searchParams.delete("token");
  url.hash = new URLSearchParams({ fork }).toString();
  return url.href;
}
