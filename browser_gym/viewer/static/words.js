// Numbers and states in words.

export function seconds(value) {
  if (value === null) return "";
  return value < 100 ? `${value.toFixed(1)} s` : `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

export function milliseconds(value) {
  return value === null ? "" : value < 1000 ? `${Math.round(value)} ms` : seconds(value / 1000);
}

export function dollars(value) {
  return value === null ? "" : `$${value.toFixed(value < 1 ? 4 : 2)}`;
}

export function rewardOf(summary) {
  if (summary.masked) return "masked";
  return summary.reward === null ? "no reward" : `reward ${short(summary.reward)}`;
}

export function verdictOf(summary) {
  if (summary.masked) return "masked";
  return summary.reward >= 1 ? "pass" : summary.reward > 0 ? "part" : "fail";
}

export function tokens(usage) {
  const parts = [
    ["in", usage.input_tokens],
    ["cached", usage.cached_tokens],
    ["cache written", usage.cache_write_tokens],
    ["out", usage.output_tokens],
    ["reasoning", usage.reasoning_tokens],
  ];
  return parts
    .filter(([, count]) => count)
    .map(([name, count]) => `${count.toLocaleString("en")} ${name}`)
    .join(", ");
}

/** What tells a rollout from the others of its task. */
export function nameOf(summary) {
  const repeat = summary.repeat === null ? "" : `repeat ${summary.repeat}`;
  return [repeat, summary.agent, summary.model].filter(Boolean).join(" · ") || `line ${summary.line}`;
}

export function taskOf(summary) {
  return summary.task || `line ${summary.line}`;
}

export function short(value) {
  return String(Math.round(value * 1000) / 1000);
}
