------------------------------- MODULE Feed --------------------------------
(***************************************************************************)
(* Law L9: a reader of the feed receives every event once, and the events  *)
(* of one transaction in order.                                            *)
(*                                                                         *)
(* Database transactions take their numbers (xid) when they begin to       *)
(* write, and commit in any order. A reader remembers the snapshot of its  *)
(* last read, and a place within the events that it is reading. Crashes of *)
(* the server reuse numbers whose end was not on disk, and a fail-over to  *)
(* an asynchronous standby reuses those that it lost.                      *)
(*                                                                         *)
(* Rows are what Fencepost calls transactions; "xid" is always one of the  *)
(* database. Broken is the set of rules to leave out: see Feed.mutants.    *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  Rows,       \* transactions of Fencepost, whose moves write events
  MaxXid,     \* bounds the database transactions
  MaxCrash,   \* bounds the crashes of the server
  MaxPromote, \* bounds the fail-overs; at most 1
  Broken      \* the rules that are left out

VARIABLES
  next,       \* the next xid
  state,      \* of each xid: "none", "open", "committed", "aborted"
  durable,    \* xids below it are not used again after a crash
  lock,       \* the xid that holds each row; 0 is none
  events,     \* written events, committed or not
  timeline,   \* of the server, and the first xid that may differ from the timeline before
  crashes,
  reader,     \* the resume token of the reader
  read        \* what the reader received with tokens that still hold, in order

vars == <<next, state, durable, lock, events, timeline, crashes, reader, read>>

Rule(name) == name \notin Broken
Xids == 1..MaxXid
None == [xmax |-> 0, open |-> {}]

Max(set) == IF set = {} THEN 0 ELSE CHOOSE x \in set : \A y \in set : x >= y

\* What a snapshot of now sees.
Snapshot == [xmax |-> next, open |-> {x \in Xids : state[x] = "open"}]
Sees(snapshot, xid) == xid < snapshot.xmax /\ xid \notin snapshot.open

Start == [seen |-> None, until |-> None, after |-> 0, timeline |-> 1]

Init ==
  /\ next = 1
  /\ state = [x \in Xids |-> "none"]
  /\ durable = 1
  /\ lock = [r \in Rows |-> 0]
  /\ events = {}
  /\ timeline = [number |-> 1, begin |-> 0]
  /\ crashes = 0
  /\ reader = Start
  /\ read = <<>>

Committed(e) == state[e.xid] = "committed"
Version(r) == Max({e.seq : e \in {d \in events : d.row = r /\ Committed(d)}})
Event(r, x) == [row |-> r, xid |-> x, seq |-> Version(r) + 1, timeline |-> timeline.number]

(***************************************************************************)
(* Writers                                                                 *)
(***************************************************************************)
\* A move locks its row, sees the move before it, and only then takes its number.
Begin(r) ==
  /\ Rule("the row is locked before the number is taken")
  /\ next <= MaxXid
  /\ lock[r] = 0
  /\ next' = next + 1
  /\ state' = [state EXCEPT ![next] = "open"]
  /\ lock' = [lock EXCEPT ![r] = next]
  /\ events' = events \cup {Event(r, next)}
  /\ UNCHANGED <<durable, timeline, crashes, reader, read>>

\* The other order: an UPDATE that waits for a row already has its number.
Number ==
  /\ ~Rule("the row is locked before the number is taken")
  /\ next <= MaxXid
  /\ next' = next + 1
  /\ state' = [state EXCEPT ![next] = "open"]
  /\ UNCHANGED <<durable, lock, events, timeline, crashes, reader, read>>

LockAfter(r, x) ==
  /\ ~Rule("the row is locked before the number is taken")
  /\ state[x] = "open"
  /\ lock[r] = 0
  /\ \A e \in events : e.xid # x
  /\ lock' = [lock EXCEPT ![r] = x]
  /\ events' = events \cup {Event(r, x)}
  /\ UNCHANGED <<next, state, durable, timeline, crashes, reader, read>>

Release(x) == [r \in Rows |-> IF lock[r] = x THEN 0 ELSE lock[r]]

\* A commit of an event is on disk before others see it.
Commit(x) ==
  /\ state[x] = "open"
  /\ \E e \in events : e.xid = x
  /\ state' = [state EXCEPT ![x] = "committed"]
  /\ durable' = Max({durable, x + 1})
  /\ lock' = Release(x)
  /\ UNCHANGED <<next, events, timeline, crashes, reader, read>>

\* A rollback, or a transaction that only notifies: its number may not be on disk.
Abort(x) ==
  /\ state[x] = "open"
  /\ state' = [state EXCEPT ![x] = "aborted"]
  /\ lock' = Release(x)
  /\ events' = {e \in events : e.xid # x}
  /\ UNCHANGED <<next, durable, timeline, crashes, reader, read>>

\* The server goes on from an xid: everything from there on is gone.
GoOnFrom(first) ==
  /\ next' = first
  /\ state' = [x \in Xids |-> IF x >= first THEN "none"
                              ELSE IF state[x] = "open" THEN "aborted" ELSE state[x]]
  /\ events' = {e \in events : e.xid < first /\ state[e.xid] = "committed"}
  /\ lock' = [r \in Rows |-> 0]
  /\ UNCHANGED reader

