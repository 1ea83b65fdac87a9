package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/cmd/load"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// The raw tables have the columns, constraints, indexes and free space of the ledger's, and no
// triggers.
var rawTables = []string{
	"CREATE TABLE raw_tx (LIKE managed_tx INCLUDING " +
		"ALL)", "ALTER TABLE raw_tx SET (fillfactor = 50)", "CREATE TABLE raw_event (LIKE " +
		"tx_event INCLUDING ALL)",
}

func (l *ledger) makeRaw(ctx context.Context) error {
	for _, statement := range rawTables {
		if _, err := l.conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("make the raw tables: %w", err)
		}
	}
	return nil
}

const rawInsert = `INSERT INTO raw_tx (submitter_id, tx_id, request_id, request_hash, ` +
	`to_address, value, data, gas_limit) VALUES ($1, $2, $3, $4, $5, 1, '', 21000)`

const rawBatch = `INSERT INTO raw_tx (submitter_id, tx_id, request_id, request_hash, to_address,
  value, data, gas_limit)
SELECT s, t, r, $4, $5, 1, '', 21000 FROM unnest($1::INT[], $2::UUID[], $3::TEXT[]) AS i(s, t, r)`

const rawBatchNotify = `WITH q AS (` + rawBatch + ` RETURNING submitter_id, tx_id)
INSERT INTO raw_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason, message)
  SELECT submitter_id, tx_id, 1, 'QUEUED', 'QUEUED', '', 'UNKNOWN', '', '' FROM q`

// rawRow are the arguments of a row that no other has.
func rawRow(n int) []any {
	return []any{n % 64, timedID(), fmt.Sprintf("bench-%d", n), make([]byte, 32), make([]byte, 20)}
}

// timedID is an id that begins with the time, as the ledger's do, in the form that costs pgx least.
func timedID() [16]byte { return uuid.Must(uuid.NewV7()) }

