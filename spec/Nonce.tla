------------------------------- MODULE Nonce -------------------------------
(***************************************************************************)
(* Laws L4 to L7 and L10 for one account: no gap, no nonce for two         *)
(* payloads, no payload executed twice, no outcome that is not true, no    *)
(* nonce skipped silently. In three regimes:                               *)
(*                                                                         *)
(* - STRICT and PIPELINED: Fencepost allocates, signs and sends, with one  *)
(*   or several nonces in flight (Limit);                                  *)
(* - EXTERNAL: clients reserve nonces, and sign and send on their own.     *)
(*                                                                         *)
(* The ledger is taken as atomic here: module Fence shows why it may be.   *)
(* Signed bytes exist for ever, and whoever saw them can send them: they   *)
(* may be included at any time at which their nonce is the next one.       *)
(*                                                                         *)
(* Broken is the set of rules to leave out: see the .mutants files.        *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  Mode,      \* "MANAGED" (STRICT, PIPELINED) or "EXTERNAL"
  Limit,     \* nonces in flight; reservations that are not settled
  Intents,   \* 1..n: payloads in queue order, or reservations
  Nonces,    \* 0..n
  Invalid,   \* payloads whose bytes no node accepts
  Foreign,   \* whether another program may use the key, once
  Restore,   \* whether the ledger may be restored from a backup, once
  Broken     \* the rules that are left out

VARIABLES
  chain,     \* bytes by nonce: the canonical chain
  settled,   \* so many of them are final
  bytes,     \* all signed bytes that exist anywhere
  ledger,    \* what Fencepost knows
  backup,    \* an earlier ledger
  told,      \* outcomes that were reported: of payloads as never executed or executed
  client     \* EXTERNAL: the nonce of each reservation, and what its holder did

vars == <<chain, settled, bytes, ledger, backup, told, client>>

Rule(name) == name \notin Broken

Pay(p, n) == [nonce |-> n, by |-> "us", for |-> p]
Cancel(n) == [nonce |-> n, by |-> "us", for |-> 0]
Other(n) == [nonce |-> n, by |-> "another program", for |-> 0]

Free == [is |-> "FREE", by |-> 0]

Empty == [cursor |-> 0, attempts |-> {}, protected |-> FALSE, gaps |-> {},
          state |-> [p \in Intents |-> "QUEUED"], nonce |-> [p \in Intents |-> -1],
          restored |-> {}, requeued |-> {}, table |-> [n \in Nonces |-> Free],
          hashes |-> {}]

Init ==
  /\ chain = <<>>
  /\ settled = 0
  /\ bytes = {}
  /\ ledger = Empty
  /\ backup = [is |-> "none", ledger |-> Empty]
  /\ told = [p \in Intents |-> "UNKNOWN"]
  /\ client = [p \in Intents |-> [did |-> "none", nonce |-> -1]]

At(n) == chain[n + 1]
Included(n) == n < Len(chain)
Settled(n) == n < settled

(***************************************************************************)
(* The chain                                                               *)
(***************************************************************************)
Include ==
  /\ \E b \in bytes :
       /\ b.nonce = Len(chain)
       /\ b.for \notin Invalid
       /\ chain' = Append(chain, b)
  /\ UNCHANGED <<settled, bytes, ledger, backup, told, client>>

Settle ==
  /\ settled < Len(chain)
  /\ settled' = settled + 1
  /\ UNCHANGED <<chain, bytes, ledger, backup, told, client>>

Reorg ==
  /\ settled < Len(chain)
  /\ \E k \in settled..(Len(chain) - 1) : chain' = SubSeq(chain, 1, k)
  /\ UNCHANGED <<settled, bytes, ledger, backup, told, client>>

UseElsewhere ==
  /\ Foreign
  /\ \A b \in bytes : b.by = "us"
  /\ \E n \in Nonces : n >= Len(chain) /\ bytes' = bytes \cup {Other(n)}
  /\ UNCHANGED <<chain, settled, ledger, backup, told, client>>

(***************************************************************************)
(* STRICT and PIPELINED                                                    *)
(***************************************************************************)
Queued == {p \in Intents : ledger.state[p] = "QUEUED"}
Open == {p \in Intents : ledger.state[p] = "OPEN"}
First == CHOOSE p \in Queued : \A q \in Queued : p <= q

\* A slot is free again when the chain includes its nonce: release_depth 1.
InFlight == {p \in Open : ~Included(ledger.nonce[p])}

Record(b, l) ==
  /\ bytes' = bytes \cup {b}
  /\ ledger' = [l EXCEPT !.attempts = @ \cup {b}]

\* A commit may take a range. That is the same as several commits that nothing comes between.
Allocate ==
  /\ ~ledger.protected
  /\ Queued # {}
  /\ ledger.cursor \in Nonces
  /\ Cardinality(InFlight) < Limit
  /\ Record(Pay(First, ledger.cursor),
            [ledger EXCEPT !.cursor = @ + 1,
                           !.state[First] = "OPEN",
                           !.nonce[First] = ledger.cursor])
  /\ UNCHANGED <<chain, settled, backup, told, client>>

\* A cancel, and the fill of a nonce whose bytes can never pass, are attempts at the same nonce.
Replace(p) ==
  /\ p \in Open
  /\ ~ledger.protected
  /\ Cancel(ledger.nonce[p]) \notin ledger.attempts
  /\ Record(Cancel(ledger.nonce[p]), ledger)
  /\ told' = IF Rule("an outcome is told when it is final") THEN told
             ELSE [told EXCEPT ![p] = "NO"]
  /\ UNCHANGED <<chain, settled, backup, client>>

\* The tempting way to close a hole: sign a higher transaction again, at the nonce that is free.
Renumber(p, q) ==
  /\ ~Rule("a recorded nonce is never changed")
  /\ p \in Open /\ q \in Open /\ p < q /\ p \in Invalid
  /\ Record(Pay(q, ledger.nonce[p]),
            [ledger EXCEPT !.nonce[q] = ledger.nonce[p], !.state[p] = "DONE"])
  /\ UNCHANGED <<chain, settled, backup, told, client>>

NotExecuted(p) ==
  told' = [told EXCEPT ![p] =
    IF p \in ledger.restored /\ Rule("a restored transaction never ends as not executed")
    THEN "UNKNOWN" ELSE "NO"]

