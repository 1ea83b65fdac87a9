package hosts

import (
	"net/netip"
	"testing"
)

func TestPublic_Addresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1": true, "127.0.0.1": false, "10.1.2.3": false,
		"172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.1.1": false,
		"0.0.0.0": false, "::1": false, "fe80::1": false, "fc00::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "64:ff9b::a00:1": false,
		"224.0.0.1": false, "255.255.255.255": false, "2002:7f00:1::": false, "::": false,
		"168.63.129.16": false, "::7f00:1": false, "::ffff:0:a00:1": false, "fd00:ec2::254": false,
		"64:ff9b:1::a00:1": false, "100::1": false, "2001:2::1": false, "3fff::1": false,
		"fec0::1": false, "5f00::1": false, "2a00:1450:4001::1": true, "2001:4860:4860::8888": true,
	} {
		if got := Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
