package store

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/txn"
)

// lifeGroup is the number of transactions that go through their lives together, each of a separate
// submitter: the size of groups with hundreds of busy submitters.
const lifeGroup = 100

// BenchmarkLife takes transactions through their lives, a hundred per statement, and reports the
// processor time that PostgreSQL's session of fenced statements spends on each step. This is the
// statement's own time without concurrent work, which shows the effect of changed statements, laws
// and indexes on a busy machine too.
func BenchmarkLife(b *testing.B) {
	k := newKit(b, dbtest.WithoutGuard())
	s := k.open("a")
	f := crowd(k, s, 100_000)
	k.exec("ANALYZE managed_tx, submitter, submitter_lease, submitter_nonce_cursor")
	_, err := s.lanes[0].conn.connected(k.ctx)
	k.must(err)
	server := cpuClock(fmt.Sprintf("/proc/%d/schedstat", s.lanes[0].conn.conn.PgConn().PID()))
	steps := []string{"take", "pending", "included", "confirmed"}
	spent := map[string]float64{}
	wal := value[int64](k, walNow)
	for n := 0; b.Loop(); n++ {
		first := n * lifeGroup % len(f.ids)
		txs := f.queueEach(n, f.ids[first:first+lifeGroup])
		for _, step := range steps {
			group := make([]*commitJob, 0, lifeGroup)
			for i := range txs {
				change := f.step(step, &txs[i],
					txn.Nonce(100_000/len(f.ids)+n*lifeGroup/len(f.ids)))
				group = append(
					group,
					&commitJob{
						lease:  f.leases[first+i],
						change: change,
						ended:  make(chan struct{}),
					},
				)
			}
			before := server.read(b)
			if why := s.sendCommits(s.lanes[0].conn, group); why != nil {
				b.Fatal(why.err)
			}
			spent[step] += server.read(b) - before
			for _, job := range group {
				if job.outcome != Done {
					b.Fatal(step, job.outcome, job.err)
				}
			}
		}
	}
	lives := float64(b.N * lifeGroup)
	var all float64
	for _, step := range steps {
		b.ReportMetric(spent[step]/lives/1000, step+"-us/tx")
		all += spent[step] / lives / 1000
	}
	b.ReportMetric(all, "all-us/tx")
	b.ReportMetric(float64(value[int64](k, walNow)-wal)/lives, "wal-B/tx")
}

const walNow = "SELECT (pg_current_wal_insert_lsn() - '0/0')::BIGINT"

// queueEach queues one transaction for each of the submitters.
func (f *fleet) queueEach(n int, ids []txn.SubmitterID) []txn.Tx {
	f.t.Helper()
	intents := make([]Intent, len(ids))
	for i, id := range ids {
		request := fmt.Sprintf("life-%d-%d", n, i)
		intents[i] = Intent{Submitter: id, RequestID: request, Payload: payload(request)}
	}
	txs := make([]txn.Tx, len(ids))
	for i, a := range f.s.CreateTxs(f.ctx, intents) {
		f.must(a.Err)
		txs[i] = a.Info.Tx
	}
	return txs
}

// step is the next change of a transaction, which it carries out on the copy here as well.
func (f *fleet) step(name string, tx *txn.Tx, nonce txn.Nonce) (c txn.Change) {
	switch name {
	case "take":
		c = take(*tx, nonce)
	case "pending":
		c.Writes = []txn.Write{submitted(*tx)}
	case "included":
		c.Writes = []txn.Write{included(*tx, 9)}
	case "confirmed":
		c.Writes = []txn.Write{confirmed(*tx)}
	}
	*tx = after(*tx, c.Writes[0])
	return c
}

// cpuClock is the file with the processor time of a process.
type cpuClock string

func (c cpuClock) read(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile(string(c))
	if err != nil {
		b.Fatal(
			"this measures by the processor times of single processes, which Linux tells; run it "+
				"there: ",
			err)
	}
	ns, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return ns
}
