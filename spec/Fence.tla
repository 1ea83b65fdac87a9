------------------------------- MODULE Fence -------------------------------
(***************************************************************************)
(* Laws L1 to L4: one writer per submitter, no late write, recorded before *)
(* sent, one nonce for one signed transaction.                             *)
(*                                                                         *)
(* One submitter, some nodes, one database. Every step of a node can come  *)
(* arbitrarily late, so a node that is frozen, slow or cut off needs no    *)
(* action of its own: it is one whose next step does not come. A database  *)
(* transaction lives on the server, also when its client has given up.     *)
(*                                                                         *)
(* Broken is the set of rules to leave out. Every rule is needed:          *)
(* Fence.mutants lists what breaks without it, and `make spec` checks it.  *)
(***************************************************************************)
EXTENDS Integers, Sequences, TLC

CONSTANTS
  Nodes,     \* names of nodes
  MaxToken,  \* bounds the takeovers
  MaxNonce,  \* bounds the nonces that are taken
  Broken     \* the rules that are left out

VARIABLES
  lease,     \* the row of submitter_lease: owner, token, and whether it is unexpired
  cursor,    \* next_nonce, as committed
  attempts,  \* signed bytes that are committed
  late,      \* writes that committed after a takeover to a higher token
  server,    \* transactions under way on the server
  node,      \* what each node knows
  sent       \* bytes that were given to an endpoint

vars == <<lease, cursor, attempts, late, server, node, sent>>

None == "none"
Rule(name) == name \notin Broken

\* Bytes of two signings always differ, since fees change. An owner signs a second time for one
\* nonce under one token only if it takes an unknown commit for a failure.
Bytes(n, nonce) == [node |-> n, token |-> node[n].token, again |-> node[n].again, nonce |-> nonce]

Idle == [at |-> "idle", token |-> 0, again |-> FALSE, bytes |-> None]
Owner(token) == [Idle EXCEPT !.at = "owner", !.token = token]

Init ==
  /\ lease = [owner |-> None, token |-> 0, live |-> FALSE]
  /\ cursor = 0
  /\ attempts = {}
  /\ late = {}
  /\ server = {}
  /\ node = [n \in Nodes |-> Idle]
  /\ sent = {}

\* FOR KEY SHARE: a takeover changes the token, which is a key column, and waits for the lock.
Locked == \E x \in server : x.locked

(***************************************************************************)
(* The lease                                                               *)
(***************************************************************************)
Expire ==
  /\ lease.live
  /\ lease' = [lease EXCEPT !.live = FALSE]
  /\ UNCHANGED <<cursor, attempts, late, server, node, sent>>

Renew(n) ==
  /\ node[n].at # "idle"
  /\ lease.owner = n
  /\ lease.token = node[n].token
  /\ ~lease.live
  /\ lease' = [lease EXCEPT !.live = TRUE]
  /\ UNCHANGED <<cursor, attempts, late, server, node, sent>>

\* An owner acquires its own lease anew after an unknown commit, expired or not.
Acquire(n) ==
  /\ node[n].at = "idle"
  /\ lease.token < MaxToken
  /\ ~lease.live \/ lease.owner = n
  /\ Rule("a takeover waits for the lock") => ~Locked
  /\ lease' = [owner |-> n, token |-> lease.token + 1, live |-> TRUE]
  /\ node' = [node EXCEPT ![n] = Owner(lease.token + 1)]
  /\ UNCHANGED <<cursor, attempts, late, server, sent>>

(***************************************************************************)
(* One step of an owner: read, sign, commit, send                          *)
(***************************************************************************)
\* Reads are not fenced: what they lead to is.
Sign(n) ==
  /\ node[n].at = "owner"
  /\ cursor < MaxNonce
  /\ node' = [node EXCEPT ![n].at = "signed",
                          ![n].bytes = Bytes(n, cursor)]
  /\ UNCHANGED <<lease, cursor, attempts, late, server, sent>>

\* The statement reaches the server. It may run long after.
Submit(n) ==
  /\ node[n].at = "signed"
  /\ server' = server \cup {[owner |-> n, token |-> node[n].token, bytes |-> node[n].bytes,
                             locked |-> FALSE, checked |-> FALSE]}
  /\ node' = [node EXCEPT ![n].at = "waiting"]
  /\ UNCHANGED <<lease, cursor, attempts, late, sent>>

