package hosts

import "net/netip"

// reserved are networks that are not public and that netip does not name.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // carrier-grade NAT
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast
	// the metadata service of Azure, which is not link-local as those of other clouds
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("2001::/23"),     // protocol assignments, Teredo among them
	netip.MustParsePrefix("2001:db8::/32"), // documentation
	netip.MustParsePrefix("2002::/16"),     // 6to4: reaches any IPv4 address
	netip.MustParsePrefix("3fff::/20"),     // documentation
}

// unicast6 has all public addresses of IPv6. Outside of it are, among others, those of NAT64 and
// the compatible and translated ones, which reach any IPv4 address.
var unicast6 = netip.MustParsePrefix("2000::/3")

// Public reports whether an address is one of the internet: not private, link-local, loopback or
// reserved.
func Public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	if a.Is6() && !unicast6.Contains(a) {
		return false
	}
	for _, p := range reserved {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
