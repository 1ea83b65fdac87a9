package chain

import (
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

func TestPooled(t *testing.T) {
	t.Parallel()
	const indexing = "transaction indexing is in progress"
	ours := []txn.Hash{{1}, {2}, {3}}
	for name, c := range map[string]struct {
		latest, pending uint64
		known           map[common.Hash]string // "pool", "block", or the error
		want            txn.Diagnosis          // empty: unavailable
	}{
		"in the pool": {
			7,
			8,
			map[common.Hash]string{{2}: "pool"},
			txn.InPool,
		},
		"in the pool above a gap": {
			5,
			5,
			map[common.Hash]string{{3}: "pool"},
			txn.InPool,
		},
		"nothing anywhere":            {7, 7, nil, txn.PossiblyLost},
		"another one there":           {7, 8, nil, txn.PossiblyReplaced},
		"another one there, long ago": {7, 12, nil, txn.PossiblyReplaced},
		"used":                        {8, 8, nil, txn.NonceConsumed},
		"used by ours": {
			8,
			8,
			map[common.Hash]string{{1}: "block"},
			txn.NonceConsumed,
		},
		"included while we asked": {
			7,
			8,
			map[common.Hash]string{{1}: "block"},
			txn.NonceConsumed,
		},
		"cannot be looked for": {7, 7, map[common.Hash]string{{1}: indexing}, ""},
		"cannot be looked for, one is": {
			7,
			7,
			map[common.Hash]string{{1}: indexing, {3}: "pool"},
			txn.InPool,
		},
		"cannot be looked for, and is past": {
			8,
			8,
			map[common.Hash]string{{1}: indexing},
			txn.NonceConsumed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(func(n *fakeNode) {
				n.count = func(tag string) (hexutil.Uint64, error) {
					return hexutil.Uint64(
						map[string]uint64{"latest": c.latest, "pending": c.pending}[tag]), nil
				}
				n.known = func(hash common.Hash) (map[string]any, error) {
					switch is := c.known[hash]; is {
					case "":
						return nil, nil
					case "pool":
						return map[string]any{"hash": hash, "blockHash": nil}, nil
					case "block":
						return map[string]any{"hash": hash, "blockHash": common.Hash{9}}, nil
					default:
						return nil, errors.New(is)
					}
				}
			})
			for _, limit := range []int{0, 1} { // in one batch, and without batches
				r := dial(t, func(o *Options) { o.BatchLimit = limit }, n.url())
				got, err := r.Pooled(t.Context(), txn.Address{1}, 7, ours)
				if got != c.want || (c.want == "") != errors.Is(err, txn.ErrUnavailable) {
					t.Errorf("%q, %v; want %q", got, err, c.want)
				}
			}
		})
	}
}

func TestPooled_OneRequest(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	r := dial(t, nil, n.url())
	r.mustHead(t)
	n.set(func(n *fakeNode) { n.requests = 0 })
	if _, err := r.Pooled(t.Context(), txn.Address{1}, 0, make([]txn.Hash, 20)); err != nil ||
		n.requests != 1 {
		t.Errorf("%v after %d requests", err, n.requests)
	}
}

func TestTagged(t *testing.T) {
	t.Parallel()
	refuse := func(code int, words string) func(*fakeNode) {
		return func(n *fakeNode) {
			n.tagged = func(string) (map[string]any, error) {
				return nil, coded{code: code, msg: words}
			}
		}
	}
	for name, c := range map[string]struct {
		node func(*fakeNode)
		want string // "block", "none", "no tags", "unavailable"
	}{
		"a block": {
			func(n *fakeNode) {
				n.tagged = func(string) (map[string]any, error) { return n.block(5), nil }
			},
			"block",
		},
		"null": {
			func(n *fakeNode) {
				n.tagged = func(string) (map[string]any, error) { return nil, nil }
			},
			"none",
		},
		"go-ethereum, safe":      {refuse(-32000, "safe block not found"), "none"},
		"go-ethereum, finalized": {refuse(-32000, "finalized block not found"), "none"},
		"by the specification":   {refuse(-39001, "Unknown block"), "none"},
		"by the code alone":      {refuse(-39001, "no such thing"), "none"},
		"Reth":                   {refuse(-32001, "block not found: finalized"), "none"},
		"an old go-ethereum":     {func(*fakeNode) {}, "no tags"},
		"OpenEthereum": {
			refuse(-32602, "Invalid params: Invalid block number: missing 0x prefix."),
			"no tags",
		},
		"without a known code": {refuse(-32000, "unsupported block tag: safe"), "no tags"},
		"could not parse": {
			refuse(-32000, "failed to parse block number 'finalized'"),
			"no tags",
		},
		"the node is syncing":    {refuse(-32000, "node is syncing"), "unavailable"},
		"a request limit":        {refuse(-32005, "rate limit exceeded"), "unavailable"},
		"words that say nothing": {refuse(-32603, "internal error"), "unavailable"},
		"a block without a hash": {func(n *fakeNode) {
			n.tagged = func(string) (map[string]any, error) {
				return map[string]any{"number": "0x5"}, nil
			}
		}, "unavailable"},
		"a header not found here": {refuse(-32000, "header not found"), "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.set(c.node)
			r := dial(t, nil, n.url())
			for _, tag := range []string{Safe, Finalized} {
				block, err := r.Tagged(t.Context(), tag)
				is := "none"
				switch {
				case errors.Is(err, txn.ErrUnavailable):
					is = "unavailable"
				case errors.Is(err, ErrNoTags):
					is = "no tags"
				case err != nil:
					is = err.Error()
				case block != nil:
					is = "block"
				}
				if is != c.want || block != nil && (block.Number != 5 || block.Hash != n.hash(5)) {
					t.Errorf("%s: %s (%+v, %v), want %s", tag, is, block, err, c.want)
				}
				r.clock.Advance(longBackoff)
			}
		})
	}
	if _, err := dial(t, nil, "http://127.0.0.1:1").Tagged(t.Context(), "latest"); !errors.Is(err,
		ErrNoTags) {
		t.Errorf("another tag: %v", err)
	}
}
