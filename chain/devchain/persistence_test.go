package devchain

import (
	"bufio"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// A stored chain resumes with its blocks, receipts, nonces, pool and final block.
func TestRestart(t *testing.T) {
	t.Parallel()
	o := Options{DataDir: t.TempDir()}
	c := mustStart(t, o)
	c.mine(FinalDepth + 20)
	mined := c.send(Key(0), 0)
	c.mine(3)
	pending := c.send(Key(0), 1)
	queued := c.send(Key(1), 5)
	old, final := c.head(), c.tag("finalized")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}

	c = mustStart(t, o)
	if h := c.head(); h.Hash() != old.Hash() {
		t.Fatalf("the head was %v and is %v", old.Number, h.Number)
	}
	if r := c.receipt(mined); r == nil || r.BlockNumber.Uint64() != old.Number.Uint64()-2 {
		t.Errorf("receipt %v", r)
	}
	if n, err := c.NonceAt(t.Context(), Address(0), nil); err != nil || n != 1 {
		t.Errorf("nonce %d, %v", n, err)
	}
	if got := c.tag("finalized"); got != final {
		t.Errorf("block %d was final, and %d is", final, got)
	}
	for _, tx := range []common.Hash{pending, queued} {
		if _, waits, err := c.TransactionByHash(t.Context(), tx); err != nil || !waits {
			t.Errorf("a transaction of the pool: pending %v, %v", waits, err)
		}
	}
	if err := c.Reorg(2, Keep); err != nil {
		t.Errorf("a reorg of blocks from before: %v", err)
	}
	c.mine(1)
	if r := c.receipt(pending); r == nil {
		t.Error("what was pending is not mined")
	}
	if h := c.head(); h.Number.Uint64() != old.Number.Uint64()+2 || h.Time <= old.Time {
		t.Errorf("the head is block %v of %d, after %v of %d", h.Number, h.Time, old.Number,
			old.Time)
	}
}

// With more than one block per second, timestamps are in the future, which a restart must tolerate.
func TestRestart_AheadOfClock(t *testing.T) {
	t.Parallel()
	o := Options{DataDir: t.TempDir()}
	c := mustStart(t, o)
	c.mine(100)
	old := c.head()
	if ahead := time.Until(time.Unix(int64(old.Time), 0)); ahead < 90*time.Second {
		t.Fatalf("the chain is %v ahead: this shows nothing", ahead)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	o.Period = 20 * time.Millisecond
	c = mustStart(t, o)
	tx := c.send(Key(0), 0)
	c.await("a receipt", func() bool { return c.receipt(tx) != nil })
	if h := c.head(); h.Number.Cmp(old.Number) <= 0 || h.Time <= old.Time {
		t.Errorf("the head is block %v of %d, after %v of %d", h.Number, h.Time, old.Number,
			old.Time)
	}
}

// await waits for a condition that blocks bring about.
func (c chain) await(what string, ok func() bool) {
	c.t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			c.t.Fatalf("no %s after %v", what, patience)
		}
	}
}

func TestStart_FolderOfOtherChain_Fails(t *testing.T) {
	t.Parallel()
	o := Options{DataDir: t.TempDir()}
	c := mustStart(t, o)
	if _, err := Start(o); err == nil ||
		!strings.Contains(err.Error(), "another process runs the chain in "+o.DataDir) {
		t.Errorf("Start on a chain that runs: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]Options{
		"chain id":  {ChainID: 5},
		"accounts":  {Accounts: 3},
		"balance":   {Balance: big.NewInt(1)},
		"gas limit": {GasLimit: 1_000_000},
	} {
		other.DataDir = o.DataDir
		if _, err := Start(other); err == nil ||
			!strings.Contains(err.Error(), "has other settings") {
			t.Errorf("Start with another %s: %v", name, err)
		}
	}
}

func TestStart_UnreadablePool_Succeeds(t *testing.T) {
	t.Parallel()
	o := Options{DataDir: t.TempDir()}
	if err := os.WriteFile(
		filepath.Join(o.DataDir, journalFile),
		[]byte("rubbish"),
		0o600,
	); err != nil {
		t.Fatal(err)
	}
	mustStart(t, o).mine(1)
}

// A killed process leaves a chain that resumes from its head or from the block before.
func TestKill(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("DEVCHAIN_TEST_CHILD"); dir != "" {
		child(t, dir)
		return
	}
	dir := t.TempDir()
	mined, blocks := killedChild(t, dir)
	c := mustStart(t, Options{DataDir: dir})
	if head := c.head().Number.Uint64(); head+1 < blocks { // the newest may not be fully written
		t.Errorf("the head was block %d and is %d", blocks, head)
	}
	if c.receipt(mined) == nil {
		t.Error("an early transaction is lost")
	}
	tx := c.send(Key(0), 1)
	c.mine(1)
	if c.receipt(tx) == nil {
		t.Error("the chain does not go on")
	}
}

func child(t *testing.T, dir string) {
	c := mustStart(t, Options{DataDir: dir, Period: 10 * time.Millisecond})
	tx := c.send(Key(0), 0)
	c.await("a receipt", func() bool { return c.receipt(tx) != nil })
	fmt.Println("mined", tx.Hex())
	from := c.head().Number.Uint64()
	c.await("100 blocks", func() bool { return c.head().Number.Uint64() >= from+100 })
	fmt.Println("head", c.head().Number)
	select {}
}

func killedChild(t *testing.T, dir string) (mined common.Hash, blocks uint64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), "DEVCHAIN_TEST_CHILD="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if hash, ok := strings.CutPrefix(lines.Text(), "mined "); ok {
			mined = common.HexToHash(hash)
		}
		if n, err := fmt.Sscanf(lines.Text(), "head %d", &blocks); n == 1 && err == nil {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if blocks == 0 {
		t.Fatal("the child made no blocks")
	}
	return mined, blocks
}
