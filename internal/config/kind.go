package config

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
)

// kind is the format of a value. Errors of parse have the type wrong.
type kind[V any] struct {
	about string // for the reference
	parse func(text string) (V, error)
}

func bad[V any](remedy, what string, args ...any) (V, error) {
	var zero V
	return zero, wrong{fmt.Sprintf(what, args...), remedy}
}

func span(least, most time.Duration) kind[time.Duration] {
	about := fmt.Sprintf("duration, %s to %s", short(least), short(most))
	return kind[time.Duration]{about, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if _, number := strconv.ParseFloat(text, 64); err != nil && number == nil {
			return bad[time.Duration](fmt.Sprintf("add a unit, for example %ss", text),
				"%q has no unit", text)
		}
		if err != nil {
			return bad[time.Duration]("write a number and a unit, for example 250ms, 10s or 1m30s",
				"%q is not a duration", text)
		}
		if d < least || d > most {
			return bad[time.Duration](
				fmt.Sprintf("use a value from %s to %s", short(least), short(most)),
				"%s is out of range", text)
		}
		return d, nil
	}}
}

// short formats a duration like time.Duration.String, without trailing zero units: 1h instead of
// 1h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// orZero extends a kind by zero, outside its range.
func orZero[V any](k kind[V]) kind[V] {
	return kind[V]{"0, or " + k.about, func(text string) (V, error) {
		if text == "0" {
			var zero V
			return zero, nil
		}
		return k.parse(text)
	}}
}

// orWord extends a kind by a word that means zero.
func orWord[V any](word string, k kind[V]) kind[V] {
	return kind[V]{word + ", or " + k.about, func(text string) (V, error) {
		if text == word {
			var zero V
			return zero, nil
		}
		return k.parse(text)
	}}
}

func whole[N int | uint32 | uint64](least, most N) kind[N] {
	about := fmt.Sprintf("whole number, %d to %d", least, most)
	return kind[N]{about, func(text string) (N, error) {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return bad[N](fmt.Sprintf("use a value from %d to %d", least, most),
				"%q is not a whole number of decimal digits", text)
		}
		if n < uint64(least) || n > uint64(most) {
			return bad[N](fmt.Sprintf("use a value from %d to %d", least, most),
				"%s is out of range",
				text)
		}
		return N(n), nil
	}}
}

func number(least, most float64) kind[float64] {
	about := fmt.Sprintf("number, %g to %g", least, most)
	return kind[float64]{about, func(text string) (float64, error) {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return bad[float64](fmt.Sprintf("use a value from %g to %g", least, most),
				"%q is not a number", text)
		}
		if !(n >= least && n <= most) { // rejects NaN too
			return bad[float64](fmt.Sprintf("use a value from %g to %g", least, most),
				"%s is out of range", text)
		}
		return n, nil
	}}
}

func oneOf(choices ...string) kind[string] {
	list := strings.Join(choices, ", ")
	return kind[string]{"one of " + list, func(text string) (string, error) {
		if slices.Contains(choices, text) {
			return text, nil
		}
		if meant := nearest(text, choices); meant != "" {
			return bad[string](fmt.Sprintf("did you mean %q?", meant), "%q is not one of %s", text,
				list)
		}
		return bad[string]("use one of them", "%q is not one of %s", text, list)
	}}
}

func yesNo() kind[bool] {
	return kind[bool]{"true or false", func(text string) (bool, error) {
		switch text {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return bad[bool]("write true or false", "%q is neither true nor false", text)
	}}
}

func matching(about, pattern string) kind[string] {
	expression := regexp.MustCompile("^(?:" + pattern + ")$")
	return kind[string]{about, func(text string) (string, error) {
		if !expression.MatchString(text) {
			return bad[string]("use "+about, "%q has the wrong format", text)
		}
		return text, nil
	}}
}

// label is the name of a chain, signer or submitter; the API requires the same format for
// submitters.
func label() kind[string] {
	return matching(`1 to 64 of a-z, 0-9, "-", "_" and ".", starting with a letter`,
		`[a-z][a-z0-9._-]{0,63}`)
}

func path() kind[string] {
	return kind[string]{"path", func(text string) (string, error) { return text, nil }}
}

func listener() kind[string] {
	return kind[string]{"host:port", func(text string) (string, error) {
		_, port, err := net.SplitHostPort(text)
		if err != nil {
			return bad[string](
				"write host:port, for example 127.0.0.1:9090, or :9090 for all interfaces",
				"%q is not an address to listen on", text)
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return bad[string]("use 1 to 65535, or 0 for any free port", "%q is not a port",
				port)
		}
		return text, nil
	}}
}

// postgres parses a database URL. Errors never quote the input.
func postgres() kind[Secret] {
	return kind[Secret]{
		"postgres://user:password@host:port/database",
		func(text string) (Secret, error) {
			u, err := url.Parse(text)
			if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
				return bad[Secret](
					"write postgres://user:password@host:port/database, with special "+
						"characters of the password percent-encoded",
					"not a PostgreSQL URL")
			}
			if u.Host == "" && u.Query().Get("host") == "" {
				return bad[Secret]("add a host after //, or ?host=/folder for a Unix socket",
					"the PostgreSQL URL has no host")
			}
			secured(u)
			return databaseURL(u), nil
		},
	}
}

