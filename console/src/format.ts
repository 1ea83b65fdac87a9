import type { Timestamp } from "@bufbuild/protobuf/wkt";

/** A decimal number of wei in units of 10^decimals, without trailing zeros. */
export function units(wei: string, decimals: number): string {
  if (!/^[0-9]+$/.test(wei)) {
    return wei;
  }
  const digits = wei.padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals).replace(/^0+(?=\d)/, "");
  const rest = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return grouped(whole) + (rest === "" ? "" : `.${rest}`);
}

export const ether = (wei: string): string => `${units(wei, 18)} ether`;
export const gwei = (wei: string): string => `${units(wei, 9)} gwei`;

/** Separates groups of three digits by narrow spaces. */
export function grouped(digits: string): string {
  return digits.replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

export function millis(time: Timestamp): number {
  return Number(time.seconds) * 1000 + time.nanos / 1e6;
}

/** A duration in its two largest units: "2 d 3 h", "5 min", "12 s". */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([n]) => n > 0);
  if (first < 0) {
    return "0 s";
  }
  return parts
    .slice(first, first + (first < 2 ? 2 : 1))
    .filter(([n]) => n > 0)
    .map(([n, unit]) => `${n} ${unit}`)
    .join(" ");
}

/** The start and end of a long identifier. */
export function short(text: string): string {
  return text.length <= 20 ? text : `${text.slice(0, 10)}…${text.slice(-6)}`;
}

/** The name of an enum value without its prefix: "TX_STATE_QUEUED" is "QUEUED". */
export function enumName(names: Record<number, string>, value: number): string {
  return names[value] ?? String(value);
}
