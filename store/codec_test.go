package store

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fencepost/fencepost/txn"
)

// TestListCodec_MatchesPgx compares byte by byte, with empty and NULL values.
func TestListCodec_MatchesPgx(t *testing.T) {
	t.Parallel()
	plain, registered := pgtype.NewMap(), pgtype.NewMap()
	registerCodecs(registered)
	id := uuid.New()
	for name, list := range map[string]struct {
		oid   uint32
		value any
	}{
		"ids":      {pgtype.UUIDArrayOID, []uuid.UUID{id, {}, uuid.New()}},
		"no ids":   {pgtype.UUIDArrayOID, []uuid.UUID{}},
		"nil ids":  {pgtype.UUIDArrayOID, []uuid.UUID(nil)},
		"texts":    {pgtype.TextArrayOID, []string{"a", "", "long enough"}},
		"no texts": {pgtype.TextArrayOID, []string{}},
		"data":     {pgtype.ByteaArrayOID, [][]byte{{1, 2}, {}, nil, {3}}},
		"no data":  {pgtype.ByteaArrayOID, [][]byte{}},
		"nil data": {pgtype.ByteaArrayOID, [][]byte(nil)},
		"ints":     {pgtype.Int4ArrayOID, []int32{0, -1, 1 << 30}},
		"bigints":  {pgtype.Int8ArrayOID, []int64{0, -1, 1 << 62}},
		"truths":   {pgtype.BoolArrayOID, []bool{true, false}},
		"others":   {pgtype.Int8ArrayOID, []int32{1, 2}},
		"an id":    {pgtype.UUIDOID, id}, "a pointer": {pgtype.UUIDOID, &id},
		"no id": {pgtype.UUIDOID, (*uuid.UUID)(nil)},
	} {
		want, wantErr := plain.Encode(list.oid, pgtype.BinaryFormatCode, list.value,
			[]byte("before"))
		got, err := registered.Encode(list.oid, pgtype.BinaryFormatCode, list.value,
			[]byte("before"))
		if (wantErr == nil) != (err == nil) || !bytes.Equal(got, want) ||
			(got == nil) != (want == nil) {
			t.Errorf("%s: %x (%v), pgx writes %x (%v)", name, got, err, want, wantErr)
		}
	}
}

// TestListCodec_GroupSize_OneAllocation: the estimated size of a group is good enough for its first
// list to reserve space for all, and not much more.
func TestListCodec_GroupSize_OneAllocation(t *testing.T) {
	t.Parallel()
	oids := map[reflect.Type]uint32{
		reflect.TypeFor[[]int32]():     pgtype.Int4ArrayOID,
		reflect.TypeFor[[]int64]():     pgtype.Int8ArrayOID,
		reflect.TypeFor[[]string]():    pgtype.TextArrayOID,
		reflect.TypeFor[[]bool]():      pgtype.BoolArrayOID,
		reflect.TypeFor[[][]byte]():    pgtype.ByteaArrayOID,
		reflect.TypeFor[[]uuid.UUID](): pgtype.UUIDArrayOID,
	}
	tx := txn.Tx{ID: txn.TxID{1}, Submitter: 1}
	for _, step := range []string{"take", "pending", "included", "confirmed"} {
		change := (&fleet{}).step(step, &tx, 1000)
		change.Writes[0].Next.Above = make([]txn.BlockRef, 2)
		group := slices.Repeat(
			[]*commitJob{
				{lease: &Lease{submitter: 1, token: 1}, change: change, bytes: changeSize(change)},
			},
			lifeGroup,
		)
		m, size := pgtype.NewMap(), emptyCommit+sizeOf(group)
		registerCodecs(m)
		*sizeHintOf(m) = sizeHint(size)
		buf, grown := make([]byte, 0, 256), 0
		for _, list := range reflect.ValueOf(commitParams("node", group)).Fields() {
			if list.Kind() != reflect.Slice {
				continue
			}
			longer, err := m.Encode(oids[list.Type()], pgtype.BinaryFormatCode, list.Interface(),
				buf)
			if err != nil {
				t.Fatal(err)
			}
			if longer == nil { // NULL
				continue
			}
			if cap(longer) != cap(buf) {
				grown++
			}
			buf = longer
		}
		if grown != 1 || size > 5*len(buf)/4 {
			t.Errorf("%s: a group of %d bytes was reckoned as %d, and copied %d times", step,
				len(buf), size, grown-1)
		}
	}
}

// TestIDCodec_NoAllocations: neither in a list that is written nor in a row that is read.
func TestIDCodec_NoAllocations(t *testing.T) {
	m := pgtype.NewMap()
	registerCodecs(m)
	ids, buf := make([]uuid.UUID, 1000), make([]byte, 0, 1<<16)
	plan := m.PlanEncode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, ids)
	if n := testing.AllocsPerRun(10, func() {
		if _, err := plan.Encode(ids, buf); err != nil {
			t.Error(err)
		}
	}); n > 2 {
		t.Errorf("%v allocations for a list of a thousand ids", n)
	}
	var id uuid.UUID
	scan, src := m.PlanScan(pgtype.UUIDOID, pgtype.BinaryFormatCode, &id), bytes.Repeat([]byte{7},
		16)
	if n := testing.AllocsPerRun(10, func() {
		if err := scan.Scan(src, &id); err != nil {
			t.Error(err)
		}
	}); n > 0 || id[3] != 7 {
		t.Errorf("%v allocations for an id that is read, %s", n, id)
	}
	if err := scan.Scan(nil, &id); err == nil {
		t.Error("NULL is read as an id")
	}
}

// TestIDCodec_Null reads nullable and other ids.
func TestIDCodec_Null(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	tx := k.queue(s, k.submitter(s, "alice"), "one")
	var id *uuid.UUID
	for _, want := range []*uuid.UUID{nil, new(uuid.UUID(tx.ID))} {
		k.must(s.api.QueryRow(k.ctx, "SELECT $1::UUID", want).Scan(&id))
		if (id == nil) != (want == nil) || id != nil && txn.TxID(*id) != tx.ID {
			t.Errorf("%v was read as %v", want, id)
		}
	}
	var all []uuid.UUID
	k.must(
		s.api.QueryRow(k.ctx, "SELECT array_agg(tx_id) FROM managed_tx WHERE tx_id = ANY($1)",
			[]uuid.UUID{uuid.UUID(tx.ID)}).Scan(
			&all,
		),
	)
	if len(all) != 1 || all[0] != uuid.UUID(tx.ID) {
		t.Errorf("read %v", all)
	}
}
