package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestNodes_DifferentModes_OneRegime: the mode belongs to the account, not to a node. A node whose
// configuration has another one works in the mode of the account.
func TestNodes_DifferentModes_OneRegime(t *testing.T) {
	t.Parallel()
	c := embedded(t, 250*time.Millisecond, 1)
	cl := prepareCluster(t, c, 2, nodeOptions{confirmations: 1, poll: 50 * time.Millisecond},
		freshDatabase(t))
	strict, other := cl.members[0], cl.members[1]
	strict.start(t)
	other.edit(t, "mode: strict", "mode: pipelined, max_in_flight: 16")
	var ids []string
	for i := range 4 {
		ids = append(ids, cl.members[0].create(t, strict.names[0], fmt.Sprint("call", i),
			&fencepostv1.Payload{To: crypto.PubkeyToAddress(c.keys[0].PublicKey).Hex()}).GetTxId())
	}
	other.start(t)
	strict.proc.kill()
	for _, id := range ids {
		other.await(t, id, 2*time.Minute)
	}
	got, err := other.GetSubmitter(t.Context(),
		&fencepostv1.GetSubmitterRequest{Submitter: strict.names[0]})
	if err != nil ||
		got.GetSubmitter().GetMode() != fencepostv1.SubmitterMode_SUBMITTER_MODE_STRICT {
		t.Fatalf("%v, %v", got, err)
	}
	var most int
	if err := cl.pool.QueryRow(t.Context(),
		"SELECT max(slot) FROM managed_tx").Scan(&most); err != nil || most != 0 {
		t.Errorf("slot %d was used, of an account with one nonce in flight (%v)", most, err)
	}
	other.proc.stop(t)
}
