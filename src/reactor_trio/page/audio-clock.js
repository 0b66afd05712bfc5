/**
 * Which presentation time is heard at which time of the audio context, from the audio thread's reports. A report holds
 * from its own time on, and samples on their way to the loudspeaker are still those of the report before. Pure; seconds.
 */

const REPORT_MEMORY = 2; // longer than any output's latency
const IDLE = 2; // silence after which there is nothing to be in step with

export class AudioClock {
  #reports = [];

  /** `report` is {time, position, speed, end}, later than the one before; position is null before the first block. */
  addReport(report) {
    this.#reports.push(report);
    while (this.#reports.length > 1 && this.#reports[1].time < report.time - REPORT_MEMORY) this.#reports.shift();
  }

  clear() {
    this.#reports = [];
  }

  /** The presentation time that is heard at `time` of the context; null if nothing is, or nothing has been for a while. */
  positionAt(time) {
    const report = this.#reports.findLast((each) => each.time <= time);
    if (report === undefined || report.position === null) return null;
    const position = report.position + (time - report.time) * report.speed;
    return position > this.#reports.at(-1).end + IDLE ? null : position;
  }

  /** Sound that has come and is not yet played at `time` of the context; null before the first block. */
  buffered(time) {
    const report = this.#reports.at(-1);
    if (report === undefined || report.position === null) return null;
    return Math.max(0, report.end - report.position - (time - report.time) * report.speed);
  }
}
