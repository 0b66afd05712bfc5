/**
 * Maps times of the audio context to the presentation time that is heard then, from the audio thread's reports. A report is
 * valid from its own time on; samples that are still on their way to the loudspeaker belong to the report before. Pure; seconds.
 */

const REPORT_MEMORY = 2; // longer than any output's latency
const IDLE = 2; // silence after which the clock stops

/** The playhead at `time`; `position` is null before the first block. */
export interface ClockReport {
  readonly time: number;
  readonly position: number | null;
  readonly speed: number;
  /** The end of the last block. */
  readonly end: number;
}

export class AudioClock {
  #reports: ClockReport[] = [];

  /** `report` is {time, position, speed, end}, with increasing `time`; `position` is null before the first block. */
  addReport(report: ClockReport): void {
    this.#reports.push(report);
    while ((this.#reports[1] ?? report).time < report.time - REPORT_MEMORY) this.#reports.shift();
  }

  clear(): void {
    this.#reports = [];
  }

  /** The presentation time that is heard at `time` of the context; null before the first block and after long silence. */
  positionAt(time: number): number | null {
    const newest = this.#reports.at(-1);
    const report = this.#reports.filter((each) => each.time <= time).at(-1);
    if (newest === undefined || report === undefined || report.position === null) return null;
    const position = report.position + (time - report.time) * report.speed;
    return position > newest.end + IDLE ? null : position;
  }

  /** Seconds of received sound that are not yet played at `time` of the context; null before the first block. */
  buffered(time: number): number | null {
    const report = this.#reports.at(-1);
    if (report === undefined || report.position === null) return null;
    return Math.max(0, report.end - report.position - (time - report.time) * report.speed);
  }
}
