package counter

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/vm/runtime"
)

func TestCounter_PerCaller(t *testing.T) {
	t.Parallel()
	cfg := &runtime.Config{Origin: common.Address{1}, GasLimit: 10_000_000, Value: new(big.Int)}
	_, address, _, err := runtime.Create(InitCode(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := map[common.Address]uint64{{1}: 3, {2}: 1, {3}: 0}
	for caller, n := range want {
		cfg.Origin = caller
		for range n {
			if _, _, err := runtime.Call(address, Increment(), cfg); err != nil {
				t.Fatal(err)
			}
		}
	}
	for caller, n := range want {
		answer, _, err := runtime.Call(address, Query(caller), cfg)
		if err != nil || Count(answer) != n {
			t.Errorf("count of %s is %d (%v), want %d", caller, Count(answer), err, n)
		}
	}
}