CancelQueued(p) ==
  /\ p \in Queued
  /\ ledger' = [ledger EXCEPT !.state[p] = "DONE"]
  /\ NotExecuted(p)
  /\ UNCHANGED <<chain, settled, bytes, backup, client>>

Final(p) ==
  /\ p \in Open
  /\ Settled(ledger.nonce[p])
  /\ LET b == At(ledger.nonce[p]) IN
       IF b \in ledger.attempts /\ b.for = p
         THEN /\ ledger' = [ledger EXCEPT !.state[p] = "DONE"]
              /\ told' = [told EXCEPT ![p] = "EXECUTED"]
       ELSE IF b \in ledger.attempts /\ b.for = 0
         THEN /\ ledger' = [ledger EXCEPT !.state[p] = "DONE"]
              /\ NotExecuted(p)
       ELSE /\ ledger' = [ledger EXCEPT !.state[p] = "LOST", !.protected = TRUE]
            /\ UNCHANGED told
  /\ UNCHANGED <<chain, settled, bytes, backup, client>>

(***************************************************************************)
(* PROTECT and decisions                                                   *)
(***************************************************************************)
Row(n) == ledger.table[n]

NotOurs(n) ==
  IF Mode = "MANAGED" THEN At(n) \notin ledger.attempts /\ n \notin ledger.gaps
  ELSE n >= ledger.cursor \/ Row(n).is = "RECYCLABLE"

Protect ==
  /\ ~ledger.protected
  /\ \E n \in Nonces : Included(n) /\ NotOurs(n)
  /\ ledger' = [ledger EXCEPT !.protected = TRUE]
  /\ UNCHANGED <<chain, settled, bytes, backup, told, client>>

\* A decision about a transaction that lost its nonce, once that is final.
Lost(p) ==
  \/ ledger.state[p] = "LOST"
  \/ /\ ~Rule("a lost nonce is final before a decision")
     /\ p \in Open
     /\ Included(ledger.nonce[p])
     /\ At(ledger.nonce[p]) \notin ledger.attempts

Requeue(p) ==
  /\ Lost(p)
  /\ ledger' = [ledger EXCEPT !.state[p] = "QUEUED", !.nonce[p] = -1,
                              !.requeued = @ \cup {p}]
  /\ UNCHANGED <<chain, settled, bytes, backup, told, client>>

Fail(p) ==
  /\ Lost(p)
  /\ ledger' = [ledger EXCEPT !.state[p] = "DONE"]
  /\ NotExecuted(p)
  /\ UNCHANGED <<chain, settled, bytes, backup, client>>

\* RESUME and ALIGN: the operator has compared a restored queue with the chain, and dropped what was
\* signed before. Clients whose reservations were lost have stopped, and what they signed is
\* settled. Each skipped nonce is recorded.
Compared == \A p \in Queued \cap ledger.restored : \A b \in bytes : b.for # p

