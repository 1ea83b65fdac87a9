package sign

import (
	"testing"

	"github.com/ethereum/go-ethereum/accounts/keystore"
)

// The default strength is the strong one. Such a key takes seconds under the race detector, so the
// other tests use weak ones.
func TestScryptStrengths(t *testing.T) {
	t.Parallel()
	var unnamed Strength
	if n, p := unnamed.scrypt(); n != keystore.StandardScryptN || p != keystore.StandardScryptP {
		t.Errorf("by default scrypt has n %d and p %d", n, p)
	}
	if n, p := Light.scrypt(); n != keystore.LightScryptN || p != keystore.LightScryptP {
		t.Errorf("light scrypt has n %d and p %d", n, p)
	}
}
