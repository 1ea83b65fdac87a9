package store

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

var (
	comment   = regexp.MustCompile(`--[^\n]*`)
	named     = regexp.MustCompile(`(?m)^-- name: (\w+) :\w+$`)
	lockWords = regexp.MustCompile(`(?i)\b(FOR|DO)\s+(NO\s+KEY\s+)?UPDATE\b`)
	writes    = regexp.MustCompile(
		`(?is)\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM|TRUNCATE|MERGE\s+INTO)\s+([a-z_]+)`)
	frozen = regexp.MustCompile(
		`(?i)\bnow\s*\(|\bCURRENT_(TIMESTAMP|TIME|DATE)\b|\bLOCALTIME(STAMP)?\b|` +
			`\b(transaction|statement)_timestamp\s*\(|'now'`)
	expiry = regexp.MustCompile(`(?i)expires_at\s*(<=|>=|<|>)\s*(\S+)`)
)

// statements are the queries of a folder by name, without comments.
func statements(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "queries", folder, "*.sql"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s (%v)", folder, err)
	}
	found := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := named.FindAllSubmatchIndex(text, -1)
		for i, m := range at {
			end := len(text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			found[string(text[m[2]:m[3]])] = comment.ReplaceAllString(string(text[m[1]:end]), "")
		}
	}
	return found
}

// written are the writes of a statement, as "VERB table".
func written(sql string) []string {
	var list []string
	for _, m := range writes.FindAllStringSubmatch(lockWords.ReplaceAllString(sql, ""), -1) {
		list = append(list, strings.ToUpper(strings.Join(strings.Fields(m[1]), " "))+" "+m[2])
	}
	slices.Sort(list)
	return list
}

// TestFencedStatements_StartFromFence: the lease is locked first, and each write is of a change
// that the fence let through.
func TestFencedStatements_StartFromFence(t *testing.T) {
	t.Parallel()
	sqls := statements(t, "fenced")
	for name, sql := range sqls {
		fence := strings.Index(sql, "FOR KEY SHARE OF l")
		first := writes.FindStringIndex(
			lockWords.ReplaceAllStringFunc(sql,
				func(s string) string { return strings.Repeat(" ", len(s)) }),
		)
		if fence < 0 || first == nil || fence > first[0] {
			t.Errorf("%s does not lock the lease before it writes", name)
			continue
		}
		head := sql[:fence]
		for _, must := range []string{"JOIN submitter_lease l", "l.fencing_token = c.fencing_token",
			"l.owner_node = @owner_node", "l.expires_at > clock_timestamp()"} {
			if !strings.Contains(head, must) {
				t.Errorf("the fence of %s lacks %q", name, must)
			}
		}
		ledger := regexp.MustCompile(`(?i)\b(FROM|JOIN)\s+(managed_tx|submitter_nonce_cursor|` +
			`tx_attempt|tx_event|submitter_command|external_nonce|nonce_request|nonce_hash)\b`)
		if ledger.MatchString(head) {
			t.Errorf("%s reads the ledger before the lease", name)
		}
		end := regexp.MustCompile(`\n\)(, \w+ AS (MATERIALIZED )?\()?`)
		for _, part := range end.Split(sql, -1) {
			if len(written(part)) > 0 && !strings.Contains(part, "FROM ok o") {
				t.Errorf("%s: a write is not of \"ok\": %s", name, part)
			}
		}
	}
	if len(sqls) != 3 {
		t.Errorf("%d fenced statements; a new one needs its own thought", len(sqls))
	}
}

