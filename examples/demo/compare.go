package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/counter"
)

// compare prints the counts of chain and ledger for each account. It fails if they differ.
func (d *demo) compare(ctx context.Context, out io.Writer, contract common.Address,
	accounts []*fencepostv1.Submitter, confirmed map[string]int) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table,
		"\nACCOUNT\tCALLS CONFIRMED (LEDGER)\tCALLS COUNTED (CHAIN)\tNEXT NONCE (LEDGER)\tNEXT "+
			"NONCE (CHAIN)\t")
	differ := 0
	for _, a := range accounts {
		address := common.HexToAddress(a.GetAddress())
		answer, err := d.chain.CallContract(ctx,
			ethereum.CallMsg{To: &contract, Data: counter.Query(address)}, nil)
		if err != nil {
			return fmt.Errorf("read the counter of %s: %w", a.GetName(), err)
		}
		nonce, err := d.chain.NonceAt(ctx, address, nil)
		if err != nil {
			return fmt.Errorf("read the nonce of %s: %w", a.GetName(), err)
		}
		now, err := d.submitters.GetSubmitter(ctx,
			&fencepostv1.GetSubmitterRequest{Submitter: a.GetName()})
		if err != nil {
			return err
		}
		verdict := "equal"
		if counter.Count(answer) != uint64(confirmed[a.GetName()]) ||
			nonce != now.GetSubmitter().GetNextNonce() {
			verdict = "DIFFERENT"
			differ++
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\n", a.GetName(), confirmed[a.GetName()],
			counter.Count(answer), now.GetSubmitter().GetNextNonce(), nonce, verdict)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if differ > 0 {
		return errors.New("chain and ledger differ")
	}
	return nil
}
