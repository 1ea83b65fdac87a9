package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// TestLog_Unsigned_NoHash verifies that a log line about an unsigned transaction has no hash.
func TestLog_Unsigned_NoHash(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	a := &actor{log: slog.New(slog.NewTextHandler(&log, nil))}
	a.logMove(&txn.Tx{}, &txn.Write{Kind: txn.EventDelayed})
	signed := txn.Tx{}
	signed.TxHash = txn.Hash{1}
	a.logMove(&signed, &txn.Write{Kind: txn.EventStuck})
	lines := strings.Split(log.String(), "\n")
	if strings.Contains(lines[0], "tx_hash") || !strings.Contains(lines[1], "tx_hash=0x01") {
		t.Error(log.String())
	}
}
