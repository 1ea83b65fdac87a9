package store

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerCodecs makes a connection write the lists of statements, and read and write ids, in
// binary without conversions. pgx itself converts a uuid.UUID to text and back, with about ten
// allocations for every id that is read or written.
func registerCodecs(m *pgtype.Map) {
	all := new(sizeHint)
	id := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: idCodec{}}
	m.RegisterType(id)
	m.RegisterType(
		&pgtype.Type{
			Name:  "_uuid",
			OID:   pgtype.UUIDArrayOID,
			Codec: listCodec{&pgtype.ArrayCodec{ElementType: id}, all},
		},
	)
	for _, list := range []uint32{pgtype.BoolArrayOID, pgtype.Int4ArrayOID, pgtype.Int8ArrayOID,
		pgtype.TextArrayOID, pgtype.ByteaArrayOID} {
		known, ok := m.TypeForOID(list)
		if !ok {
			continue
		}
		if codec, ok := known.Codec.(*pgtype.ArrayCodec); ok {
			m.RegisterType(&pgtype.Type{Name: known.Name, OID: list, Codec: listCodec{codec, all}})
		}
	}
}

// sizeHint is how many bytes the lists of the next statement of a connection take, as far as is
// known: the first of them takes it for all.
type sizeHint int

// sizeHintOf returns the size hint of a connection with registered codecs.
func sizeHintOf(m *pgtype.Map) *sizeHint {
	if list, ok := m.TypeForOID(pgtype.Int4ArrayOID); ok {
		if codec, ok := list.Codec.(listCodec); ok {
			return codec.all
		}
	}
	return new(sizeHint)
}

// expect reserves space for a statement of this size in the lists and in the send buffer. pgx
// itself starts both at 256 bytes and 1 KB for each statement, and copies repeatedly to reach
// hundreds of KB.
func expect(conn *pgx.Conn, size int) {
	*sizeHintOf(conn.TypeMap()) = sizeHint(size)
	conn.PgConn().Frontend().Send(outgoing(size))
}

// outgoing reserves this number of bytes in the send buffer of pgx.
type outgoing int

// Frontend is part of pgproto3.FrontendMessage.
func (outgoing) Frontend() {}

// Decode is part of pgproto3.FrontendMessage; a message without bytes is never read.
func (outgoing) Decode([]byte) error { return nil }

// Encode is part of pgproto3.FrontendMessage.
func (n outgoing) Encode(dst []byte) ([]byte, error) { return slices.Grow(dst, int(n)), nil }

// idCodec is the codec of a UUID that also supports uuid.UUID.
type idCodec struct{ pgtype.UUIDCodec }

// PlanEncode is part of pgtype.Codec.
func (c idCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case uuid.UUID, *uuid.UUID:
			return writeID{}
		}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

// PlanScan is part of pgtype.Codec.
func (c idCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return readID{c.UUIDCodec.PlanScan(m, oid, format, &pgtype.UUID{})}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

type writeID struct{}

// Encode is part of pgtype.EncodePlan.
func (writeID) Encode(value any, buf []byte) ([]byte, error) {
	switch id := value.(type) {
	case uuid.UUID:
		return append(buf, id[:]...), nil
	case *uuid.UUID:
		if id != nil {
			return append(buf, id[:]...), nil
		}
	}
	return nil, nil
}

// readID leaves values that are not sixteen bytes long to pgx.
type readID struct{ other pgtype.ScanPlan }

// Scan is part of pgtype.ScanPlan.
func (r readID) Scan(src []byte, target any) error {
	id := target.(*uuid.UUID)
	if len(src) == len(id) {
		copy(id[:], src)
		return nil
	}
	var read pgtype.UUID
	if err := r.other.Scan(src, &read); err != nil {
		return err
	}
	if !read.Valid {
		return errors.New("an id must not be NULL")
	}
	*id = read.Bytes
	return nil
}

// listCodec is the codec of an array. It writes the frequent lists of statements without checking
// the type of each element.
type listCodec struct {
	*pgtype.ArrayCodec
	all *sizeHint
}

// PlanEncode is part of pgtype.Codec.
func (c listCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16,
	value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch element := c.ElementType.OID; value.(type) {
		case []uuid.UUID:
			return plainList(c.all, element, pgtype.UUIDOID, each[uuid.UUID](16),
				func(buf []byte, id uuid.UUID) []byte { return append(buf, id[:]...) })
		case []bool:
			return plainList(c.all, element, pgtype.BoolOID, each[bool](1),
				func(buf []byte, yes bool) []byte {
					if yes {
						return append(buf, 1)
					}
					return append(buf, 0)
				})
		case []int32:
			return plainList(c.all, element, pgtype.Int4OID, each[int32](4),
				func(buf []byte, n int32) []byte {
					return binary.BigEndian.AppendUint32(buf, uint32(n))
				})
		case []int64:
			return plainList(c.all, element, pgtype.Int8OID, each[int64](8),
				func(buf []byte, n int64) []byte {
					return binary.BigEndian.AppendUint64(buf, uint64(n))
				})
		case []string:
			return plainList(c.all, element, pgtype.TextOID,
				func(text string) int { return len(text) },
				func(buf []byte, text string) []byte { return append(buf, text...) })
		case [][]byte:
			return plainList(c.all, element, pgtype.ByteaOID, bytesIn,
				func(buf []byte, data []byte) []byte { return append(buf, data...) })
		}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// plainList writes a list whose elements the type of the array holds as they are.
func plainList[T any](all *sizeHint, element, plain uint32, size func(T) int,
	write func([]byte, T) []byte) pgtype.EncodePlan {
	if element != plain {
		return nil
	}
	return listPlan[T]{all, element, size, write}
}

type listPlan[T any] struct {
	all     *sizeHint
	element uint32
	size    func(element T) int // in bytes; -1 is NULL
	write   func(buf []byte, element T) []byte
}

// each is the size of elements that all have the same.
func each[T any](size int) func(T) int { return func(T) int { return size } }

func bytesIn(data []byte) int {
	if data == nil {
		return -1
	}
	return len(data)
}

// Encode is part of pgtype.EncodePlan. No list is NULL, as for pgx, and so is no data.
func (p listPlan[T]) Encode(value any, buf []byte) ([]byte, error) {
	list := value.([]T)
	if list == nil {
		return nil, nil
	}
	const dimensions, word = 1, 4
	total, nulls := (5+len(list))*word, uint32(0)
	for _, one := range list {
		if n := p.size(one); n >= 0 {
			total += n
		} else {
			nulls = 1
		}
	}
	if cap(buf)-len(buf) < total {
		// pgx begins each statement with 256 bytes, and many lists follow
		buf = slices.Grow(buf, max(total, cap(buf), int(*p.all)))
		*p.all = 0
	}
	for _, n := range []uint32{dimensions, nulls, p.element, uint32(len(list)), 1} {
		buf = binary.BigEndian.AppendUint32(buf, n)
	}
	for _, one := range list {
		n := p.size(one)
		buf = binary.BigEndian.AppendUint32(buf, uint32(int32(n)))
		if n >= 0 {
			buf = p.write(buf, one)
		}
	}
	return buf, nil
}
