-------------------------------- MODULE Move --------------------------------
(***************************************************************************)
(* Law M1: while an account moves from one ledger to another, at most one  *)
(* of them can send for it, each intent is executed at most once, and none *)
(* that was accepted is lost.                                              *)
(*                                                                         *)
(* Two ledgers and a directory, each a database of its own, and commands   *)
(* that move the account. A command may end between any two steps, and     *)
(* several may run: a step is taken by any of them. The old ledger may be  *)
(* restored from a backup, once, and so may the directory. The account's   *)
(* lease is Fence.tla's.                                                   *)
(*                                                                         *)
(* Broken is the set of rules to leave out.                                *)
(***************************************************************************)
EXTENDS Integers, TLC

CONSTANTS
  Intents,   \* what callers ask for
  Movers,    \* commands
  Broken     \* the rules that are left out

VARIABLES
  step,      \* of the move, in the directory
  lost,      \* of the directory: its backup, whether it was restored, who has joined it since
  old,       \* the ledger that the account leaves
  new,       \* the ledger that it goes to
  backup,    \* of the old ledger
  restored,  \* the old ledger was restored
  writing,   \* intents whose statement has read that the old ledger accepts them
  picked,    \* intents that an owner in the old ledger has signed, and not yet committed
  mover,     \* what each command has read
  accepted,  \* intents whose callers know that they are queued
  ran        \* how often each intent was executed

vars == <<step, lost, old, new, backup, restored, writing, picked, mover, accepted, ran>>

Rule(name) == name \notin Broken

Ledgers == {"old", "new"}

Idle == [at |-> "idle", rows |-> {}]

\* asked: the directory was asked for tombstones since the ledger was restored
Init ==
  /\ step = "none"
  /\ lost = [backup |-> "none", restored |-> FALSE, joined |-> Ledgers]
  /\ old = [sealed |-> FALSE, active |-> TRUE, queue |-> {}, asked |-> TRUE]
  /\ new = [here |-> FALSE, queue |-> {}]
  /\ backup = old
  /\ restored = FALSE
  /\ writing = {}
  /\ picked = {}
  /\ mover = [m \in Movers |-> Idle]
  /\ accepted = {}
  /\ ran = [i \in Intents |-> 0]

OldSends == old.asked /\ ~old.sealed
NewSends == new.here

(***************************************************************************)
(* Callers and owners                                                      *)
(***************************************************************************)
Ask(i) ==
  /\ i \notin accepted \cup writing
  /\ OldSends /\ old.active
  /\ writing' = writing \cup {i}
  /\ UNCHANGED <<step, lost, old, new, backup, restored, picked, mover, accepted, ran>>

Accept(i) ==
  /\ i \in writing
  /\ writing' = writing \ {i}
  /\ old' = [old EXCEPT !.queue = @ \cup {i}]
  /\ accepted' = accepted \cup {i}
  /\ UNCHANGED <<step, lost, new, backup, restored, picked, mover, ran>>

Pick(i) ==
  /\ OldSends
  /\ i \in old.queue \ picked
  /\ picked' = picked \cup {i}
  /\ UNCHANGED <<step, lost, old, new, backup, restored, writing, mover, accepted, ran>>

\* A commit is fenced by the tombstone, which takes the lease. It is followed by the broadcast.
RunOld(i) ==
  /\ i \in picked
  /\ picked' = picked \ {i}
  /\ IF i \in old.queue /\ (Rule("the tombstone takes the lease") => OldSends)
     THEN /\ old' = [old EXCEPT !.queue = @ \ {i}]
          /\ ran' = [ran EXCEPT ![i] = @ + 1]
     ELSE UNCHANGED <<old, ran>>
  /\ UNCHANGED <<step, lost, new, backup, restored, writing, mover, accepted>>

RunNew(i) ==
  /\ NewSends
  /\ i \in new.queue
  /\ new' = [new EXCEPT !.queue = @ \ {i}]
  /\ ran' = [ran EXCEPT ![i] = @ + 1]
  /\ UNCHANGED <<step, lost, old, backup, restored, writing, picked, mover, accepted>>

(***************************************************************************)
(* The move                                                                *)
(***************************************************************************)
Begin ==
  /\ step = "none"
  /\ step' = "begun"
  /\ UNCHANGED <<lost, old, new, backup, restored, writing, picked, mover, accepted, ran>>

Pause ==
  /\ step = "begun" /\ ~old.sealed
  /\ old' = [old EXCEPT !.active = FALSE]
  /\ UNCHANGED <<step, lost, new, backup, restored, writing, picked, mover, accepted, ran>>

\* An operator gives the move up, or does not know of it.
Resume ==
  /\ ~old.sealed /\ ~old.active
  /\ old' = [old EXCEPT !.active = TRUE]
  /\ UNCHANGED <<step, lost, new, backup, restored, writing, picked, mover, accepted, ran>>

\* The lock on the table waits for statements that have read that the account is here.
Seal ==
  /\ ~old.sealed
  /\ \/ step = "begun" /\ ~old.active
     \/ step \in {"sealed", "done"}
  /\ Rule("the tombstone waits for writers") => writing = {}
  /\ old' = [old EXCEPT !.sealed = TRUE]
  /\ UNCHANGED <<step, lost, new, backup, restored, writing, picked, mover, accepted, ran>>

\* A directory that was restored may lack the move: the tombstone of the old ledger counts.
ReadSeal(m) ==
  /\ mover[m].at = "idle"
  /\ step \in {"none", "begun"} /\ old.sealed
  /\ mover' = [mover EXCEPT ![m].at = "record"]
  /\ UNCHANGED <<step, lost, old, new, backup, restored, writing, picked, accepted, ran>>

Record(m) ==
  /\ mover[m].at = "record"
  /\ step' = IF step \in {"none", "begun"} THEN "sealed" ELSE step
  /\ mover' = [mover EXCEPT ![m] = Idle]
  /\ UNCHANGED <<lost, old, new, backup, restored, writing, picked, accepted, ran>>

\* Rows of a restored ledger arrive under PROTECT: an operator cancels those that ran.
Compared(rows) == IF restored THEN {i \in rows : ran[i] = 0} ELSE rows

ReadRows(m) ==
  /\ mover[m].at = "idle"
  /\ step # "none"
  /\ Rule("the tombstone comes first") => old.sealed
  /\ Rule("the directory has the tombstone first") => step \in {"sealed", "done"}
  /\ ~new.here
  /\ mover' = [mover EXCEPT ![m] = [at |-> "copy", rows |-> old.queue]]
  /\ UNCHANGED <<step, lost, old, new, backup, restored, writing, picked, accepted, ran>>

Copy(m) ==
  /\ mover[m].at = "copy"
  /\ new' = IF new.here THEN new ELSE [here |-> TRUE, queue |-> Compared(mover[m].rows)]
  /\ mover' = [mover EXCEPT ![m] = Idle]
  /\ UNCHANGED <<step, lost, old, backup, restored, writing, picked, accepted, ran>>

Finish ==
  /\ step = "sealed" /\ new.here
  /\ step' = "done"
  /\ UNCHANGED <<lost, old, new, backup, restored, writing, picked, mover, accepted, ran>>

Kill(m) ==
  /\ mover[m].at # "idle"
  /\ mover' = [mover EXCEPT ![m] = Idle]
  /\ UNCHANGED <<step, lost, old, new, backup, restored, writing, picked, accepted, ran>>

(***************************************************************************)
(* A restore of the old ledger                                             *)
(***************************************************************************)
Backup ==
  /\ ~restored
  /\ backup' = old
  /\ UNCHANGED <<step, lost, old, new, restored, writing, picked, mover, accepted, ran>>

Restore ==
  /\ ~restored
  /\ restored' = TRUE
  /\ writing' = {}
  /\ picked' = {}
  /\ old' = [backup EXCEPT !.asked = FALSE]
  /\ UNCHANGED <<step, lost, new, backup, mover, accepted, ran>>

\* Before nodes work: ledgers join a directory that was restored, it is asked for tombstones, and
\* each account is compared with the chain.
AskDirectory ==
  /\ ~old.asked
  /\ Rule("all ledgers join a restored directory first") => lost.joined = Ledgers
  /\ old' = [old EXCEPT !.asked = TRUE, !.queue = Compared(@),
                        !.sealed = @ \/ (/\ Rule("a restored ledger asks the directory")
                                         /\ step \in {"sealed", "done"})]
  /\ UNCHANGED <<step, lost, new, backup, restored, writing, picked, mover, accepted, ran>>

(***************************************************************************)
(* A restore of the directory                                              *)
(***************************************************************************)
BackupDirectory ==
  /\ ~lost.restored
  /\ lost' = [lost EXCEPT !.backup = step]
  /\ UNCHANGED <<step, old, new, backup, restored, writing, picked, mover, accepted, ran>>

RestoreDirectory ==
  /\ ~lost.restored
  /\ step' = lost.backup
  /\ lost' = [lost EXCEPT !.restored = TRUE, !.joined = {}]
  /\ UNCHANGED <<old, new, backup, restored, writing, picked, mover, accepted, ran>>

\* An operator lets each ledger join again, once no command of before the restore runs. A ledger
\* records which accounts have left it, and which have reached it.
Join(l) ==
  /\ l \notin lost.joined
  /\ Rule("commands end before ledgers join") => \A m \in Movers : mover[m].at = "idle"
  /\ lost' = [lost EXCEPT !.joined = @ \cup {l}]
  /\ step' = CASE l = "new" /\ new.here /\ Rule("a ledger records what has reached it") -> "done"
              [] l = "old" /\ old.sealed /\ step \in {"none", "begun"} -> "sealed"
              [] OTHER -> step
  /\ old' = [old EXCEPT !.asked = @ \/ (/\ l = "old" /\ step' \in {"none", "begun"}
                                        /\ ~Rule("a join is no answer of the directory"))]
  /\ UNCHANGED <<new, backup, restored, writing, picked, mover, accepted, ran>>

Next ==
  \/ \E i \in Intents : Ask(i) \/ Accept(i) \/ Pick(i) \/ RunOld(i) \/ RunNew(i)
  \/ Begin \/ Pause \/ Resume \/ Seal \/ Finish
  \/ \E m \in Movers : ReadSeal(m) \/ Record(m) \/ ReadRows(m) \/ Copy(m) \/ Kill(m)
  \/ Backup \/ Restore \/ AskDirectory
  \/ BackupDirectory \/ RestoreDirectory \/ \E l \in Ledgers : Join(l)

Spec == Init /\ [][Next]_vars

Symmetry == Permutations(Intents) \cup Permutations(Movers)

(***************************************************************************)
(* The laws                                                                *)
(***************************************************************************)
OneLedger == ~(OldSends /\ NewSends)

ExecutedOnce == \A i \in Intents : ran[i] <= 1

\* A restore loses what came after its backup.
Kept == ~restored /\ new.here => \A i \in accepted : ran[i] = 1 \/ i \in new.queue
=============================================================================
