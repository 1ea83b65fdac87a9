package chain

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/txn"
)

// The tags of blocks that are (nearly) beyond change.
const (
	Safe      = "safe"
	Finalized = "finalized"
)

// ErrNoTags says that a chain's nodes do not know the tags "safe" and "finalized". It is no failure of the moment: whoever wants finality there has to count
// confirmations.
var ErrNoTags = errors.New("the node does not know this tag of blocks")

var (
	// noneYet is how nodes tell that a tag has no block yet, where they do not answer null: go-ethereum, Reth, and those who follow the code of the
	// execution API specification (-39001).
	noneYet = regexp.MustCompile(
		`(?i)\b(safe|finali[sz]ed|final)\b.*\bnot (yet )?(found|known|available|set)\b|\bblock (is )?not found\b|\bunknown block\b|\bno (safe|finali[sz]ed) block\b`)
	// unknownTag is how nodes without tags refuse them: as a block number that cannot be read, or in plain words.
	unknownTag = regexp.MustCompile(
		`(?i)\b(hex|0x|prefix|parse|unmarshal|deserialize)\b|\b(invalid|unknown|unsupported|bad|unrecognized|illegal)\b.*\b(argument|param\w*|tag|block|variant|number|value|input|string)\b|` +
			`\b(tag|parameter|safe|finali[sz]ed)\b.*\b(not|un)[ -]?(supported|implemented|recognized|allowed|valid)\b`,
	)
)

const (
	codeUnknownBlock  = -39001 // execution API specification
	codeInvalidParams = -32602 // JSON-RPC 2.0
)

// Tagged is the newest block that the node calls by the tag; nil when there is none yet.
func (c *Client) Tagged(ctx context.Context, tag string) (*txn.Block, error) {
	if tag != Safe && tag != Finalized {
		return nil, fmt.Errorf("chain %q: read the %q block: %w: it is %q or %q", c.o.Name, tag,
			ErrNoTags, Safe, Finalized)
	}
	var (
		block    *txn.Block
		knowsNot bool
	)
	what := "read the " + tag + " block"
	err := c.read(ctx, what, func(ctx context.Context, _ *endpoint, client *rpc.Client) error {
		block, knowsNot = nil, false
		var h *header
		err := client.CallContext(ctx, &h, "eth_getBlockByNumber", tag, false)
		switch refused := rpc.Error(nil); {
		case errors.As(err, &refused) && saysNoneYet(refused):
			return nil
		case errors.As(err, &refused) && saysUnknownTag(refused):
			knowsNot = true
			return nil
		case err != nil || h == nil:
			return err
		}
		block, err = h.block()
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case knowsNot:
		return nil, fmt.Errorf("chain %q: %s: %w", c.o.Name, what, ErrNoTags)
	}
	return block, nil
}

func saysNoneYet(e rpc.Error) bool {
	return e.ErrorCode() == codeUnknownBlock || noneYet.MatchString(e.Error())
}

func saysUnknownTag(e rpc.Error) bool {
	if e.ErrorCode() == codeInvalidParams {
		return true
	}
	class := Classify(answerOf(e)).Class
	return (class == txn.Ambiguous || class == txn.Invalid) && unknownTag.MatchString(e.Error())
}
