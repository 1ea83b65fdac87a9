package main

import (
	"testing"
	"time"
)

func TestSpan_Beyond(t *testing.T) {
	t.Parallel()
	base := time.Now()
	at := func(from, to int) span {
		ms := func(n int) time.Time { return base.Add(time.Duration(n) * time.Millisecond) }
		return span{ms(from), ms(to)}
	}
	tests := []struct {
		name   string
		stalls []span
		want   time.Duration
	}{
		{"none", nil, 100 * time.Millisecond},
		{"before and after", []span{at(0, 90), at(210, 300)}, 100 * time.Millisecond},
		{"within", []span{at(120, 150), at(160, 170)}, 60 * time.Millisecond},
		{"over both ends", []span{at(50, 110), at(190, 400)}, 80 * time.Millisecond},
		{"throughout", []span{at(0, 400)}, 0},
	}
	for _, test := range tests {
		if got := at(100, 200).beyond(test.stalls); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
