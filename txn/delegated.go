package txn

import (
	"fmt"
	"slices"
)

// The nonce of an account with code (EIP-7702) can rise without a transaction of its own: by
// another authorization, or if the code creates a contract. Then the account is protected, as after
// any use of its nonce elsewhere (L10). So Fencepost sends only for those whose code an operator
// accepts.

// acceptsCode reports whether the account has no code, as far as it was read, or delegates to code
// that the policy accepts.
func (v *View) acceptsCode() bool {
	a := v.Account
	return a == nil || !a.HasCode ||
		a.Delegate != (Address{}) && slices.Contains(v.Policy.AllowCode, a.Delegate)
}

// hasCode explains why the code of the account is not accepted.
func (v *View) hasCode() string {
	if v.Account.Delegate == (Address{}) {
		return "the account is a contract, whose code can raise its nonce; use another account"
	}
	return fmt.Sprintf("the account delegates to the code of %s (EIP-7702), which can raise its "+
		"nonce without a Fencepost transaction; remove the delegation, use another account, or "+
		"accept this code in allow_code of the chain", v.Account.Delegate.Hex())
}

// limit returns how many nonces may be in flight. Pools keep one transaction of an account with
// code, because a use of its nonce elsewhere would make the others void (go-ethereum: legacypool,
// ErrInflightTxLimitReached).
func (v *View) limit() int {
	if v.Account != nil && v.Account.HasCode {
		return 1
	}
	return v.Submitter.Limit
}
