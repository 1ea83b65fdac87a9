//go:build !race

package txn

const raced = false
