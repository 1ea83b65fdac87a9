//go:build !race

package main

// hugeShare divides the rows of a huge file.
const hugeShare = 1
