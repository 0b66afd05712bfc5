/** Which keys of a touch pad lie under a finger. */

/** The most round buttons; the panel has the others. */
export const MOST_ROUND = 8;

const MIDDLE = 0.22;
const OUTSIDE = 2;
const REACH = 0.75;

/**
 * The places on a cross (0 up, 1 left, 2 down, 3 right) at a point: one, two between them, or none in the middle and far outside. The point is
 * right and down of the middle, in halves of the pad's width and height, so that the pad reaches from -1 to 1.
 */
export function directions(right: number, down: number): number[] {
  const [across, along] = [Math.abs(right), Math.abs(down)];
  const places: number[] = [];
  if (Math.hypot(across, along) < MIDDLE || Math.max(across, along) > OUTSIDE) return places;
  if (along >= across / 2) places.push(down < 0 ? 0 : 2);
  if (across >= along / 2) places.push(right < 0 ? 1 : 3);
  return places;
}

/** The rectangle whose middle is nearest to a point and at most three quarters of its width away: its number, or null. */
export function nearest(
  boxes: readonly { readonly left: number; readonly top: number; readonly width: number; readonly height: number }[],
  x: number,
  y: number,
): number | null {
  let found: number | null = null;
  let least = Infinity;
  boxes.forEach(({ left, top, width, height }, i) => {
    const distance = Math.hypot(x - left - width / 2, y - top - height / 2);
    if (distance > width * REACH || distance >= least) return;
    [found, least] = [i, distance];
  });
  return found;
}