// TestOpenStatements_WriteIntentsOnly: statements without a fence may write this and no more.
func TestOpenStatements_WriteIntentsOnly(t *testing.T) {
	t.Parallel()
	allowed := map[string][]string{
		"InsertTxs": {
			"INSERT INTO managed_tx",
			"INSERT INTO tx_approval",
			"INSERT INTO tx_event",
			"INSERT INTO tx_label",
			"UPDATE caller_usage",
		},
		// Of transactions that never had a nonce, and that no owner reads.
		"DecideApproval": {
			"DELETE FROM tx_approval",
			"INSERT INTO submitter_command",
			"INSERT INTO tx_event",
			"UPDATE managed_tx",
		},
		"ExpireApprovals": {
			"DELETE FROM tx_approval",
			"INSERT INTO tx_event",
			"UPDATE managed_tx",
		},
		// A checkpoint is no part of the ledger's state.
		"InsertCheckpoint": {"INSERT INTO audit_checkpoint"},
		// Balances and top-ups: a top-up is an intent.
		"DecideTopUp":  {"INSERT INTO top_up"},
		"OpenBalances": {"INSERT INTO account_balance"},
		"RecordLow":    {"INSERT INTO tx_event", "UPDATE account_balance"},
		"RecordHeld":   {"UPDATE account_balance"},
		// An operator's action, as the owner of the tables, on a top-up without a transaction.
		"VoidTopUp": {"INSERT INTO submitter_command", "UPDATE top_up"},
		// Quotas guard the queue, and no law rests on them.
		"OpenUsage": {"INSERT INTO caller_usage"},
		"CancelQueued": {
			"INSERT INTO submitter_command",
			"INSERT INTO tx_event",
			"UPDATE managed_tx",
		},
		"InsertCommand": {"INSERT INTO submitter_command"},
		// A refused ALLOCATE may be asked again; the guard of the tests knows what else is changed.
		"InsertNonceRequests": {"INSERT INTO nonce_request"},
		"InsertReserved": {
			"INSERT INTO managed_tx", "INSERT INTO signed_tx", "INSERT INTO tx_event",
		},
		"InsertSignedBytes": {"INSERT INTO signed_tx"},
		"AcquireLeases":     {"UPDATE submitter_lease"},
		"AcquireLease":      {"UPDATE submitter_lease"},
		"RenewLeases":       {"UPDATE submitter_lease"},
		"ReleaseLeases":     {"UPDATE submitter_lease"},
		"CapLeases":         {"UPDATE node", "UPDATE submitter_lease"},
		"RegisterChain":     {"INSERT INTO chain"},
		// A hint about fees, without which a broadcast is refused once more.
		"SavePoolRules":     {"INSERT INTO chain_pool_rules"},
		"RegisterSubmitter": {"INSERT INTO submitter", "INSERT INTO submitter_lease"},
		"SetStartFrom":      {"UPDATE submitter"},
		"InsertPool":        {"INSERT INTO pool"},
		"SetPoolMember":     {"INSERT INTO pool_member", "INSERT INTO submitter_command"},
		"SetPolicies": {
			"INSERT INTO submitter_command", "UPDATE submitter", "UPDATE submitter_lease",
		},
		// The directory of several ledgers is none itself; JoinDirectory is an operator's action.
		"ClaimAccount":  {"INSERT INTO directory_account"},
		"ClaimAccounts": {"INSERT INTO directory_account"},
		"AddLedger":     {"INSERT INTO directory_ledger"},
		"SetDirectory":  {"UPDATE ledger"},
		// So is AccountMove: TestMove.
		"BeginMove":          {"INSERT INTO directory_move"},
		"RedirectMove":       {"UPDATE directory_move"},
		"AdoptMove":          {"INSERT INTO directory_move"},
		"SealMove":           {"UPDATE directory_move"},
		"MovesAsked":         {"UPDATE ledger"},
		"FinishMove":         {"UPDATE directory_account", "UPDATE directory_move"},
		"ClaimArrival":       {"INSERT INTO directory_move", "UPDATE directory_account"},
		"SealLease":          {"UPDATE submitter_lease"},
		"SealSubmitter":      {"UPDATE submitter"},
		"KeepOldProgramsOut": {"UPDATE ledger"},
		"AddArrival":         {"INSERT INTO account_arrival"},
		// The table of nodes is no ledger: nothing that is right or wrong rests on it.
		"Heartbeat": {"DELETE FROM node", "INSERT INTO node"},
		"Leave":     {"DELETE FROM node"},
		// Recover is an operator's action on a ledger without running nodes: TestRecover.
		"RaiseFeedEpoch":  {"UPDATE ledger"},
		"RevokeLeases":    {"UPDATE submitter_lease"},
		"EndCommands":     {"UPDATE submitter_command"},
		"MarkRestored":    {"UPDATE managed_tx"},
		"VoidTopUps":      {"UPDATE top_up"},
		"PauseUnstarted":  {"INSERT INTO submitter_command", "UPDATE submitter"},
		"ProtectRestored": {"INSERT INTO submitter_command", "UPDATE submitter_nonce_cursor"},
	}
	sqls := statements(t, "open")
	for name, sql := range sqls {
		if got := written(sql); !slices.Equal(got, allowed[name]) {
			t.Errorf("%s writes %q, and may write %q", name, got, allowed[name])
		}
	}
	for name := range allowed {
		if sqls[name] == "" {
			t.Errorf("there is no statement %s", name)
		}
	}
	columns := regexp.MustCompile(`INSERT INTO managed_tx \(([^)]*)\)`).FindStringSubmatch(
		sqls["InsertTxs"])
	if columns == nil ||
		regexp.MustCompile(`\b(state|nonce|version|fencing_token)\b`).MatchString(columns[1]) {
		t.Errorf("InsertTxs chooses what the table chooses for a queued transaction: %v", columns)
	}
	if !strings.Contains(sqls["InsertTxs"], "nextval('queue_seq')             AS queue_seq,") ||
		!strings.Contains(sqls["InsertTxs"], "i.queue_seq, NULLIF(") {
		t.Error("InsertTxs does not draw its places in the queue from the sequence")
	}
	if queued := strings.Index(sqls["CancelQueued"], "t.state = 'QUEUED'"); queued < 0 ||
		!strings.Contains(sqls["CancelQueued"][queued:], "FOR NO KEY UPDATE") {
		t.Error("CancelQueued does not lock a queued transaction before it writes")
	}
	sets := regexp.MustCompile(`(?s)SET (.*?)\n? WHERE`).FindStringSubmatch(sqls["SetStartFrom"])
	if sets == nil || sets[1] != "start_from = @start_from" {
		t.Errorf("SetStartFrom sets %q", sets)
	}
	for name, raises := range map[string]bool{"AcquireLeases": true, "AcquireLease": true,
		"RenewLeases": false, "ReleaseLeases": false} {
		if strings.Contains(sqls[name], "fencing_token = l.fencing_token + 1") != raises ||
			!raises && strings.Contains(sqls[name], "SET fencing_token") {
			t.Errorf("%s: raises the token is not %v", name, raises)
		}
	}
}