\* Its first step selects and locks the row of the lease. The mutant is a check in a statement of
\* its own, `SELECT ... WHERE token = mine`, before the write.
Check(x) ==
  /\ ~x.checked
  /\ lease.owner = x.owner
  /\ lease.live
  /\ Rule("the token is compared") => lease.token = x.token
  /\ server' = (server \ {x}) \cup
       {[x EXCEPT !.checked = TRUE, !.locked = Rule("the check locks the row")]}
  /\ UNCHANGED <<lease, cursor, attempts, late, node, sent>>

Fenced(x) ==
  /\ ~x.checked
  /\ lease.owner # x.owner \/ lease.token # x.token \/ ~lease.live
  /\ server' = server \ {x}
  /\ UNCHANGED <<lease, cursor, attempts, late, node, sent>>

\* The write takes the nonce only if it is the next one.
Commit(x) ==
  /\ x.checked
  /\ Rule("the nonce is the next one") => x.bytes.nonce = cursor
  /\ server' = server \ {x}
  /\ attempts' = attempts \cup {x.bytes}
  /\ cursor' = x.bytes.nonce + 1
  /\ late' = IF x.token < lease.token THEN late \cup {x.bytes} ELSE late
  /\ UNCHANGED <<lease, node, sent>>

\* An error, or the server has ended the session.
Abort(x) ==
  /\ server' = server \ {x}
  /\ UNCHANGED <<lease, cursor, attempts, late, node, sent>>

Under(n) == {x \in server : x.bytes = node[n].bytes}

\* The reply to a commit, which says what happened.
Reply(n) ==
  /\ node[n].at = "waiting"
  /\ Under(n) = {}
  /\ node' = [node EXCEPT ![n] = IF node[n].bytes \in attempts
                                 THEN [@ EXCEPT !.at = "committed"] ELSE Idle]
  /\ UNCHANGED <<lease, cursor, attempts, late, server, sent>>

\* Time out, a cut connection, a crash of the node. Unknown is not failure: the node gives up what
\* it knows, and acquires the lease again.
NoReply(n) ==
  /\ node[n].at = "waiting"
  /\ node' = [node EXCEPT ![n] =
       IF ~Rule("an unknown commit is not a success") THEN [@ EXCEPT !.at = "committed"]
       ELSE IF ~Rule("an unknown commit is not a failure") 
         THEN [@ EXCEPT !.at = "owner", !.again = TRUE]
       ELSE Idle]
  /\ UNCHANGED <<lease, cursor, attempts, late, server, sent>>

Send(n) ==
  /\ \/ node[n].at = "committed"
     \/ ~Rule("recorded before sent") /\ node[n].at \in {"signed", "waiting"}
  /\ sent' = sent \cup {node[n].bytes}
  /\ node' = [node EXCEPT ![n].at = IF @ = "committed" THEN "owner" ELSE @]
  /\ UNCHANGED <<lease, cursor, attempts, late, server>>

\* A new owner sends again what it reads in the ledger; so may an old one that does not know yet.
Resend(n) ==
  /\ node[n].at = "owner"
  /\ \E b \in attempts \ sent : sent' = sent \cup {b}
  /\ UNCHANGED <<lease, cursor, attempts, late, server, node>>

Crash(n) ==
  /\ node[n].at # "idle"
  /\ node' = [node EXCEPT ![n] = Idle]
  /\ UNCHANGED <<lease, cursor, attempts, late, server, sent>>

Next ==
  \/ Expire
  \/ \E n \in Nodes :
       \/ Renew(n) \/ Acquire(n) \/ Sign(n) \/ Submit(n) \/ Reply(n)
       \/ NoReply(n) \/ Send(n) \/ Resend(n) \/ Crash(n)
  \/ \E x \in server : Check(x) \/ Fenced(x) \/ Commit(x) \/ Abort(x)

Spec == Init /\ [][Next]_vars

Symmetry == Permutations(Nodes)

(***************************************************************************)
(* The laws                                                                *)
(***************************************************************************)
NoLateWrite == late = {}

RecordedBeforeSent == sent \subseteq attempts

OneAttemptPerNonce == \A a, b \in attempts : a.nonce = b.nonce => a = b

NoGap == {a.nonce : a \in attempts} = 0..(cursor - 1)
=============================================================================
