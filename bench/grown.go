package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/bench/internal/wire"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/txn"
)

// grown is a service on a ledger with a past. The first submitters are those that are busy; the
// others have the same past and nothing to do.
type grown struct {
	submitters int
	busy       int           // whose accounts the chain waits for, in lockstep
	stored     int           // final transactions, evenly of all submitters
	queued     int           // that wait on the first submitter
	period     time.Duration // between blocks; of lockstep at most
	lockstep   bool
	maxQueued  int // in all
}

// restBlocks follow the past on the chain: more than the audit depth.
const restBlocks = 64

func newGrown(ctx context.Context, b *bench, o grown) (s *service, err error) {
	s = &service{b: b}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.ledger, err = b.db.newLedger(ctx); err != nil {
		return s, err
	}
	each := (o.stored + o.submitters - 1) / o.submitters
	if s.chain, err = startChain(
		chainOptions{period: o.period, accounts: o.busy, lockstep: o.lockstep},
	); err != nil {
		return s, err
	}
	if s.keys, err = writeKeys(o.submitters, chaintest.Key); err != nil {
		return s, err
	}
	addresses := make([][]byte, o.submitters)
	for i := range addresses {
		a := s.keys.accounts[i]
		addresses[i] = a[:]
		s.chain.Begin(a, txn.Nonce(each))
		if i < o.busy {
			s.submitters = append(s.submitters, fmt.Sprintf("s%d", i))
		}
	}
	s.chain.MineEmpty(each + restBlocks)
	if err := s.ledger.fill(ctx, s.chain, addresses, each, o.queued); err != nil {
		return s, fmt.Errorf("fill a ledger: %w", err)
	}
	poll := max(o.period/10, 5*time.Millisecond)
	if o.lockstep {
		poll = o.period / 2
	}
	s.config = wire.Config{
		Chain:     s.chain.url,
		Poll:      poll,
		Lease:     10 * time.Second,
		MaxQueued: o.maxQueued,
	}
	return s, s.addNode(ctx)
}

// dropLast gives back the room that the last ledger takes on the disk.
func (d *database) dropLast(ctx context.Context) error {
	admin, err := pgx.Connect(ctx, d.server.URL("postgres"))
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	for _, statement := range []string{
		fmt.Sprintf("DROP DATABASE IF EXISTS bench_%d WITH (FORCE)", d.made), "CHECKPOINT",
	} {
		if _, err := admin.Exec(ctx, statement); err != nil {
			return fmt.Errorf("drop a ledger: %w", err)
		}
	}
	return nil
}

// fillChunk is how many transactions are filled in by one commit, so that the events of a ledger
// have as many numbers of commits as those that came about by work.
const (
	fillChunk      = 2000
	checkpointEach = 50 * fillChunk
)

// fill writes the rows that the engine would have left: a past in which each submitter had a
// transaction in each of the first blocks, and the queue of the first submitter. The triggers on
// moves are disabled, because nothing moves; all constraints hold.
func (l *ledger) fill(ctx context.Context, chain *chainNode, addresses [][]byte,
	each, queued int) error {
	for _, prepare := range []string{
		"SET synchronous_commit = off", "SET session_replication_role = replica",
	} {
		if _, err := l.conn.Exec(ctx, prepare); err != nil {
			return err
		}
	}
	hashes := make([][]byte, each+1)
	for i := range hashes {
		block, err := chain.BlockByNumber(ctx, uint64(i))
		if err != nil {
			return err
		}
		hashes[i] = block.Hash[:]
	}
	if _, err := l.conn.Exec(
		ctx, fillSubmitters, addresses, int64(benchChain), each, hashes[0],
	); err != nil {
		return err
	}
	if _, err := l.conn.Exec(
		ctx,
		"CREATE TEMP TABLE mined AS SELECT n - 1 AS number, hash FROM unnest($1::BYTEA[]) WITH "+
			"ORDINALITY AS h(hash, n)",
		hashes,
	); err != nil {
		return err
	}
	for from := 0; from < each*len(addresses); from += fillChunk {
		if from%checkpointEach == 0 {
			// or as much WAL as rows would lie about
			if _, err := l.conn.Exec(ctx, "CHECKPOINT"); err != nil {
				return err
			}
		}
		if _, err := l.conn.Exec(
			ctx, fillFinals, len(addresses), from, min(from+fillChunk, each*len(addresses))-1,
		); err != nil {
			return err
		}
	}
	for from := 0; from < queued; from += fillChunk {
		if _, err := l.conn.Exec(ctx, fillQueue, from, min(from+fillChunk, queued)-1); err != nil {
			return err
		}
	}
	for _, finish := range []string{
		"DROP TABLE mined", "RESET session_replication_role", "RESET synchronous_commit",
		"VACUUM (ANALYZE)", "CHECKPOINT",
	} {
		if _, err := l.conn.Exec(ctx, finish); err != nil {
			return err
		}
	}
	return nil
}

