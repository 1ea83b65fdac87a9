package node

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.Main(m)) }

// tagNode is the part of a node that a start calls. Its block tags are set by the test.
type tagNode struct{ tagged func() (any, error) }

func (tagNode) BlockNumber() hexutil.Uint64 { return 0 }

//lint:ignore ST1003 the name is the method's on the wire, eth_chainId
func (tagNode) ChainId() hexutil.Uint64 { return 31337 } //nolint:staticcheck // likewise

func (n tagNode) GetBlockByNumber(number string, _ bool) (any, error) {
	if number == chain.Safe || number == chain.Finalized {
		return n.tagged()
	}
	return genesisBlock()
}

func genesisBlock() (any, error) {
	header := &types.Header{Difficulty: common.Big0, Number: common.Big0, BaseFee: common.Big1}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	block := map[string]any{}
	err = json.Unmarshal(text, &block)
	block["hash"], block["transactions"] = header.Hash(), []any{}
	return block, err
}

type refusal struct{}

func (refusal) Error() string  { return "invalid argument 0: hex string without 0x prefix" }
func (refusal) ErrorCode() int { return -32602 }

// A tag that the nodes of a chain do not know is refused at start; one that they know and that has
// no block yet is not, nor is a chain that cannot be asked.
func TestBind_UnknownTag_Fails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tag    string
		tagged func() (any, error)
		down   bool
		refuse bool
	}{
		"unknown": {
			tag: "finalized", tagged: func() (any, error) { return nil, refusal{} }, refuse: true,
		},
		"no block yet":  {tag: "finalized", tagged: func() (any, error) { return nil, nil }},
		"known":         {tag: "safe", tagged: genesisBlock},
		"none is asked": {tag: "none", tagged: func() (any, error) { return nil, refusal{} }},
		"busy": {
			tag:    "safe",
			tagged: func() (any, error) { return nil, errors.New("server busy, retry later") },
		},
		"down": {tag: "safe", down: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t)
			s, err := store.Open(
				t.Context(),
				store.Config{
					URL:           db.NodeURL,
					Schema:        db.Schema,
					Node:          "a/boot",
					LeaseDuration: time.Minute,
				},
			)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			server := rpc.NewServer()
			defer server.Stop()
			if err := server.RegisterName("eth", tagNode{c.tagged}); err != nil {
				t.Fatal(err)
			}
			at := httptest.NewServer(server)
			defer at.Close()
			if c.down {
				at.Close()
			}
			cfg := &config.Config{Chains: []config.Chain{{
				Name: "dev", ChainID: 31337, RPC: []config.Secret{
					config.NewSecret(at.URL),
				}, RPCTimeout: time.Second, Finality: config.Finality{Tag: c.tag},
			}}}
			chains, err := openChains(t.Context(), cfg, s, slog.New(slog.DiscardHandler))
			for _, c := range chains {
				c.Close()
			}
			if refused := errors.Is(err, chain.ErrNoTags); refused != c.refuse ||
				err != nil && !refused {
				t.Fatalf("%v", err)
			}
			if c.refuse &&
				!(strings.Contains(err.Error(), `chain "dev"`) && strings.Contains(
					err.Error(), `finality.tag "finalized"`,
				)) {
				t.Errorf("%v", err)
			}
		})
	}
}
