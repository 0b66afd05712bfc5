/** Names and times of the files that the page saves. */

/** "mp4" or "webm". */
export function extension(type: string): string {
  const [, name = ""] = /^video\/(\w+)/.exec(type) ?? [];
  return name;
}

/** "0:07", "12:34", "1:00:00". */
export function describeTime(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000);
  const two = (number: number): string => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/** `crafter-20260131-140509.png`: a file name that every system accepts. */
export function fileName(model: string, ending: string, date: Date = new Date()): string {
  const two = (number: number): string => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}${two(date.getMonth() + 1)}${two(date.getDate())}`;
  const time = `${two(date.getHours())}${two(date.getMinutes())}${two(date.getSeconds())}`;
  const name =
    model
      .replace(/[^\p{L}\p{N}._-]+/gu, "-")
      .replace(/^[-.]+|-+$/g, "")
      .slice(0, 60) || "reactor";
  return `${name}-${day}-${time}.${ending}`;
}
