package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// A page of several ledgers is made of a page of each. Its token has the position in each ledger,
// so a ledger that was missing on one page continues on a later one.

const (
	mergedTokenVersion = 2
	// positions in a ledger
	atStart byte = 0 // no row of it was returned yet
	atRow   byte = 1 // after a row, whose key follows
	atEnd   byte = 2 // it has no more rows
)

// place is a position in the list of one ledger.
type place struct {
	kind byte
	key  []byte // of the last row
}

// mergedToken returns the token of places, by the numbers of the ledgers.
func mergedToken(filter []byte, places map[int32]place) string {
	raw := append([]byte{mergedTokenVersion}, filter...)
	for number, p := range places {
		raw = append(raw, byte(number), p.kind, byte(len(p.key)))
		raw = append(raw, p.key...)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// parseMergedToken returns the places in a token; none for the first page.
func parseMergedToken(token string, filter []byte) (map[int32]place, error) {
	places := map[int32]place{}
	if token == "" {
		return places, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < 1+filterDigestBytes || raw[0] != mergedTokenVersion {
		return nil, errPageToken()
	}
	if !bytes.Equal(raw[1:1+filterDigestBytes], filter) {
		return nil, errOtherFilter()
	}
	for rest := raw[1+filterDigestBytes:]; len(rest) > 0; {
		if len(rest) < 3 || rest[1] > atEnd || len(rest) < 3+int(rest[2]) {
			return nil, errPageToken()
		}
		key := rest[3 : 3+int(rest[2])]
		places[int32(rest[0])] = place{rest[1], key}
		rest = rest[3+len(key):]
	}
	return places, nil
}

// listing is a list that is paged and merged.
type listing[Request, Response, Row proto.Message] struct {
	digest func(Request) []byte // as the method computes it
	page   func(Request) (token *string, size int32)
	rows   func(Response) []Row
	next   func(Response) string
	key    func(Row) []byte // of the tokens of the method
	order  func(a, b Row) int
	// respond makes the merged response
	respond func(rows []Row, next string, missing []string) proto.Message
}

// stretch is the rows of one ledger on a page.
type stretch[Row any] struct {
	number int32
	rows   []Row
	taken  int
	more   bool // the ledger has more rows than these
}

// merge is the route of a list.
func (of listing[Request, Response, Row]) merge(ctx context.Context, c call,
	request proto.Message) (proto.Message, error) {
	r := request.(Request)
	token, size := of.page(r)
	digest := of.digest(r)
	places, err := parseMergedToken(*token, digest)
	if err != nil {
		return nil, err
	}
	those, missing, err := answered(havingSink(c.ask(ctx, func(l *ledger) proto.Message {
		one := proto.Clone(request).(Request)
		to, _ := of.page(one)
		switch p := places[l.number.Load()]; p.kind {
		case atEnd:
			return nil
		case atRow:
			*to = pageToken(digest, p.key)
		default:
			*to = ""
		}
		return one
	})))
	if err != nil {
		return nil, err
	}
	stretches := make([]*stretch[Row], 0, len(those))
	for _, p := range those {
		response := p.response.(Response)
		stretches = append(stretches, &stretch[Row]{number: p.ledger.number.Load(),
			rows: of.rows(response), more: of.next(response) != ""})
	}
	rows := of.take(stretches, pageSize(size))
	again := false
	for _, s := range stretches {
		again = of.advance(s, places) || again
	}
	next := ""
	if again {
		next = mergedToken(digest, places)
	}
	return of.respond(rows, next, missing), nil
}

// take takes the first rows of all ledgers in order. It stops where the rows of one end and it has
// more, because those may come next.
func (of listing[Request, Response, Row]) take(stretches []*stretch[Row], size int) (rows []Row) {
	for bytes := 0; len(rows) < size && bytes < pageBytes; {
		var first *stretch[Row]
		for _, s := range stretches {
			switch {
			case s.taken == len(s.rows) && s.more:
				return rows
			case s.taken == len(s.rows):
			case first == nil || of.order(s.rows[s.taken], first.rows[first.taken]) < 0:
				first = s
			}
		}
		if first == nil {
			return rows
		}
		row := first.rows[first.taken]
		rows = append(rows, row)
		bytes += proto.Size(row)
		first.taken++
	}
	return rows
}

// advance moves the place of a ledger past the rows that were taken, and reports whether it has
// more.
func (of listing[Request, Response, Row]) advance(s *stretch[Row], places map[int32]place) bool {
	more := s.more || s.taken < len(s.rows)
	switch {
	case !more:
		places[s.number] = place{kind: atEnd}
	case s.taken > 0:
		places[s.number] = place{atRow, of.key(s.rows[s.taken-1])}
	}
	return more
}

// txKey is the key of a transaction in tokens.
func txKey(text string) []byte {
	id, _ := txn.ParseTxID(text)
	return id[:]
}

func mergeTxs(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	r := request.(*pb.ListTxsRequest)
	switch {
	case r.GetPool() != "":
		return toPool(ctx, c, request)
	case r.GetSubmitter() != "":
		return toSubmitter(ctx, c, request)
	}
	return listing[*pb.ListTxsRequest, *pb.ListTxsResponse, *pb.Tx]{
		digest: func(r *pb.ListTxsRequest) []byte { return txsDigest(0, r) },
		page: func(r *pb.ListTxsRequest) (*string, int32) {
			return &r.PageToken, r.GetPageSize()
		},
		rows: (*pb.ListTxsResponse).GetTxs, next: (*pb.ListTxsResponse).GetNextPageToken,
		key: func(t *pb.Tx) []byte { return txKey(t.GetTxId()) },
		order: func(a, b *pb.Tx) int {
			return bytes.Compare(txKey(b.GetTxId()), txKey(a.GetTxId()))
		},
		respond: func(rows []*pb.Tx, next string, missing []string) proto.Message {
			return &pb.ListTxsResponse{Txs: rows, NextPageToken: next, MissingLedgers: missing}
		},
	}.merge(ctx, c, request)
}

func mergeSubmitters(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	return listing[*pb.ListSubmittersRequest, *pb.ListSubmittersResponse, *pb.Submitter]{
		digest: submittersDigest,
		page: func(r *pb.ListSubmittersRequest) (*string, int32) {
			return &r.PageToken, r.GetPageSize()
		},
		rows: (*pb.ListSubmittersResponse).GetSubmitters,
		next: (*pb.ListSubmittersResponse).GetNextPageToken,
		key:  func(s *pb.Submitter) []byte { return []byte(s.GetName()) },
		order: func(a, b *pb.Submitter) int {
			return cmp.Compare(a.GetName(), b.GetName())
		},
		respond: func(rows []*pb.Submitter, next string, missing []string) proto.Message {
			return &pb.ListSubmittersResponse{
				Submitters: rows, NextPageToken: next, MissingLedgers: missing}
		},
	}.merge(ctx, c, request)
}

func mergePools(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	return listing[*pb.ListPoolsRequest, *pb.ListPoolsResponse, *pb.Pool]{
		digest: func(*pb.ListPoolsRequest) []byte { return filterDigest(&pb.ListPoolsRequest{}) },
		page: func(r *pb.ListPoolsRequest) (*string, int32) {
			return &r.PageToken, r.GetPageSize()
		},
		rows:  (*pb.ListPoolsResponse).GetPools,
		next:  (*pb.ListPoolsResponse).GetNextPageToken,
		key:   func(p *pb.Pool) []byte { return []byte(p.GetName()) },
		order: func(a, b *pb.Pool) int { return cmp.Compare(a.GetName(), b.GetName()) },
		respond: func(rows []*pb.Pool, next string, missing []string) proto.Message {
			return &pb.ListPoolsResponse{
				Pools: rows, NextPageToken: next, MissingLedgers: missing}
		},
	}.merge(ctx, c, request)
}

// mergeCommands orders the commands of several ledgers by time, because each ledger counts its own.
func mergeCommands(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	if request.(*pb.ListCommandsRequest).GetSubmitter() != "" {
		return toSubmitter(ctx, c, request)
	}
	return listing[*pb.ListCommandsRequest, *pb.ListCommandsResponse, *pb.Command]{
		digest: func(r *pb.ListCommandsRequest) []byte { return commandsDigest(r) },
		page: func(r *pb.ListCommandsRequest) (*string, int32) {
			return &r.PageToken, r.GetPageSize()
		},
		rows: (*pb.ListCommandsResponse).GetCommands,
		next: (*pb.ListCommandsResponse).GetNextPageToken,
		key: func(c *pb.Command) []byte {
			return binary.BigEndian.AppendUint64(nil, uint64(c.GetCommandId()))
		},
		order: func(a, b *pb.Command) int {
			return b.GetCreateTime().AsTime().Compare(a.GetCreateTime().AsTime())
		},
		respond: func(rows []*pb.Command, next string, missing []string) proto.Message {
			return &pb.ListCommandsResponse{
				Commands: rows, NextPageToken: next, MissingLedgers: missing}
		},
	}.merge(ctx, c, request)
}

func mergeUndelivered(ctx context.Context, c call, request proto.Message) (proto.Message, error) {
	return listing[*pb.ListUndeliveredRequest, *pb.ListUndeliveredResponse, *pb.Undelivered]{
		digest: undeliveredDigest,
		page: func(r *pb.ListUndeliveredRequest) (*string, int32) {
			return &r.PageToken, r.GetPageSize()
		},
		rows: (*pb.ListUndeliveredResponse).GetUndelivered,
		next: (*pb.ListUndeliveredResponse).GetNextPageToken,
		key:  func(u *pb.Undelivered) []byte { return txKey(u.GetTxId()) },
		order: func(a, b *pb.Undelivered) int {
			return slices.Compare(txKey(a.GetTxId()), txKey(b.GetTxId()))
		},
		respond: func(rows []*pb.Undelivered, next string, missing []string) proto.Message {
			return &pb.ListUndeliveredResponse{
				Undelivered: rows, NextPageToken: next, MissingLedgers: missing}
		},
	}.merge(ctx, c, request)
}