Stray == {r \in Intents : client[r].nonce # -1 /\ Row(client[r].nonce).by # r}
Stopped == \A r \in Stray :
  /\ client[r].did # "holding"
  /\ client[r].did = "signed" => Settled(client[r].nonce)

Known(n) == Row(n).is # "FREE" \/ \E b \in ledger.attempts : b.nonce = n

ExitProtect ==
  /\ ledger.protected
  /\ \A p \in Intents : ledger.state[p] # "LOST"
  /\ Mode = "MANAGED" /\ Rule("a restored queue is compared with the chain") => Compared
  /\ Mode = "EXTERNAL" /\ Rule("the holders of lost nonces stop first") => Stopped
  /\ LET to == IF Len(chain) > ledger.cursor THEN Len(chain) ELSE ledger.cursor IN
       ledger' = [ledger EXCEPT
         !.protected = FALSE,
         !.cursor = to,
         !.gaps = @ \cup {n \in Nonces : n < to /\ ~Known(n)}
                    \cup {n \in Nonces : Included(n) /\ NotOurs(n)}]
  /\ UNCHANGED <<chain, settled, bytes, backup, told, client>>

\* Another rule in use: the next nonce is the greatest of ledger, cache and chain.
Follow ==
  /\ ~Rule("only a decision moves the cursor")
  /\ Len(chain) > ledger.cursor
  /\ ledger' = [ledger EXCEPT !.cursor = Len(chain)]
  /\ UNCHANGED <<chain, settled, bytes, backup, told, client>>

Save ==
  /\ Restore
  /\ backup.is = "none"
  /\ backup' = [is |-> "taken", ledger |-> ledger]
  /\ UNCHANGED <<chain, settled, bytes, ledger, told, client>>

RestoreBackup ==
  /\ backup.is = "taken"
  /\ ledger' = [backup.ledger EXCEPT
       !.protected = TRUE,
       !.restored = {p \in Intents : backup.ledger.state[p] # "DONE"}]
  /\ backup' = [is |-> "restored", ledger |-> Empty]
  /\ told' = [p \in Intents |-> IF backup.ledger.state[p] = "DONE" THEN told[p] ELSE "UNKNOWN"]
  /\ UNCHANGED <<chain, settled, bytes, client>>

Managed ==
  \/ Allocate \/ Follow
  \/ \E p \in Intents : Replace(p) \/ CancelQueued(p) \/ Final(p) \/ Requeue(p) \/ Fail(p)
  \/ \E p, q \in Intents : Renumber(p, q)

(***************************************************************************)
(* EXTERNAL: a reservation r holds a nonce of the table                    *)
(***************************************************************************)
Set(n, is) == ledger' = [ledger EXCEPT !.table[n].is = is]
Unsettled == {n \in Nonces : Row(n).is \in {"RESERVED", "PENDING"}}

\* What may be handed out: the lowest recyclable nonce, else the cursor.
Recyclable == {n \in Nonces :
  /\ Rule("a nonce used on chain is not reserved again") => ~Included(n)
  /\ \/ Row(n).is = "RECYCLABLE"
     \/ ~Rule("only a recyclable nonce is reserved again") /\ Row(n).is = "PENDING"}
Lowest(set) == CHOOSE n \in set : \A m \in set : n <= m

Reserve(r) ==
  /\ client[r].did = "none"
  /\ \A q \in Intents : q < r => client[q].did # "none"
  /\ ~ledger.protected
  /\ Cardinality(Unsettled) < Limit
  /\ LET n == IF Recyclable # {} THEN Lowest(Recyclable) ELSE ledger.cursor IN
       /\ n \in Nonces
       /\ ledger' = [ledger EXCEPT !.table[n] = [is |-> "RESERVED", by |-> r],
                                   !.cursor = IF n = @ THEN @ + 1 ELSE @]
       /\ client' = [client EXCEPT ![r] = [did |-> "holding", nonce |-> n]]
  /\ UNCHANGED <<chain, settled, bytes, backup, told>>

\* The client signs and keeps the bytes, or sends them itself; it can stop at any point.
SignOutside(r) ==
  /\ client[r].did = "holding"
  /\ client' = [client EXCEPT ![r].did = "signed"]
  /\ bytes' = bytes \cup {Pay(r, client[r].nonce)}
  /\ UNCHANGED <<chain, settled, ledger, backup, told>>

GiveUp(r) ==
  /\ client[r].did = "holding"
  /\ client' = [client EXCEPT ![r].did = "never signed"]
  /\ UNCHANGED <<chain, settled, bytes, ledger, backup, told>>

Mine(r) ==
  Rule("a reservation changes only the nonce it holds") => Row(client[r].nonce).by = r

