package config

import (
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
)

func TestKinds(t *testing.T) {
	t.Parallel()
	takes(
		t,
		span(time.Second, time.Hour),
		map[string]time.Duration{
			"1s":     time.Second,
			"1h":     time.Hour,
			"1m30s":  90 * time.Second,
			"1500ms": 1500 * time.Millisecond,
		},
	)
	refuses(t, span(time.Second, time.Hour), map[string]string{
		"5": "has no unit", "1.5": "has no unit", "999ms": "out of range", "61m": "out of range",
		"-5s": "out of range", "soon": "not a duration",
	})
	takes(t, whole(1, 10), map[string]int{"1": 1, "10": 10, "07": 7})
	refuses(
		t,
		whole(1, 10),
		map[string]string{
			"0":                    "out of range",
			"11":                   "out of range",
			"-1":                   "decimal digits",
			"1.0":                  "decimal digits",
			"0x5":                  "decimal digits",
			"1e1":                  "decimal digits",
			"99999999999999999999": "decimal digits",
		},
	)
	takes(t, orZero(whole(5, 10)), map[string]int{"0": 0, "5": 5, "10": 10})
	refuses(t, orZero(whole(5, 10)),
		map[string]string{"4": "out of range", "00": "out of range", "": "decimal digits"})
	takes(t, number(1, 10), map[string]float64{"1": 1, "1.25": 1.25, "10": 10})
	refuses(
		t,
		number(1, 10),
		map[string]string{
			"0.99": "out of range",
			"10.1": "out of range",
			"NaN":  "out of range",
			"Inf":  "out of range",
			"x":    "not a number",
		},
	)
	refuses(
		t,
		oneOf("debug", "info"),
		map[string]string{
			"inof":        `did you mean "info"?`,
			"INFORMATION": "not one of",
			"Info":        `did you mean "info"?`,
		},
	)
	takes(t, yesNo(), map[string]bool{"true": true, "false": false})
	refuses(
		t,
		yesNo(),
		map[string]string{
			"yes":  "neither",
			"True": "neither true nor false",
			"1":    "neither",
			"":     "neither",
		},
	)
	takes(
		t,
		label(),
		map[string]string{
			"a":                     "a",
			"hot-1.x_y":             "hot-1.x_y",
			strings.Repeat("a", 64): strings.Repeat("a", 64),
		},
	)
	refuses(
		t,
		label(),
		map[string]string{
			"A":                     "wrong format",
			"1a":                    "wrong format",
			"a b":                   "wrong format",
			"a\n":                   "wrong format",
			strings.Repeat("a", 65): "wrong format",
		},
	)
	takes(t, listener(),
		map[string]string{":1": ":1", "[::1]:9090": "[::1]:9090", "host:0": "host:0"})
	refuses(
		t,
		listener(),
		map[string]string{
			"9090":     "host:port",
			"h:":       "not a port",
			"h:65536":  "65535",
			"h:http":   "not a port",
			"::1:9090": "host:port",
		},
	)
}

func TestKinds_Chain(t *testing.T) {
	t.Parallel()
	const sum = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
	a := common.HexToAddress(sum)
	takes(
		t,
		account(),
		map[string]common.Address{
			sum:                             a,
			strings.ToLower(sum):            a,
			"0x" + strings.ToUpper(sum[2:]): a,
		},
	)
	refuses(t, account(), map[string]string{
		sum[2:]: "not an address", sum + "0": "not an address", sum[:41]: "not an address",
		"0xg" + sum[3:]:                         "not an address",
		strings.Replace(sum, "F6F4", "f6F4", 1): "wrong EIP-55 checksum",
		"0x" + strings.Repeat("0", 40):          "zero address",
	})
	hash := "0x" + strings.Repeat("ab", 32)
	takes(t, blockHash(), map[string]common.Hash{hash: common.HexToHash(hash)})
	refuses(
		t,
		blockHash(),
		map[string]string{
			hash[2:]:    "not a block hash",
			hash + "ab": "not a block hash",
			sum:         "not a block hash",
		},
	)
	wei := func(n uint64) uint256.Int { return *uint256.NewInt(n) }
	takes(
		t,
		gwei("0"),
		map[string]uint256.Int{
			"0":           wei(0),
			"1":           wei(1e9),
			"0.000000001": wei(1),
			"1.5":         wei(15e8),
			"500":         wei(500e9),
			"1000000000":  wei(1e18),
		},
	)
	refuses(
		t,
		gwei("0"),
		map[string]string{
			"1.0000000001": "up to 9 decimals",
			"-1":           "not an amount",
			"1e3":          "not an amount",
			"1/3":          "not an amount",
			"":             "not an amount",
			".5":           "not an amount",
			"1000000001":   "out of range",
		},
	)
	refuses(t, gwei("0.000000001"), map[string]string{"0": "0.000000001"})
}

// Errors of neither kind of URL quote the URL.
func TestKinds_URLs(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"postgres://u:p@127.0.0.1:5432/d?sslmode=disable", "postgresql://localhost/d",
		"postgres:///d?host=/run/postgresql",
		"postgres://one:1,two:2/d?sslmode=verify-full&target_session_attrs=read-write",
	} {
		if s, err := postgres().parse(good); err != nil || s.Reveal() != good {
			t.Errorf("%s became %s, %v", good, s.Reveal(), err)
		}
	}
	for _, good := range []string{"http://h", "https://h/key", "ws://h:8546",
		"wss://u:p@h/?key=k"} {
		if s, err := endpoint().parse(good); err != nil || s.Reveal() != good {
			t.Errorf("%s became %s, %v", good, s.Reveal(), err)
		}
	}
	for _, hush := range []string{"hush", "mysql://hush/d", "postgres:///hush",
		"host=hush dbname=d", "postgres://u:hush%@h/d", "postgres://u:hush@[h/d", "ftp://hush",
		"http://", "http:///hush", "https://hush:x"} {
		_, err := postgres().parse(hush)
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("database %s: %v", hush, err)
		}
		if _, err := endpoint().parse(hush); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("endpoint %s: %v", hush, err)
		}
	}
}

func takes[V comparable](t *testing.T, k kind[V], good map[string]V) {
	t.Helper()
	for text, want := range good {
		if got, err := k.parse(text); err != nil || got != want {
			t.Errorf("%s: %q became %v, %v; want %v", k.about, text, got, err, want)
		}
	}
}

func refuses[V any](t *testing.T, k kind[V], wrongs map[string]string) {
	t.Helper()
	for text, want := range wrongs {
		if _, err := k.parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q gave %v, want %q in it", k.about, text, err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	keys := []string{"duration", "renew_interval", "idle_after"}
	for text, want := range map[string]string{
		"duraton": "duration", "durations": "duration", "udration": "duration",
		"renew-interval": "renew_interval", "renewinterval": "renew_interval", "idle": "",
		"xyz": "", "": "",
	} {
		if got := nearest(text, keys); got != want {
			t.Errorf("nearest to %q is %q, want %q", text, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{time.Hour: "1h", time.Minute: "1m",
		90 * time.Second: "1m30s", time.Hour + time.Second: "1h0m1s",
		250 * time.Millisecond: "250ms", 0: "0s", 10 * time.Second: "10s",
		20 * time.Minute: "20m"} {
		if got := short(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}
