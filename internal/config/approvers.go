package config

import "slices"

// Unapprovable is a caller with policy.approve_above whose transactions no other caller may approve
// on some accounts: there they wait until approval_timeout, and fail.
type Unapprovable struct {
	Key      string   // of approve_above
	Accounts []string // its submitters and pools without an approver; "*": all others
}

// Unapprovable lists such callers. The members of pools are in the ledger, and an approver of any
// account may approve for it: a pool has none only if no account has one.
func (c *Config) Unapprovable() (all []Unapprovable) {
	for i, of := range c.Callers {
		if of.Policy.ApproveAbove == nil || of.Policy.DryRun {
			continue
		}
		submitters, pools := c.approvable(i)
		u := Unapprovable{Key: c.Path("callers", i) + ".policy.approve_above"}
		for _, s := range of.Submitters {
			if !slices.Contains(submitters, s) {
				u.Accounts = append(u.Accounts, s)
			}
		}
		for _, p := range of.Pools {
			if len(submitters) == 0 && !slices.Contains(pools, p) {
				u.Accounts = append(u.Accounts, p)
			}
		}
		if len(u.Accounts) > 0 && !slices.Contains(submitters, "*") {
			all = append(all, u)
		}
	}
	return all
}

// approvable returns the accounts on which others than the i-th caller may approve.
func (c *Config) approvable(i int) (submitters, pools []string) {
	for k, by := range c.Callers {
		if k != i && (by.Approve || by.Operator()) {
			submitters = append(submitters, by.Submitters...)
			pools = append(pools, by.Pools...)
		}
	}
	return submitters, pools
}