Crash ==
  /\ crashes < MaxCrash
  /\ crashes' = crashes + 1
  /\ GoOnFrom(durable)
  /\ UNCHANGED <<durable, timeline, read>>

\* An asynchronous standby is promoted, which has everything below some xid.
Promote ==
  /\ timeline.number <= MaxPromote
  /\ \E first \in 1..durable :
       /\ GoOnFrom(first)
       /\ durable' = first
       /\ timeline' = [number |-> timeline.number + 1, begin |-> first]
  /\ UNCHANGED <<crashes, read>>

(***************************************************************************)
(* The reader                                                              *)
(***************************************************************************)
End(p) == Max({p.seen.xmax, p.until.xmax})

\* Whether a token lies before the end of the feed; see Head.Holds in store/position.go.
Holds(p) ==
  /\ End(p) <= next
  /\ \/ p.timeline = timeline.number
     \/ p.timeline = timeline.number - 1 /\ End(p) <= timeline.begin

\* A token that does not hold is refused, and the reader begins anew.
Refuse ==
  /\ Rule("a token of a lost timeline is refused")
  /\ ~Holds(reader)
  /\ reader' = [Start EXCEPT !.timeline = timeline.number]
  /\ read' = <<>>
  /\ UNCHANGED <<next, state, durable, lock, events, timeline, crashes>>

May == Rule("a token of a lost timeline is refused") => Holds(reader)

\* A settled snapshot: its end survives a crash. If the last number did not write an event, a record
\* is written that makes everything before it durable.
ReadHead ==
  /\ May
  /\ reader.until = None
  /\ reader.seen # Snapshot
  /\ reader' = [reader EXCEPT !.until = Snapshot, !.after = 0,
                              !.timeline = timeline.number]
  /\ \/ /\ durable >= next \/ ~Rule("a snapshot is settled before it is used")
        /\ UNCHANGED <<next, state, durable>>
     \/ /\ durable < next
        /\ Rule("a snapshot is settled before it is used")
        /\ next <= MaxXid
        /\ state' = [state EXCEPT ![next] = "aborted"]
        /\ next' = next + 1
        /\ durable' = next + 1
  /\ UNCHANGED <<lock, events, timeline, crashes, read>>

New(e) ==
  /\ Committed(e)
  /\ Sees(reader.until, e.xid)
  /\ IF Rule("a snapshot says what was read")
     THEN ~Sees(reader.seen, e.xid)
     ELSE e.xid >= reader.seen.xmax \* "after the last one"
  /\ e.xid > reader.after

\* A page holds one event, so that every place within a read is tried.
Page ==
  /\ May
  /\ reader.until # None
  /\ IF \E e \in events : New(e)
     THEN LET e == CHOOSE e \in events :
                     New(e) /\ \A d \in events : New(d) => e.xid <= d.xid
          IN /\ read' = Append(read, e)
             /\ reader' = [reader EXCEPT !.after = e.xid]
     ELSE /\ reader' = [reader EXCEPT !.seen = reader.until, !.until = None, !.after = 0]
          /\ UNCHANGED read
  /\ UNCHANGED <<next, state, durable, lock, events, timeline, crashes>>

\* The reader goes on with its token, on any node.
Resume ==
  /\ ~Rule("a token holds the place within a read")
  /\ reader.until # None
  /\ reader' = [reader EXCEPT !.until = None, !.after = 0]
  /\ UNCHANGED <<next, state, durable, lock, events, timeline, crashes, read>>

Next ==
  \/ \E r \in Rows : Begin(r) \/ (\E x \in Xids : LockAfter(r, x))
  \/ Number
  \/ \E x \in Xids : Commit(x) \/ Abort(x)
  \/ Crash \/ Promote
  \/ Refuse \/ ReadHead \/ Page \/ Resume

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* The law                                                                 *)
(***************************************************************************)
Received == {read[i] : i \in 1..Len(read)}

\* Whatever the snapshot of the token says was read, was.
NothingMissed ==
  Holds(reader) =>
    \A e \in events : Committed(e) /\ Sees(reader.seen, e.xid) => e \in Received

NothingTwice == \A i, j \in 1..Len(read) : read[i] = read[j] => i = j

\* Nothing is received that is not in the ledger, as long as the token holds.
NothingElse == Holds(reader) => \A e \in Received : e \in events /\ Committed(e)

InOrder == \A i, j \in 1..Len(read) :
  i < j /\ read[i].row = read[j].row => read[i].seq < read[j].seq
=============================================================================
