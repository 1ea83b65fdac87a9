package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// field is a name and a value; an empty value is not shown.
type field struct{ name, value string }

// fields writes one field per line.
func fields(all []field) func(io.Writer) error {
	return func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, f := range all {
			if f.value != "" && f.value != "-" {
				fmt.Fprintf(t, "%s\t%s\n", f.name, plain(f.value))
			}
		}
		if err := t.Flush(); err != nil {
			return fmt.Errorf("print the fields: %w", err)
		}
		return nil
	}
}

// shownPayload is the recipient and the data of a payload.
func shownPayload(payload *pb.Payload) (to, data string) {
	if to = payload.GetTo(); to == "" {
		to = "(creates a contract)"
	}
	if len(payload.GetData()) > 0 {
		data = "0x" + hex.EncodeToString(payload.GetData())
	}
	return to, data
}

func txFields(tx *pb.Tx) []field {
	to, data := shownPayload(tx.GetPayload())
	all := []field{
		{
			"tx_id",
			tx.GetTxId(),
		}, {"submitter", tx.GetSubmitter()}, {"request_id", tx.GetRequestId()},
		{
			"state",
			shownState(tx.GetState(), tx.GetSubState()),
		}, {"version", number(tx.GetVersion())},
		{"executed", strings.TrimPrefix(tx.GetExecuted().String(), "EXECUTED_")},
		{
			"reason",
			tx.GetReason(),
		}, {"last_error", tx.GetLastError()}, {"what_to_do", remedy(tx)},
		{"cancel_requested", yes(tx.GetCancelRequested())},
		{"retry_safe", yes(tx.GetRetrySafe())},
		{
			"to",
			to,
		}, {"value", tx.GetPayload().GetValue() + " wei"}, {"data", data},
		{"gas_limit", number(tx.GetPayload().GetGasLimit())},
	}
	all = append(append(all, termsFields(tx.GetTerms())...),
		field{"labels", shownLabels(tx.GetLabels())}, field{"tx_hash", tx.GetTxHash()})
	if r := tx.GetReceipt(); r != nil {
		all = append(
			all,
			field{"block", fmt.Sprintf("%d %s", r.GetBlockNumber(), r.GetBlockHash())},
			field{"included", shownIncludedKind(r)},
			field{
				"gas",
				fmt.Sprintf("%d at %s", r.GetGasUsed(), gwei(r.GetEffectiveGasPrice())),
			},
			field{"contract", r.GetContractAddress()},
			field{"logs", shownCount(r.LogCount)},
			field{"cumulative_gas", shownCount(r.CumulativeGasUsed)},
			field{"confirmations", shownBlocks(tx.GetConfirmations())},
		)
	}
	if o := tx.GetOperator(); o != nil {
		all = append(all, operatorFields(o)...)
	}
	return append(all, field{"created", shownTime(tx.GetCreateTime())},
		field{"updated", shownTime(tx.GetUpdateTime())},
		field{"final", shownTime(tx.GetFinalTime())},
		field{"events_archived", shownTime(tx.GetEventsArchiveTime())},
		field{"archived", shownTime(tx.GetArchiveTime())})
}

func shownLabels(labels map[string]string) string {
	texts := []string{}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		texts = append(texts, key+"="+labels[key])
	}
	return strings.Join(texts, " ")
}

func operatorFields(o *pb.OperatorDetails) (all []field) {
	if o.Nonce != nil {
		all = append(all, field{"nonce", strconv.FormatUint(o.GetNonce(), 10)})
	}
	all = append(all, field{"caller", o.GetCaller()},
		field{"broadcasts", number(uint64(o.GetSubmitAttempts()))},
		field{"last_broadcast", shownTime(o.GetLastSubmitTime())},
		field{"diagnosis", o.GetDiagnosis()},
		field{"fencing_token", number(uint64(o.GetFencingToken()))})
	for _, a := range o.GetAttempts() {
		text := shownAttempt(a)
		if a.GetAttemptNo() == o.GetAcceptedAttempt() {
			text += " (newest accepted by a node)"
		}
		all = append(all, field{attemptName(a), text})
	}
	return all
}

func attemptName(a *pb.Attempt) string { return fmt.Sprintf("attempt %d", a.GetAttemptNo()) }

func shownAttempt(a *pb.Attempt) string {
	return fmt.Sprintf("%s %s, gas limit %d, fee cap %s, tip %s", a.GetKind(), a.GetTxHash(),
		a.GetGasLimit(), gwei(a.GetFeeCap()), gwei(a.GetTip()))
}

// shownIncludedKind is the kind of the included attempt; empty if unknown.
func shownIncludedKind(r *pb.Receipt) string {
	if r.GetKind() == "CANCEL" {
		return "CANCEL (the payload was not executed)"
	}
	return r.GetKind()
}

// shownBlocks is the range of the blocks; empty if there are none.
func shownBlocks(refs []*pb.BlockRef) string {
	switch n := len(refs); n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("block %d %s", refs[0].GetNumber(), refs[0].GetHash())
	default:
		return fmt.Sprintf("blocks %d to %d %s", refs[0].GetNumber(), refs[n-1].GetNumber(),
			refs[n-1].GetHash())
	}
}

// shownCount is a number that may be unknown; empty if it is.
func shownCount[N uint32 | uint64](n *N) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(uint64(*n), 10)
}

// number formats a number; empty for zero, which means "not yet" or "default".
func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
