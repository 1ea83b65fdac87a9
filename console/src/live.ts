import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Client, WatchTxRequestSchema, WatchTxResponse } from "@fencepost/client/web";
import { useCallback, useEffect, useRef, useState } from "react";
import { isUnauthenticated, useSession } from "./session";

const longestPauseMs = 60_000;
const settleMs = 250; // events that arrive together cause one read

/** Data that is read again and again while the page is visible. */
export interface Live<T> {
  readonly data: T | undefined;
  /** Why the last read failed; the data, if any, is older. */
  readonly error: unknown;
  readonly reload: () => void;
}

/**
 * Reads data now, every intervalMs, and on reload. After failures the pause doubles up to a minute.
 * A hidden page reads nothing. When the key changes, older data is dropped.
 */
export function useLive<T>(
  key: string,
  intervalMs: number,
  read: (client: Client, signal: AbortSignal) => Promise<T>,
): Live<T> {
  const { client, end } = useSession();
  const [state, setState] = useState<{ key: string; data?: T; error?: unknown }>({ key });
  const latest = useRef(read);
  latest.current = read;
  const kick = useRef<() => void>(() => {});

  useEffect(() => {
    const ending = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let running = false;
    let again = false;
    let failures = 0;
    const schedule = (ms: number) => {
      clearTimeout(timer);
      timer = setTimeout(() => void once(), ms);
    };
    const once = async () => {
      if (running) {
        again = true;
        return;
      }
      if (document.hidden || ending.signal.aborted) {
        return;
      }
      running = true;
      again = false;
      try {
        const data = await latest.current(client, ending.signal);
        failures = 0;
        if (!ending.signal.aborted) {
          setState({ key, data });
        }
      } catch (error) {
        if (ending.signal.aborted) {
          return;
        }
        if (isUnauthenticated(error)) {
          end("expired");
          return;
        }
        failures++;
        setState((before) => ({ ...(before.key === key ? before : { key }), key, error }));
      } finally {
        running = false;
      }
      schedule(again ? 0 : Math.min(intervalMs * 2 ** failures, longestPauseMs));
    };
    kick.current = () => schedule(settleMs);
    const shown = () => {
      if (!document.hidden) {
        schedule(0);
      }
    };
    document.addEventListener("visibilitychange", shown);
    void once();
    return () => {
      document.removeEventListener("visibilitychange", shown);
      clearTimeout(timer);
      ending.abort();
    };
  }, [client, end, intervalMs, key]);

  const reload = useCallback(() => kick.current(), []);
  const current = state.key === key ? state : { key };
  return { data: current.data, error: current.error, reload };
}

/**
 * Watches transactions while the page is visible, over as many streams as necessary. The messages
 * before the first heartbeat are snapshots and past events. Returns whether a stream is open.
 */
export function useWatch(
  key: string,
  request: MessageInitShape<typeof WatchTxRequestSchema>,
  onMessage: (message: WatchTxResponse) => void,
  onStart: () => void = () => {},
): boolean {
  const { client, end } = useSession();
  const [open, setOpen] = useState(false);
  const latest = useRef({ request, onMessage, onStart });
  latest.current = { request, onMessage, onStart };

  useEffect(() => {
    let ending = new AbortController();
    let lastMessage = 0;
    const watch = async (signal: AbortSignal) => {
      for (let failures = 0; !signal.aborted; failures++) {
        try {
          latest.current.onStart();
          for await (const message of client.watch(latest.current.request, { signal })) {
            failures = 0;
            lastMessage = Date.now();
            setOpen(true);
            latest.current.onMessage(message);
          }
        } catch (error) {
          if (signal.aborted) {
            return;
          }
          if (isUnauthenticated(error)) {
            end("expired");
            return;
          }
        }
        setOpen(false);
        await new Promise((resolve) =>
          setTimeout(resolve, Math.min(500 * 2 ** failures, longestPauseMs)),
        );
      }
    };
    const visibility = () => {
      ending.abort();
      ending = new AbortController();
      if (document.hidden) {
        setOpen(false);
      } else {
        void watch(ending.signal);
      }
    };
    // A watch resumes silently; without a message for three heartbeats it is not up to date.
    const checking = setInterval(() => {
      if (Date.now() - lastMessage > 11_000) {
        setOpen(false);
      }
    }, 1000);
    document.addEventListener("visibilitychange", visibility);
    visibility();
    return () => {
      document.removeEventListener("visibilitychange", visibility);
      clearInterval(checking);
      ending.abort();
    };
  }, [client, end, key]);
  return open;
}

/** The current time, which changes every second. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