// TestArchiveStatements_WriteBehindLease: they write listed tables, and lock the lease first.
func TestArchiveStatements_WriteBehindLease(t *testing.T) {
	t.Parallel()
	lease := []string{"UPDATE archive_lease"}
	allowed := map[string][]string{
		"AcquireArchive": lease, "RenewArchive": lease, "ReleaseArchive": lease,
		"ArchiveStart": {"UPDATE ledger"}, "RaiseTrimmed": {"UPDATE ledger"},
		"RemoveArchived": {"DELETE FROM tx_event", "DELETE FROM tx_label", "UPDATE managed_tx"},
		"RemoveRequests": {"DELETE FROM nonce_request"},
	}
	fencedOnes := []string{"RaiseTrimmed", "RemoveArchived", "RemoveRequests"}
	for name, sql := range statements(t, "archive") {
		if got := written(sql); !slices.Equal(got, allowed[name]) {
			t.Errorf("%s writes %q, and may write %q", name, got, allowed[name])
		}
		fence := strings.Index(sql, "FOR KEY SHARE OF l")
		if fenced := slices.Contains(fencedOnes, name); fenced != (fence >= 0) ||
			fenced && len(written(sql[:fence])) > 0 {
			t.Errorf("%s: locks the lease before it writes is not %t", name, fenced)
		}
	}
}

