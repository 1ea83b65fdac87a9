package chain

import (
	"regexp"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/txn"
)

var (
	comparison = regexp.MustCompile(`\bnonce ` + few + `(lower|less|smaller|below|behind|higher|greater|larger|bigger|ahead|exceeds|<|>)`)
	ledgerSide = regexp.MustCompile(`\b(account|state|current|next|expected|on chain|chain|pending)s? nonce `)
	lowWords   = []string{"lower", "less", "smaller", "below", "behind", "<"}
)

func nonceCompared(text string) txn.Class {
	at := comparison.FindStringSubmatchIndex(text)
	if at == nil {
		return nonceByNumbers(text)
	}
	low := slices.Contains(lowWords, strings.TrimSpace(text[at[len(at)-2]:at[len(at)-1]]))
	before := text[:at[0]] + "nonce "
	if ledgerSide.MatchString(before[max(0, len(before)-20):]) {
		low = !low
	}
	if low {
		return txn.NonceTooLow
	}
	return txn.NonceGap
}
