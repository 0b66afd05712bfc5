/** Whether an address is of the computer that asks: its page is seen there only, by whoever runs the server. */
export const isLoopback = (address: string | URL): boolean => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(new URL(address).hostname);