// TestStatements_Time_DatabaseClock: no statement uses the start time of its transaction, and
// expiry is decided by the current time.
func TestStatements_Time_DatabaseClock(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir(
		filepath.Join("..", "queries"),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".sql" {
				return err
			}
			files++
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sql := comment.ReplaceAllString(string(text), "")
			if m := frozen.FindString(sql); m != "" {
				t.Errorf("%s says %q; use clock_timestamp()", path, m)
			}
			for _, m := range expiry.FindAllStringSubmatch(sql, -1) {
				if !strings.HasPrefix(m[2], "clock_timestamp()") {
					t.Errorf("%s compares expires_at with %s", path, m[2])
				}
			}
			return nil
		},
	)
	if err != nil || files < 8 {
		t.Fatalf("%d files, %v", files, err)
	}
}

// TestStatementChecks_Mistake_Detected: the patterns above find the mistakes that they are for.
func TestStatementChecks_Mistake_Detected(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"expires_at > now()", "x = CURRENT_TIMESTAMP", "NOW ( )",
		"SELECT transaction_timestamp()", "'now'::TIMESTAMPTZ"} {
		if !frozen.MatchString(sql) {
			t.Errorf("%q is not seen", sql)
		}
	}
	got := written(
		"WITH a AS (UPDATE x SET y = 1), b AS (SELECT 1 FOR NO KEY UPDATE OF z), c AS (insert\n " +
			"into d VALUES (1) ON CONFLICT DO UPDATE SET e = 1) DELETE FROM f")
	if want := []string{"DELETE FROM f", "INSERT INTO d", "UPDATE x"}; !slices.Equal(got, want) {
		t.Errorf("written %q, want %q", got, want)
	}
}

