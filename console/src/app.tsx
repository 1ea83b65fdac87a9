import type { GetStatusResponse } from "@fencepost/client/web";
import { type FormEvent, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { AccountPage } from "./pages/account";
import { AccountsPage } from "./pages/accounts";
import { ChainsPage } from "./pages/chains";
import { CommandsPage } from "./pages/commands";
import { DecisionsPage } from "./pages/decisions";
import { NodesPage } from "./pages/nodes";
import { SearchPage } from "./pages/search";
import { TxPage } from "./pages/tx";
import { Failure } from "./parts";
import { hrefOf, type Route, useRoute } from "./router";
import {
  clientWith,
  isUnauthenticated,
  SessionProvider,
  storedOperator,
  storedToken,
  storeOperator,
  storeToken,
  type Session,
} from "./session";

type Connected = Pick<Session, "client" | "status">;

/** The whole console: it signs in, then shows the page of the address. */
export function App() {
  const [connected, setConnected] = useState<Connected | undefined>();
  const [why, setWhy] = useState<string | undefined>(); // a token is needed
  const [error, setError] = useState<unknown>();

  const connect = useCallback(async (token: string, entered: boolean) => {
    setError(undefined);
    if (token !== "" && !isSecureContext) {
      setWhy("This address is not encrypted, so the token would be readable. Open it over https.");
      return;
    }
    const client = clientWith(token);
    try {
      const status: GetStatusResponse = await client.status.getStatus({});
      storeToken(token);
      setConnected({ client, status });
      setWhy(undefined);
    } catch (failed) {
      client.close();
      if (isUnauthenticated(failed)) {
        storeToken("");
        setWhy(
          entered
            ? "The node does not accept this token."
            : token === ""
              ? "This node requires a token."
              : "The token is no longer accepted. Enter a current one.",
        );
      } else {
        setError(failed);
      }
    }
  }, []);

  useEffect(() => void connect(storedToken(), false), [connect]);

  if (connected !== undefined) {
    return (
      <Signed
        connected={connected}
        onEnd={(reason) => {
          connected.client.close();
          storeToken("");
          setConnected(undefined);
          setWhy(
            reason === "expired"
              ? "The token is no longer accepted. Enter a current one."
              : "You signed out.",
          );
        }}
      />
    );
  }
  return (
    <main className="login">
      <h1>Fencepost</h1>
      {why === undefined && error === undefined && <p role="status">Connecting…</p>}
      <Failure error={error} what="Connecting" />
      {error !== undefined && (
        <button type="button" onClick={() => void connect(storedToken(), false)}>
          Try again
        </button>
      )}
      {why !== undefined && <Login why={why} onToken={(token) => void connect(token, true)} />}
    </main>
  );
}

function Login({ why, onToken }: { why: string; onToken: (token: string) => void }) {
  const [token, setToken] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onToken(token.trim());
  };
  return (
    <form onSubmit={submit}>
      <p role="alert">{why}</p>
      <label>
        Token of a caller
        <input
          type="password"
          autoComplete="off"
          required
          value={token}
          onChange={(event) => setToken(event.target.value)}
        />
      </label>
      <p className="hint">It is kept in this tab only, until you close it or sign out.</p>
      <button type="submit" className="primary">
        Sign in
      </button>
    </form>
  );
}

function Signed({ connected, onEnd }: { connected: Connected; onEnd: Session["end"] }) {
  const route = useRoute();
  const [operator, setOperator] = useState(
    storedOperator() || (connected.status.caller?.name ?? ""),
  );
  const ended = useRef(onEnd);
  ended.current = onEnd;
  const session: Session = useMemo(
    () => ({
      ...connected,
      end: (why) => ended.current(why),
      operator,
      setOperator: (name) => {
        storeOperator(name);
        setOperator(name);
      },
    }),
    [connected, operator],
  );
  return (
    <SessionProvider value={session}>
      <a className="skip" href="#main" onClick={(event) => skip(event)}>
        Skip to the content
      </a>
      <Header route={route} session={session} />
      <Main route={route} />
    </SessionProvider>
  );
}

function skip(event: { preventDefault: () => void }): void {
  event.preventDefault(); // the hash of the address is the page
  document.getElementById("main")?.focus();
}

const pages: [string, string][] = [
  ["", "Needs a decision"],
  ["accounts", "Accounts"],
  ["search", "Search"],
  ["chains", "Chains"],
  ["nodes", "Nodes"],
  ["commands", "Command log"],
];

function Header({ route, session }: { route: Route; session: Session }) {
  const caller = session.status.caller;
  return (
    <header>
      <strong>Fencepost</strong>
      <nav aria-label="Pages">
        <ul>
          {pages.map(([page, title]) => (
            <li key={page}>
              <a href={hrefOf(page)} aria-current={route.page === page ? "page" : undefined}>
                {title}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <p className="who">
        {caller?.name || "All rights"}
        {caller?.operator ? ", operator" : ""}
        {storedToken() !== "" && (
          <button type="button" onClick={() => session.end("signed out")}>
            Sign out
          </button>
        )}
      </p>
    </header>
  );
}

function Main({ route }: { route: Route }) {
  const main = useRef<HTMLElement>(null);
  const place = `${route.page}/${route.name}`;
  const first = useRef(true);
  useEffect(() => {
    document.title = `${titleOf(route)} – Fencepost`;
    if (first.current) {
      first.current = false;
    } else {
      main.current?.focus();
    }
  }, [place]);
  return (
    <main id="main" ref={main} tabIndex={-1}>
      <Page key={place} route={route} />
    </main>
  );
}

function titleOf(route: Route): string {
  const title = pages.find(([page]) => page === route.page)?.[1] ?? "Transaction";
  return route.name === "" ? title : `${title} ${route.name}`;
}

function Page({ route }: { route: Route }) {
  switch (route.page) {
    case "":
      return <DecisionsPage />;
    case "accounts":
      return route.name === "" ? <AccountsPage /> : <AccountPage name={route.name} />;
    case "tx":
      return <TxPage id={route.name} />;
    case "search":
      return <SearchPage query={route.query} />;
    case "chains":
      return <ChainsPage />;
    case "nodes":
      return <NodesPage />;
    case "commands":
      return <CommandsPage name={route.name} />;
    default:
      return <h1>Unknown page</h1>;
  }
}
