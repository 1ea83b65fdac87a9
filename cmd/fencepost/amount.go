package main

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/txn"
)

// units are those that an amount may be given in, and how many decimals each has.
var units = []struct {
	name     string
	decimals int
}{{"gwei", 9}, {"ether", 18}, {"wei", 0}}

// parseAmount turns "0.1ether", "30gwei", "5wei" or "5" into wei, exactly: a fraction with more digits than the unit has is refused, not rounded.
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
		return "", fmt.Errorf(
			"%q is not an amount; give wei, like 1000, or a unit with it, like 0.1ether or 30gwei",
			text)
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > decimals && decimals == 0 {
		return "", fmt.Errorf(
			"%q is no whole number of wei; give one, or another unit, like 0.1ether or 30gwei",
			text)
	}
	if len(fraction) > decimals {
		return "", fmt.Errorf("%q has a part of a wei; give at most %d decimals", text, decimals)
	}
	wei := strings.TrimLeft(whole+fraction+strings.Repeat("0", decimals-len(fraction)), "0")
	if wei == "" {
		wei = "0"
	}
	if _, err := txn.ParseWei(wei); err != nil {
		return "", fmt.Errorf(
			"%q is above 2^256-1 wei, the most that a transaction can carry; give less", text)
	}
	return wei, nil
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