\* RecordNonceHash, at any time: after expiry and after a takeover too.
Report(r) ==
  /\ client[r].did = "signed"
  /\ Mine(r)
  /\ Row(client[r].nonce).is \in {"RESERVED", "PENDING"}
  /\ ledger' = [ledger EXCEPT
       !.hashes = @ \cup {Pay(r, client[r].nonce)},
       !.table[client[r].nonce].is =
         IF Rule("a report of a send is no evidence") THEN "PENDING" ELSE "ACCEPTED"]
  /\ UNCHANGED <<chain, settled, bytes, backup, told, client>>

\* ReleaseNonce with never_signed. The call may be repeated, and may come late.
ReleaseNonce(r) ==
  /\ \/ client[r].did = "never signed"
     \/ ~Rule("only a nonce that was never signed is released") /\ client[r].did = "signed"
  /\ Mine(r)
  /\ Row(client[r].nonce).is \in {"RESERVED", "PENDING"}
  /\ Set(client[r].nonce, "RECYCLABLE")
  /\ UNCHANGED <<chain, settled, bytes, backup, told, client>>

ExpireReservation(n) ==
  /\ Row(n).is = "RESERVED"
  /\ Set(n, IF Rule("an expired reservation is quarantined") THEN "PENDING" ELSE "RECYCLABLE")
  /\ UNCHANGED <<chain, settled, bytes, backup, told, client>>

\* The next nonce of a node's pool: it does not count bytes above a hole.
PendingNonce == CHOOSE n \in 0..(Len(chain) + Cardinality(bytes)) :
  /\ n >= Len(chain)
  /\ \A m \in Len(chain)..(n - 1) : \E b \in bytes : b.nonce = m
  /\ \A b \in bytes : b.nonce # n

Reconcile(n) ==
  /\ Row(n).is \in {"RESERVED", "PENDING", "RECYCLABLE"}
  /\ \/ /\ Settled(n) \/ (Included(n) /\ At(n) \in ledger.hashes)
        /\ Set(n, "ACCEPTED")
     \/ /\ ~Rule("a pool never frees a nonce")
        /\ Row(n).is = "PENDING"
        /\ PendingNonce <= n
        /\ Set(n, "RECYCLABLE")
  /\ UNCHANGED <<chain, settled, bytes, backup, told, client>>

\* An operator knows that nobody who holds the nonce signed, or ever will; or a cancel closes the
\* hole.
Decide(n) ==
  /\ Row(n).is = "PENDING"
  /\ \A r \in Intents : client[r].nonce = n => client[r].did = "never signed"
  /\ Set(n, "RECYCLABLE")
  /\ UNCHANGED <<chain, settled, bytes, backup, told, client>>

Fill(n) ==
  /\ Row(n).is = "PENDING"
  /\ Cancel(n) \notin ledger.attempts
  /\ Record(Cancel(n), ledger)
  /\ UNCHANGED <<chain, settled, backup, told, client>>

External ==
  \/ \E r \in Intents :
       Reserve(r) \/ SignOutside(r) \/ GiveUp(r) \/ Report(r) \/ ReleaseNonce(r)
  \/ \E n \in Nonces : ExpireReservation(n) \/ Reconcile(n) \/ Decide(n) \/ Fill(n)

Next ==
  \/ Include \/ Settle \/ Reorg \/ UseElsewhere
  \/ Protect \/ ExitProtect \/ Save \/ RestoreBackup
  \/ Mode = "MANAGED" /\ Managed
  \/ Mode = "EXTERNAL" /\ External

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* The laws                                                                *)
(***************************************************************************)
ExecutedOnce ==
  \A i, j \in 1..Len(chain) : chain[i].for = chain[j].for /\ chain[i].for # 0 => i = j

Executed == {chain[i].for : i \in 1..Len(chain)}
Truthful == \A p \in Intents :
  /\ told[p] = "NO" => p \notin Executed
  /\ told[p] = "EXECUTED" => \E i \in 1..settled : chain[i].for = p

\* Except for what an operator queued again, or brought back with a backup.
QueueOrder ==
  \A i, j \in 1..Len(chain) :
    /\ i < j
    /\ {chain[i].for, chain[j].for} \subseteq Intents \ (ledger.requeued \cup ledger.restored)
    /\ Mode = "MANAGED"
    => chain[i].for < chain[j].for

NoGap == \A n \in Nonces : n < ledger.cursor => n \in ledger.gaps \/ Known(n)

\* A nonce is signed for one payload, cancels apart.
OnePayloadPerNonce == \A a, b \in ledger.attempts \cup (IF Mode = "EXTERNAL" THEN bytes ELSE {}) :
  a.nonce = b.nonce /\ a.for # 0 /\ b.for # 0 => a = b

\* A nonce of the table ends only by what the chain says.
AcceptedWasIncluded == [][\A n \in Nonces :
  ledger'.table[n].is = "ACCEPTED" /\ ledger.table[n].is # "ACCEPTED" => Included(n)]_vars
=============================================================================
