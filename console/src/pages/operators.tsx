import type { ReactNode } from "react";
import { useSession } from "../session";

/** Shows its content to operators, and others why they do not see it. */
export function OperatorsOnly({ children }: { children: ReactNode }) {
  const { status } = useSession();
  if (status.caller?.operator) {
    return <>{children}</>;
  }
  return (
    <p className="notice warn">
      This is shown to callers with the role operator. Caller “{status.caller?.name}” does not have
      it; ask an operator.
    </p>
  );
}
