package endpoint

import "testing"

// The scheme of a URL has no case: HTTPS must not become plain text with a token.
func TestEndpoint_Secure(t *testing.T) {
	t.Parallel()
	for url, secure := range map[string]bool{
		"https://signer:7443": true, "HTTPS://signer:7443": true, "Https://signer": true,
		"http://127.0.0.1:7443": false, "": false,
	} {
		if got := (Endpoint{URL: url}).Secure(); got != secure {
			t.Errorf("%q is secure: %t", url, got)
		}
	}
}
