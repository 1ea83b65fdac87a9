package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"

	signerv1 "github.com/fencepost/fencepost/gen/go/fencepost/signer/v1"
)

// policy decides which transactions are signed.
type policy struct {
	recipients []common.Address
	deploy     bool
	perDay     uint256.Int // wei

	mu    sync.Mutex
	spent map[string]uint256.Int // wei by date in UTC
	slots map[string]uint256.Int // the highest allowed value of each slot
	log   *os.File               // the allowed transactions, for the next start
}

// slot is the place of a transaction on its chain: of all that are signed for it, one executes.
func slot(r *signerv1.SignTransactionRequest) string {
	from := common.HexToAddress(r.GetFrom())
	return fmt.Sprintf("%d/%s/%d", r.GetChainId(), from.Hex(), r.GetNonce())
}

// policyFile is a policy as JSON: {"recipients": ["0x..."], "wei_per_day": "1000000"}.
type policyFile struct {
	Recipients []common.Address `json:"recipients"`
	Deploy     bool             `json:"deploy"` // transactions that create a contract are allowed
	WeiPerDay  string           `json:"wei_per_day"`
}

// openPolicy reads a policy, and the transactions that it has allowed so far.
func openPolicy(file, logFile string) (*policy, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var p policyFile
	if err := json.Unmarshal(content, &p); err != nil {
		return nil, fmt.Errorf("policy %s: %w", file, err)
	}
	limit, err := uint256.FromDecimal(p.WeiPerDay)
	if err != nil {
		return nil, fmt.Errorf("policy %s: wei_per_day: %w", file, err)
	}
	allowed := &policy{recipients: p.Recipients, deploy: p.Deploy, perDay: *limit,
		spent: map[string]uint256.Int{}, slots: map[string]uint256.Int{}}
	if err := allowed.recall(logFile); err != nil {
		return nil, err
	}
	allowed.log, err = os.OpenFile(logFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return allowed, err
}

// recall reads the log: date, slot and wei in each line.
func (p *policy) recall(file string) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			continue // the last line of a crash, before it was allowed
		}
		value, err := uint256.FromDecimal(words[2])
		if err != nil {
			return fmt.Errorf("log %s: %w", file, err)
		}
		p.count(words[0], words[1], value)
	}
	return lines.Err()
}

// count adds to the amounts of a day and of a slot.
func (p *policy) count(date, slot string, wei *uint256.Int) {
	spent, at := p.spent[date], p.slots[slot]
	p.spent[date], p.slots[slot] = *spent.Add(&spent, wei), *at.Add(&at, wei)
}

// refusal is why a transaction is not signed.
type refusal string

func (r refusal) Error() string { return string(r) }

func (p *policy) allowed(to string) bool {
	if to == "" {
		return p.deploy
	}
	return slices.Contains(p.recipients, common.HexToAddress(to))
}

// allow decides on a request. It counts by slot and not by tx_id, which would have to be believed:
// a replacement counts only as far as its value is higher. Fees do not count. A cancel transaction
// sends nothing, so it is always allowed.
func (p *policy) allow(r *signerv1.SignTransactionRequest, now time.Time) error {
	if r.GetKind() == signerv1.AttemptKind_ATTEMPT_KIND_CANCEL && r.GetTo() == r.GetFrom() &&
		r.GetValue() == "0" && len(r.GetData()) == 0 {
		return nil
	}
	if !p.allowed(r.GetTo()) {
		return refusal("the recipient is not allowed")
	}
	value, err := uint256.FromDecimal(r.GetValue())
	if err != nil {
		return refusal("the value is not a number")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	place, date := slot(r), now.UTC().Format(time.DateOnly)
	counted, spent := p.slots[place], p.spent[date]
	if !value.Gt(&counted) {
		return nil
	}
	more := new(uint256.Int).Sub(value, &counted)
	total, overflow := new(uint256.Int).AddOverflow(&spent, more)
	if overflow || total.Gt(&p.perDay) {
		return refusal("the limit of the day is reached")
	}
	// Recorded before it is signed: after a crash too much is counted, never too little.
	if _, err := fmt.Fprintln(p.log, date, place, more.Dec()); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if err := p.log.Sync(); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	p.count(date, place, more)
	return nil
}
