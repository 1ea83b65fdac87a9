//go:build race

package main

// hugeShare divides the rows of a huge file; the race detector makes each slow.
const hugeShare = 20
