package sign

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ethereum/go-ethereum/crypto"
)

// TestVault_Page_LockedAndNotDumped reads the flags of the page from the kernel
// (proc_pid_smaps(5)): lo is locked in memory, dd left out of core dumps, dc left out of child
// processes.
func TestVault_Page_LockedAndNotDumped(t *testing.T) {
	t.Parallel()
	var v vault
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := v.keep(key)
	if err != nil {
		t.Fatal(err)
	}
	flags := flagsOf(t, uintptr(unsafe.Pointer(&s.bytes[0])))
	for _, flag := range []string{"lo", "dd", "dc"} {
		if has := slices.Contains(flags, flag); !has && (flag != "lo" || v.unlocked == nil) {
			t.Errorf("the page of a key has the flags %v, without %s (%v)", flags, flag, v.unlocked)
		}
	}
}

// flagsOf returns the flags of the mapping of an address.
func flagsOf(t *testing.T, address uintptr) []string {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var from, to uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to); n == 2 {
			found = from <= address && address < to
		}
		if flags, is := strings.CutPrefix(lines.Text(), "VmFlags:"); is && found {
			return strings.Fields(flags)
		}
	}
	t.Fatal("the page is not mapped")
	return nil
}