// endpoint parses an RPC URL. Errors never quote the input.
func endpoint() kind[Secret] {
	return kind[Secret]{"http, https, ws or wss URL", func(text string) (Secret, error) {
		u, err := url.Parse(text)
		if err != nil || !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme) ||
			u.Host == "" {
			return bad[Secret](
				"write the address of a JSON-RPC endpoint, for example http://127.0.0.1:8545",
				"not an http, https, ws or wss URL with a host")
		}
		return NewSecret(text), nil
	}}
}

func account() kind[common.Address] {
	return kind[common.Address]{
		`"0x" and 40 hex digits; mixed case must be the EIP-55 checksum`,
		func(text string) (common.Address, error) {
			digits, prefixed := strings.CutPrefix(text, "0x")
			raw, err := hex.DecodeString(digits)
			if !prefixed || err != nil || len(raw) != common.AddressLength {
				return bad[common.Address]("write \"0x\" and 40 hex digits", "%q is not an address",
					text)
			}
			a := common.Address(raw)
			if digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) &&
				a.Hex() != text {
				return bad[common.Address]("check the address for a mistyped digit or letter case",
					"%q has a wrong EIP-55 checksum", text)
			}
			if a == (common.Address{}) {
				return bad[common.Address](
					"write the address of an account that the signer has the key of",
					"the zero address cannot send transactions")
			}
			return a, nil
		},
	}
}

func blockHash() kind[common.Hash] {
	return kind[common.Hash]{`"0x" and 64 hex digits`, func(text string) (common.Hash, error) {
		digits, prefixed := strings.CutPrefix(text, "0x")
		raw, err := hex.DecodeString(digits)
		if !prefixed || err != nil || len(raw) != common.HashLength {
			return bad[common.Hash]("write \"0x\" and 64 hex digits", "%q is not a block hash",
				text)
		}
		return common.Hash(raw), nil
	}}
}

// gwei parses an amount in gwei with a precision of 1 wei. The minimum is "0", or "0.000000001"
// where zero has another meaning.
func gwei(least string) kind[uint256.Int] {
	const most = 1_000_000_000 // one whole coin for a unit of gas
	form := regexp.MustCompile(`^[0-9]{1,10}(\.[0-9]{1,9})?$`)
	floor, _ := new(big.Rat).SetString(least)
	about := fmt.Sprintf("gwei, %s to %d, with up to 9 decimals", least, most)
	return kind[uint256.Int]{about, func(text string) (uint256.Int, error) {
		amount, ok := new(big.Rat).SetString(text)
		if !form.MatchString(text) || !ok {
			return bad[uint256.Int]("write a number such as 500 or 0.001",
				"%q is not an amount in gwei with up to 9 decimals", text)
		}
		if amount.Cmp(floor) < 0 || amount.Cmp(big.NewRat(most, 1)) > 0 {
			return bad[uint256.Int](fmt.Sprintf("use %s to %d gwei", least, most),
				"%s is out of range", text)
		}
		wei := amount.Mul(amount, big.NewRat(1e9, 1)).Num()
		return *uint256.MustFromBig(wei), nil
	}}
}

func optional[V any](k kind[V]) kind[*V] {
	return kind[*V]{k.about, func(text string) (*V, error) {
		v, err := k.parse(text)
		return &v, err
	}}
}

func anyPort(address string) bool { return strings.HasSuffix(address, ":0") }
