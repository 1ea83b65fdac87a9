package txn

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDecide_Unattended_Completes drives queues over a chain with reorgs of any depth and pools
// that drop transactions. There is no foreign use of the key, so no decision is needed: once faults
// stop, every transaction is final, and the protection of a reorg after finality ends automatically
// (L10).
func TestDecide_Unattended_Completes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := randomChain(t)
		c.view.Submitter.OnFailure = Continue
		c.view.Policy.PrepareMaxAge = 0
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			c.randomOwnEvent(t, int64(i+1))
			c.audit()
			c.everyNonceOnce(t)
		}
		clear(c.pool)
		for range 40 {
			c.wait(t, 2*time.Minute)
		}
		for range 10 {
			c.mine(chainBlock{})
			c.run(t, Accepted, accepted)
		}
		if cursor := c.view.Cursor; cursor != nil && cursor.Protected != nil ||
			len(c.view.Open)+len(c.view.Queue) > 0 {
			t.Fatalf(
				"waits for an operator: %+v, cursor %+v, the account's next nonce is %d; in "+
					"flight %+v",
				cursor.Protected, cursor, c.nonceAt(c.head), c.view.Open)
		}
	})
}

// randomOwnEvent applies one random event, except for foreign use of the key.
func (c *chained) randomOwnEvent(t *rapid.T, id int64) {
	switch rapid.IntRange(0, 10).Draw(t, "weather") {
	case 0:
		c.view.Now = c.view.Now.Add(
			time.Duration(rapid.IntRange(1, 300).Draw(t, "seconds")) * time.Second)
	case 1, 2:
		for range rapid.IntRange(1, 9).Draw(t, "blocks") {
			c.mine(chainBlock{})
		}
	case 3, 4:
		c.minePool(true, rapid.IntRange(0, 5).Draw(t, "which"))
	case 5:
		c.reorg(rapid.IntRange(1, 40).Draw(t, "reorg"), 40)
	case 6:
		clear(c.pool)
	case 7:
		for _, tx := range c.view.Open {
			kind := rapid.SampledFrom([]CommandKind{CommandCancel, CommandSpeedUp}).Draw(t, "kind")
			c.view.Commands = append(c.view.Commands,
				Command{ID: id<<8 + int64(len(c.view.Commands)), Kind: kind, Tx: tx.ID})
		}
	case 8, 9:
		c.run(t, Accepted, accepted)
	default:
		c.step(
			t,
			rapid.SampledFrom(
				[]Class{
					Accepted,
					AlreadyKnown,
					Unavailable,
					Ambiguous,
					ReplacementUnderpriced,
					Underpriced,
					PoolFull,
					Invalid,
					NonceGap,
				},
			).Draw(t, "answer"),
			accepted,
		)
	}
}
