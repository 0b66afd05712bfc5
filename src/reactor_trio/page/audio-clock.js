/**
 * Maps times of the audio context to the presentation time that is heard then, from the audio thread's reports. A report is
 * valid from its own time on; samples that are still on their way to the loudspeaker belong to the report before. Pure; seconds.
 */

const REPORT_MEMORY = 2; // longer than any output's latency
const IDLE = 2; // silence after which the clock stops

export class AudioClock {
  #reports = [];

  /** `report` is {time, position, speed, end}, with increasing `time`; `position` is null before the first block. */
  addReport(report) {
    this.#reports.push(report);
    while (this.#reports.length > 1 && this.#reports[1].time < report.time - REPORT_MEMORY) this.#reports.shift();
  }

  clear() {
    this.#reports = [];
  }

  /** The presentation time that is heard at `time` of the context; null before the first block and after long silence. */
  positionAt(time) {
    const report = this.#reports.findLast((each) => each.time <= time);
    if (report === undefined || report.position === null) return null;
    const position = report.position + (time - report.time) * report.speed;
    return position > this.#reports.at(-1).end + IDLE ? null : position;
  }

  /** Seconds of received sound that are not yet played at `time` of the context; null before the first block. */
  buffered(time) {
    const report = this.#reports.at(-1);
    if (report === undefined || report.position === null) return null;
    return Math.max(0, report.end - report.position - (time - report.time) * report.speed);
  }
}
