import { Code, FencepostError } from "@fencepost/client/web";
import { type FormEvent, useEffect, useId, useRef, useState } from "react";
import { Failure } from "./parts";
import { useSession } from "./session";
import type { Action } from "./words";

/** What the user entered in the dialog of an action. */
export interface Confirmed {
  readonly reason: string;
  readonly operator: string;
  readonly option: boolean;
}

export interface Choice {
  readonly action: Action;
  readonly run: (confirmed: Confirmed) => Promise<unknown>;
  /** Who may do it; operators unless given. */
  readonly right?: "any" | "approve";
}

/** The buttons of a thing, each with a dialog. */
export function Actions({
  subject,
  choices,
  onDone,
}: {
  /** Names the thing in dialogs: "account alice". */
  subject: string;
  choices: readonly Choice[];
  onDone: () => void;
}) {
  const { status } = useSession();
  const [chosen, setChosen] = useState<Choice | undefined>();
  const [done, setDone] = useState("");
  const rights = status.caller;
  const may = (choice: Choice) =>
    choice.right === "any" ||
    rights?.operator === true ||
    (choice.right === "approve" && rights?.approve === true);
  const missing = choices.filter((choice) => !may(choice));
  const right = missing.every((choice) => choice.right === "approve")
    ? "The right approve, or the role operator,"
    : "The role operator";
  const why = useId();
  return (
    <div className="actions">
      {choices.map((choice) => (
        <button
          key={choice.action.label}
          type="button"
          className={choice.action.danger ? "danger" : undefined}
          disabled={!may(choice)}
          aria-describedby={may(choice) ? undefined : why}
          onClick={() => {
            setDone("");
            setChosen(choice);
          }}
        >
          {choice.action.label}
        </button>
      ))}
      {missing.length > 0 && (
        <p id={why} className="hint">
          {right} is required. Caller “{rights?.name}” does not have it; ask an operator.
        </p>
      )}
      <p role="status" className="hint">
        {done}
      </p>
      {chosen && (
        <ConfirmDialog
          subject={subject}
          choice={chosen}
          onClose={(applied) => {
            setChosen(undefined);
            if (applied) {
              setDone(`Done: ${chosen.action.label}.`);
              onDone();
            }
          }}
        />
      )}
    </div>
  );
}

function ConfirmDialog({
  subject,
  choice,
  onClose,
}: {
  subject: string;
  choice: Choice;
  onClose: (applied: boolean) => void;
}) {
  const session = useSession();
  const { action } = choice;
  const dialog = useRef<HTMLDialogElement>(null);
  const [reason, setReason] = useState("");
  const [operator, setOperator] = useState(session.operator);
  const [option, setOption] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const title = useId();

  useEffect(() => dialog.current?.showModal(), []);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      session.setOperator(operator.trim());
      await choice.run({ reason: reason.trim(), operator: operator.trim(), option });
      onClose(true);
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return (
    <dialog
      ref={dialog}
      aria-labelledby={title}
      onCancel={(event) => {
        event.preventDefault();
        if (!busy) {
          onClose(false);
        }
      }}
      // Browsers let a second Escape close a dialog without asking. A decision that is under way
      // keeps its dialog: its result must be seen.
      onClose={() => {
        if (busy) {
          dialog.current?.showModal();
        } else {
          onClose(false);
        }
      }}
    >
      <form onSubmit={(event) => void submit(event)}>
        <h2 id={title}>
          {action.label}: {subject}
        </h2>
        <p>{action.does}</p>
        <label>
          Reason{action.reasonRequired ? "" : " (optional)"}, recorded forever
          <textarea
            value={reason}
            required={action.reasonRequired}
            maxLength={512}
            rows={2}
            onChange={(event) => setReason(event.target.value)}
          />
        </label>
        <label>
          Your name, recorded with the decision
          <input
            value={operator}
            required
            maxLength={128}
            onChange={(event) => setOperator(event.target.value)}
          />
        </label>
        {action.option && (
          <label className="check">
            <input
              type="checkbox"
              checked={option}
              onChange={(event) => setOption(event.target.checked)}
            />
            {action.option}
          </label>
        )}
        <Failure error={error} what={action.label} />
        {isPending(error) && (
          <p className="notice warn">
            It is recorded, and is applied once a node owns the account. Confirm again to keep
            waiting; nothing is done twice.
          </p>
        )}
        <div className="actions">
          <button type="submit" className={action.danger ? "danger" : "primary"} disabled={busy}>
            {busy ? "Waiting for the owner…" : `Confirm: ${action.label}`}
          </button>
          <button type="button" disabled={busy} onClick={() => onClose(false)}>
            Do nothing
          </button>
        </div>
      </form>
    </dialog>
  );
}

function isPending(error: unknown): boolean {
  return error instanceof FencepostError && error.code === Code.DeadlineExceeded;
}
