package main

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/txn"
)

// units are the units of amounts, with their decimals.
var units = []struct {
	name     string
	decimals int
}{{"gwei", 9}, {"ether", 18}, {"wei", 0}}

// amountForms is the remedy of an invalid amount.
const amountForms = "give a whole number of wei, like 1000, or a unit (wei, gwei or ether), " +
	"like 0.1ether"

// parseAmount converts "0.1ether", "30gwei", "5wei" or "5" to wei exactly. A fraction with more
// digits than the unit has is rejected, not rounded.
func parseAmount(text string) (string, error) {
	digits, decimals := text, 0
	for _, u := range units {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			digits, decimals = strings.TrimSpace(number), u.decimals
			break
		}
	}
	whole, fraction, hasPoint := strings.Cut(digits, ".")
	if !isDigits(whole) || hasPoint && !isDigits(fraction) {
		return "", fmt.Errorf("%q is not an amount; %s", text, amountForms)
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > decimals && decimals == 0 {
		return "", fmt.Errorf("%q is not a whole number of wei; %s", text, amountForms)
	}
	if len(fraction) > decimals {
		return "", fmt.Errorf(
			"%q has a fraction of a wei; give at most %d decimals", text, decimals,
		)
	}
	wei := strings.TrimLeft(whole+fraction+strings.Repeat("0", decimals-len(fraction)), "0")
	if wei == "" {
		wei = "0"
	}
	if _, err := txn.ParseWei(wei); err != nil {
		return "", fmt.Errorf(
			"%q is above the maximum of 2^256-1 wei", text)
	}
	return wei, nil
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