const (
	// $1 addresses, $2 the chain, $3 the next nonce of each, $4 the hash of block 0. Submitters
	// without a history start at the chain's nonce.
	fillSubmitters = `WITH given AS (
		SELECT n::INT AS submitter_id, address
		  FROM unnest($1::BYTEA[]) WITH ORDINALITY AS a(address, n)
	), registered AS (
		INSERT INTO submitter (name, chain_id, address, signer, mode, max_in_flight, start_from)
		SELECT 's' || submitter_id - 1, $2, address, 'keys', 'STRICT', 1, 'chain' FROM given
		  ORDER BY submitter_id
		RETURNING submitter_id
	), leased AS (
		INSERT INTO submitter_lease (submitter_id, fencing_token) SELECT submitter_id, 1
		  FROM registered
	)
	INSERT INTO submitter_nonce_cursor (submitter_id, next_nonce, init_nonce, init_block,
	  init_block_hash, fencing_token)
	SELECT submitter_id, $3::BIGINT, 0, 0, $4::BYTEA, 1 FROM registered WHERE $3::BIGINT > 0`

	// These make ids as txn.NewTxID does, for submitters below 1<<20, with a number in place of the
	// random bits.
	pastID = `(lpad(to_hex(1700000000000 + n), 12, '0') || '8000' || ` +
		`to_hex((-9223372036854775808) + ((1 + n % $1::INT)::BIGINT << 42) + n))::UUID`
	waitingID = `(lpad(to_hex(1750000000000 + n), 12, '0') || '8000' || ` +
		`to_hex((-9223372036854775808) + (1::BIGINT << 42) + n))::UUID`

	// $1 how many submitters, $2 and $3 the first and the last of the transactions, which the
	// submitters have in turn.
	fillFinals = `WITH past AS (
		SELECT 1 + n % $1::INT AS submitter_id, n / $1::INT AS nonce, n, ` + pastID + ` AS tx_id,
		  m.hash AS block_hash
		  FROM generate_series($2::INT, $3::INT) n JOIN mined m ON m.number = n / $1::INT
	), txs AS (
		INSERT INTO managed_tx (submitter_id, tx_id, request_id, request_hash, to_address, value,
		  data, gas_limit, state, version, nonce, tx_hash, receipt_tx_hash,
		       receipt_block, receipt_block_hash, receipt_success, receipt_gas_used,
		         receipt_gas_price, executed, submit_attempts, released_at, terminal_at,
		       fencing_token, accepted_attempt, pooled_attempt)
		SELECT submitter_id, tx_id, 'past-' || n, sha256(uuid_send(tx_id)), substr(sha256('to'), 1,
		  20), 1, '', 21000, 'CONFIRMED', 5, nonce, sha256(uuid_send(tx_id)),
		       sha256(uuid_send(tx_id)), nonce, block_hash, TRUE, 21000, 2000000000, 'SUCCESS', 1,
		         clock_timestamp(), clock_timestamp(), 1, 1, 1
		  FROM past ORDER BY n
		RETURNING submitter_id, tx_id, nonce, tx_hash, receipt_block_hash
	), attempts AS (
		INSERT INTO tx_attempt (submitter_id, tx_id, attempt_no, kind, nonce, tx_hash, raw_tx,
		  gas_limit, fee_cap, tip, legacy, fencing_token)
		SELECT submitter_id, tx_id, 1, 'ORIGINAL', nonce, tx_hash, decode(repeat('02', 115),
		  'hex'), 21000, 3000000000, 1000000000, FALSE, 1 FROM txs
	)
	INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, tx_hash,
	  receipt_tx_hash, receipt_block, receipt_block_hash, receipt_success,
	       receipt_gas_used, receipt_gas_price, reason, message, fencing_token)
	SELECT t.submitter_id, t.tx_id, k.seq, k.kind, k.state, k.sub_state, k.executed,
	  CASE WHEN k.seq > 1 THEN t.tx_hash END, CASE WHEN k.seq > 3 THEN t.tx_hash END,
	       CASE WHEN k.seq > 3 THEN t.nonce END, CASE WHEN k.seq > 3 THEN t.receipt_block_hash END,
	         CASE WHEN k.seq > 3 THEN TRUE END,
	       CASE WHEN k.seq > 3 THEN 21000 END, CASE WHEN k.seq > 3 THEN 2000000000 END, '', '',
	         CASE WHEN k.seq > 1 THEN 1 ELSE 0 END
	  FROM txs t CROSS JOIN (VALUES (1, 'QUEUED', 'QUEUED', '', 'UNKNOWN'), (2, 'ALLOCATED',
	    'ALLOCATED', '', 'UNKNOWN'), (3, 'SUBMITTED', 'TRACKING', 'PENDING', 'UNKNOWN'),
	       (4, 'INCLUDED', 'TRACKING', 'INCLUDED', 'UNKNOWN'), (5, 'CONFIRMED', 'CONFIRMED', '',
	         'SUCCESS')) k(seq, kind, state, sub_state, executed)`

	// $1 and $2 the first and the last of those that wait.
	fillQueue = `WITH txs AS (
		INSERT INTO managed_tx (submitter_id, tx_id, request_id, request_hash, to_address, value,
		  data, gas_limit)
		SELECT 1, ` + waitingID + `, 'waits-' || n, sha256(int4send(n)),
		       substr(sha256('to'), 1, 20), 1, '', 21000 FROM generate_series($1::INT, $2::INT) n
		         ORDER BY n
		RETURNING submitter_id, tx_id
	)
	INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
	  message)
	SELECT submitter_id, tx_id, 1, 'QUEUED', 'QUEUED', '', 'UNKNOWN', '', '' FROM txs`
)