// atConnections repeats a statement on so many connections for a while, and returns how often it
// was done in a second.
func (l *ledger) atConnections(ctx context.Context, connections int, d time.Duration,
	do func(ctx context.Context, conn *pgx.Conn, n int) error) (float64, error) {
	conns := make([]*pgx.Conn, connections)
	for i := range conns {
		var err error
		if conns[i], err = pgx.Connect(ctx, l.url); err != nil {
			return 0, err
		}
		defer conns[i].Close(ctx)
		if err := do(ctx, conns[i], -1-i); err != nil { // prepares it
			return 0, err
		}
	}
	var (
		wg    sync.WaitGroup
		next  atomic.Int64
		done  atomic.Int64
		errs  = make([]error, connections)
		began = time.Now()
	)
	for i, conn := range conns {
		wg.Go(func() {
			for time.Since(began) < d && errs[i] == nil {
				if errs[i] = do(ctx, conn, int(next.Add(1))); errs[i] == nil {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return load.Rate(int(done.Load()), time.Since(began)), errors.Join(errs...)
}

// rawInserts measures single rows at 1, 16 and 64 connections, each row a commit of its own.
func rawInserts(ctx context.Context, b *bench) error {
	l, err := b.db.newLedger(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.makeRaw(ctx); err != nil {
		return err
	}
	var base, best float64 // request ids continue across measurements
	for _, connections := range []int{1, 16, 64} {
		base += 1e7
		rate, err := l.atConnections(
			ctx,
			connections,
			b.size.spell,
			func(ctx context.Context, conn *pgx.Conn, n int) error {
				_, err := conn.Exec(ctx, rawInsert, rawRow(int(base)+n)...)
				return err
			},
		)
		if err != nil {
			return fmt.Errorf("raw insert: %w", err)
		}
		best = max(best, rate)
		b.add(fmt.Sprintf("limit.insert.%d", connections), "rows/s", rate)
	}
	b.add("limit.insert.best", "rows/s", best)
	return nil
}

// rawBatches measures batches of a hundred rows: of transactions alone, and with the first event of
// each, which is the other row that an accepted one takes.
func rawBatches(ctx context.Context, b *bench) error {
	l, err := b.db.newLedger(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.makeRaw(ctx); err != nil {
		return err
	}
	var base int // request ids continue across measurements
	for _, kind := range []struct{ name, insert string }{
		{"limit.insert.batched", rawBatch}, {"limit.insert.batched.notify", rawBatchNotify},
	} {
		best := 0.0
		for _, connections := range batchCallers {
			base += 1e7
			before := postgresCPU(b.db.dir)
			rate, err := l.atConnections(
				ctx,
				connections,
				b.size.spell,
				func(ctx context.Context, conn *pgx.Conn, n int) error {
					return insertBatch(ctx, conn, kind.insert, (base+n)*batchSize)
				},
			)
			if err != nil {
				return fmt.Errorf("raw batched insert: %w", err)
			}
			b.add(fmt.Sprintf("%s.%d.cpu.postgres", kind.name, connections), "us/row",
				micros(postgresCPU(b.db.dir)-before)/(rate*batchSize*b.size.spell.Seconds()))
			best = max(best, rate*batchSize)
		}
		b.add(kind.name, "rows/s", best)
	}
	return nil
}

// Batches have a hundred rows, from one and from four callers, in the measurement and in the
// limit.
const batchSize = 100

var batchCallers = []int{1, 4}

func insertBatch(ctx context.Context, conn *pgx.Conn, insert string, from int) error {
	submitters := make([]int32, batchSize)
	ids := make([][16]byte,
		batchSize)
	requests := make([]string, batchSize)
	for i := range batchSize {
		submitters[i], ids[i] = int32(i%64), timedID()
		requests[i] = fmt.Sprintf("batch-%d", from+i)
	}
	_, err := conn.Exec(ctx, insert, submitters, ids, requests, make([]byte, 32), make([]byte, 20))
	return err
}

// The life of a transaction without constraints: an insert, three updates and five events.
var rawLife = []string{
	`WITH q AS (INSERT INTO raw_tx (submitter_id, tx_id, request_id, request_hash, to_address,
	  value, data, gas_limit)
	 SELECT s, t, t::TEXT, $3, $4, 1, '', 21000 FROM unnest($1::INT[], $2::UUID[]) AS i(s, t)
	   RETURNING submitter_id, tx_id)
	 INSERT INTO raw_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
	   message) SELECT submitter_id, tx_id, 1, 'QUEUED', 'QUEUED', '', 'UNKNOWN', '', '' FROM q`,
	`WITH q AS (UPDATE raw_tx r SET state = 'ALLOCATED', version = 2, nonce = $5::BIGINT,
	  tx_hash = $3, fencing_token = 1, updated_at = clock_timestamp()
	 FROM unnest($1::INT[], $2::UUID[]) AS i(s, t) WHERE r.submitter_id = s AND r.tx_id = t
	   RETURNING r.submitter_id, r.tx_id, $4::BYTEA)
	 INSERT INTO raw_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, tx_hash,
	   reason, message, fencing_token)
	 SELECT submitter_id, tx_id, 2, 'ALLOCATED', 'ALLOCATED', '', 'UNKNOWN', $3, '', '', 1 FROM q`,
	`WITH q AS (UPDATE raw_tx r SET state = 'TRACKING', sub_state = 'INCLUDED', version = 4,
	  receipt_tx_hash = $3, receipt_block = $5::BIGINT, receipt_block_hash = $3,
	 receipt_success = TRUE, receipt_gas_used = 21000, receipt_gas_price = 1,
	   released_at = clock_timestamp(), updated_at = clock_timestamp()
	 FROM unnest($1::INT[], $2::UUID[]) AS i(s, t) WHERE r.submitter_id = s AND r.tx_id = t
	   RETURNING r.submitter_id, r.tx_id, $4::BYTEA)
	 INSERT INTO raw_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, tx_hash,
	   receipt_tx_hash, receipt_block, receipt_block_hash, receipt_success,
	 receipt_gas_used, receipt_gas_price, reason, message, fencing_token)
	 SELECT submitter_id, tx_id, n, 'INCLUDED', 'TRACKING', 'INCLUDED', 'UNKNOWN', $3, $3, 7, $3,
	   TRUE, 21000, 1, '', '', 1 FROM q, generate_series(3, 4) n`,
	`WITH q AS (UPDATE raw_tx r SET state = 'CONFIRMED', sub_state = '', version = 5,
	  executed = 'SUCCESS', terminal_at = clock_timestamp(), updated_at = clock_timestamp()
	 FROM unnest($1::INT[], $2::UUID[]) AS i(s, t) WHERE r.submitter_id = s AND r.tx_id = t
	   RETURNING r.submitter_id, r.tx_id, $4::BYTEA, $5::BIGINT)
	 INSERT INTO raw_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, tx_hash,
	   reason, message, fencing_token)
	 SELECT submitter_id, tx_id, 5, 'CONFIRMED', 'CONFIRMED', '', 'SUCCESS', $3, '', '', 1 FROM q`,
}

// rawLifecycle measures how many such lives PostgreSQL takes, a hundred to a commit.
func rawLifecycle(ctx context.Context, b *bench) error {
	l, err := b.db.newLedger(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.makeRaw(ctx); err != nil {
		return err
	}
	best := 0.0
	for _, connections := range []int{1, 4} {
		began, err := l.measure(ctx)
		if err != nil {
			return err
		}
		rate, err := l.atConnections(
			ctx,
			connections,
			2*b.size.spell,
			func(ctx context.Context, conn *pgx.Conn, n int) error {
				return liveBatch(ctx, conn, int64(connections)<<32+int64(n)+1000)
			},
		)
		if err != nil {
			return fmt.Errorf("raw lifecycle: %w", err)
		}
		if ended, err := l.measure(ctx); err == nil && connections == 1 {
			d := ended.since(began)
			b.add("limit.lifecycle.wal", "bytes/tx",
				d.walBytes/d.commits*float64(len(rawLife))/batchSize)
		}
		best = max(best, rate*batchSize)
	}
	b.add("limit.lifecycle", "txs/s", best)
	return nil
}

// liveBatch takes a hundred transactions, of a hundred submitters, through their lives. The
// connection's own number keeps it apart from others.
func liveBatch(ctx context.Context, conn *pgx.Conn, nonce int64) error {
	submitters, ids := make([]int32, batchSize), make([][16]byte, batchSize)
	for i := range batchSize {
		submitters[i], ids[i] = int32(conn.PgConn().PID()%10000)*batchSize+int32(i), timedID()
	}
	for i, statement := range rawLife {
		args := []any{submitters, ids, uniqueHash(), make([]byte, 20), nonce}
		if i == 0 {
			args = args[:4]
		}
		if _, err := conn.Exec(ctx, statement, args...); err != nil {
			return err
		}
	}
	return nil
}

func uniqueHash() []byte {
	h := make([]byte, 32)
	_, _ = rand.Read(h) // never fails
	return h
}

// fsyncs measures how often a second a page reaches the disk where the database lies.
func fsyncs(_ context.Context, b *bench) error {
	f, err := os.Create(filepath.Join(b.db.dir, "fsync.probe"))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 8192)
	n := 0
	began := time.Now()
	for ; time.Since(began) < b.size.spell; n++ {
		if _, err := f.WriteAt(page, 0); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	b.add("limit.fsync", "1/s", load.Rate(n, time.Since(began)))
	return nil
}

// signings measures signatures of secp256k1 on one core.
func signings(_ context.Context, b *bench) error {
	key := chaintest.Key(0)
	digest := make([]byte, 32)
	n := 0
	began := time.Now()
	for ; time.Since(began) < b.size.spell; n++ {
		if _, err := crypto.Sign(digest, key); err != nil {
			return err
		}
	}
	b.add("limit.sign", "1/s", load.Rate(n, time.Since(began)))
	return nil
}

// bareService answers CreateTx and does nothing.
type bareService struct {
	pb.UnimplementedTxServiceServer
}

// CreateTx returns a transaction.
func (bareService) CreateTx(_ context.Context,
	r *pb.CreateTxRequest) (*pb.CreateTxResponse, error) {
	return &pb.CreateTxResponse{
		Tx: &pb.Tx{
			TxId:      uuid.NewString(),
			Submitter: r.GetSubmitter(),
			RequestId: r.GetRequestId(),
			Payload:   r.GetPayload(),
		},
		Created: true,
	}, nil
}

// bareGRPC measures calls with the same message to a service that does nothing.
func bareGRPC(ctx context.Context, b *bench) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pb.RegisterTxServiceServer(server, bareService{})
	go func() { _ = server.Serve(listener) }() // ends with Stop
	defer server.Stop()
	var conns []*grpc.ClientConn
	for range connections {
		conn, err := grpc.NewClient(listener.Addr().String(),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	for _, callers := range []int{1, 64} {
		done, err := load.Create(ctx, conns, load.Plan{
			Submitters: []string{
				"s0",
			}, Callers: callers, Duration: b.size.spell, Payload: transfer(), Prefix: "bare",
		})
		if err != nil {
			return err
		}
		b.add(fmt.Sprintf("limit.grpc.%d", callers), "calls/s", done.Rate())
	}
	return nil
}