// TestSQL_OnlyInStore: the generated queries, fenced ones among them, are imported by this package
// and no other.
func TestSQL_OnlyInStore(t *testing.T) {
	t.Parallel()
	importers := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() &&
			(name == "node_modules" || name == ".git" || name == ".cache") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return nil // not finished, or not Go: no importer of ours
		}
		for _, spec := range file.Imports {
			if imported, _ := strconv.Unquote(spec.Path.Value); strings.HasSuffix(imported,
				"/store/internal/db") {
				importers[filepath.Dir(path)] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(maps.Keys(importers)); !slices.Equal(got,
		[]string{filepath.Join("..", "store")}) {
		t.Fatalf("imported by %q", got)
	}
}

// TestFence_UniqueIndex_Exists: without it FOR KEY SHARE fences nothing
// (TestFence_OpenCommit_TakeoverWaits shows that).
func TestFence_UniqueIndex_Exists(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	keys := value[int](
		k,
		`SELECT count(*) FROM pg_index i
		  WHERE i.indrelid = 'submitter_lease'::REGCLASS AND i.indisunique AND i.indisvalid
		    AND i.indpred IS NULL AND i.indexprs IS NULL
		    AND EXISTS (SELECT FROM pg_attribute a
		                 WHERE a.attrelid = i.indrelid AND a.attname = 'fencing_token'
		                   AND a.attnum = ANY(i.indkey))`,
	)
	if keys != 1 {
		t.Fatalf("%d unique indexes make fencing_token a key column, want 1", keys)
	}
	indexes := []string{"managed_tx_in_flight", "managed_tx_nonce", "managed_tx_request",
		"tx_attempt_hash"}
	if n := value[int](k, `SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE i.indisunique AND c.relname = ANY($1)
		  AND c.relnamespace = $2::TEXT::REGNAMESPACE`, indexes, k.db.Schema); n != 4 {
		t.Fatalf("%d of the 4 unique indexes that hold the laws are there", n)
	}
}

// TestStates_MatchDatabase compares the constraints with the lists in txn.
func TestStates_MatchDatabase(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	quoted := regexp.MustCompile(`'([A-Z_]*)'`)
	allowed := func(column string) []string {
		def := value[string](
			k,
			`SELECT pg_get_constraintdef(c.oid) FROM pg_constraint c
			  WHERE c.contype = 'c' AND c.conname = $1
			    AND c.connamespace = $2::TEXT::REGNAMESPACE`,
			column,
			k.db.Schema,
		)
		var list []string
		for _, m := range quoted.FindAllStringSubmatch(def, -1) {
			list = append(list, m[1])
		}
		slices.Sort(list)
		return list
	}
	compare := func(constraint string, want ...string) {
		t.Helper()
		slices.Sort(want)
		if got := allowed(constraint); !slices.Equal(got, want) {
			t.Errorf("%s allows %q, txn has %q", constraint, got, want)
		}
	}
	compare("managed_tx_state", texts(txn.States)...)
	compare("managed_tx_sub_state_check", texts(txn.Subs)...)
	compare(
		"managed_tx_executed_check",
		texts([]txn.Executed{txn.Unknown, txn.No, txn.Success, txn.Reverted})...)
	compare(
		"tx_attempt_kind_check",
		texts([]txn.AttemptKind{txn.Original, txn.Bump, txn.Cancel})...)
	compare("submitter_command_kind", texts(txn.CommandKinds)...)
	compare("submitter_status_check", texts([]txn.SubmitterStatus{txn.Active, txn.Paused})...)
	compare("submitter_mode_check", texts(txn.Modes)...)
	compare("external_nonce_state", texts(txn.NonceStates)...)
	compare("nonce_request_kind", texts(txn.NonceRequestKinds)...)
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// TestMoves_MatchDatabase tries every change of state on the trigger, and reads its list besides.
func TestMoves_MatchDatabase(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	legal := map[[2]txn.State]bool{}
	for _, m := range txn.Moves {
		for _, from := range m.From {
			for _, to := range m.To {
				if from != to && txn.Legal(m.Kind, from, to) {
					legal[[2]txn.State{from, to}] = true
				}
			}
		}
	}
	k.exec("CREATE TABLE any_state (tx_id TEXT, version BIGINT, state TEXT)")
	trigger := value[string](k,
		"SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'move_is_legal' AND "+
			"tgrelid = 'managed_tx'::REGCLASS")
	k.exec(regexp.MustCompile(`ON \S*managed_tx `).ReplaceAllString(trigger, "ON any_state "))
	for _, from := range txn.States {
		for _, to := range txn.States {
			row := fmt.Sprint(from, to)
			k.exec("INSERT INTO any_state VALUES ($1, 1, $2)", row, from)
			_, err := k.db.Pool.Exec(k.ctx,
				"UPDATE any_state SET state = $2, version = 2 WHERE tx_id = $1", row, to)
			if want := legal[[2]txn.State{from, to}] || from == to; want != (err == nil) {
				t.Errorf("%s to %s: the trigger says %v, txn says legal is %v", from, to, err, want)
			}
		}
	}
	list := regexp.MustCompile(
		`old\.state = '[A-Z_]+'::text\) AND \(new\.state = '[A-Z_]+'::text`).FindAllString(
		trigger,
		-1,
	)
	if len(list) != len(legal) {
		t.Errorf("the trigger lists %d moves, txn has %d", len(list), len(legal))
	}
	for name, sql := range map[string]string{
		"a version falls": "UPDATE any_state SET version = 0",
		"a version jumps": "UPDATE any_state SET version = version + 2",
		"a state moves by the way": "UPDATE any_state SET state = 'CANCELLED' WHERE state = " +
			"'QUEUED'",
		"final states change in time": "UPDATE any_state SET state = 'TRACKING', version = " +
			"version + 1 WHERE state = 'CONFIRMED'",
	} {
		if _, err := k.db.Pool.Exec(k.ctx, sql); err == nil {
			t.Errorf("%s, and the trigger lets it", name)
		}
	}
}
