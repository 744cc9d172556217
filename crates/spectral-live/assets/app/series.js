// The rows of the curves: kept per agent, thinned for drawing, averaged over seeds.

const MOST = 600;

export class Series {
  constructor(agents) {
    this.agents = agents;
    this.rows = agents.map(() => ({ frame: [], score: [], td: [] }));
    this.version = 0;
    this.names = [...new Set(agents.map((one) => one.agent))];
  }

  take(event) {
    const rows = this.rows[event.agent];
    if (!rows) return;
    if (event.reset) for (const name of Object.keys(rows)) rows[name] = [];
    for (const name of Object.keys(rows)) for (const value of event[name] ?? []) rows[name].push(value);
    this.version++;
  }

  /** The line of one agent and seed: [[frame, value]], without gaps, at most 600 points. */
  line(agent, name) {
    const { frame, [name]: values } = this.rows[agent];
    const points = [];
    for (let k = 0; k < frame.length; k++) if (values[k] !== null && values[k] !== undefined) points.push([frame[k], values[k]]);
    return thin(points);
  }

  /** The mean over the seeds of an agent, as far as all seeds that still learn have come. */
  mean(name, stopped) {
    const members = this.agents.map((one, k) => k).filter((k) => this.agents[k].agent === name && this.rows[k].frame.length > 0);
    const learning = members.filter((k) => !stopped[k]);
    const ends = (learning.length > 0 ? learning : members).map((k) => this.rows[k].frame[this.rows[k].frame.length - 1]);
    const end = Math.min(...ends);
    const sums = new Map();
    for (const k of members) {
      const { frame, score } = this.rows[k];
      for (let row = 0; row < frame.length && frame[row] <= end; row++) {
        if (score[row] === null || score[row] === undefined) continue;
        const sum = sums.get(frame[row]);
        if (sum) {
          sum[0] += score[row];
          sum[1]++;
        } else sums.set(frame[row], [score[row], 1]);
      }
    }
    const points = [...sums].sort((a, b) => a[0] - b[0]).map(([frame, [sum, count]]) => [frame, sum / count]);
    return { points: thin(points), seeds: members.length };
  }
}

/** At most 600 points: each is the mean of its neighbours, the last one stays as it is. */
function thin(points) {
  if (points.length <= MOST) return points;
  const size = Math.ceil(points.length / MOST);
  const out = [];
  for (let k = 0; k < points.length; k += size) {
    const part = points.slice(k, k + size);
    out.push([
      part[part.length - 1][0],
      part.reduce((sum, point) => sum + point[1], 0) / part.length,
    ]);
  }
  return out;
}
