package config

import "testing"

func TestPolicyKinds(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{
		"0xa9059cbb": true, "0xA9059CBB": true, "a9059cbb": false, "0xa9059c": false, "": false,
		"0xa9059cbg": false,
	} {
		if _, err := selector().parse(text); (err == nil) != valid {
			t.Errorf("selector %q: %v", text, err)
		}
	}
	for text, valid := range map[string]bool{
		"0": true, "1000000000000000000": true, "1.5": false, "-1": false, "1e18": false,
		"01": false, "0x10": false,
		"115792089237316195423570985008687907853269984665640564039457584007913129639936": false,
	} {
		if _, err := wei().parse(text); (err == nil) != valid {
			t.Errorf("amount %q: %v", text, err)
		}
	}
}
