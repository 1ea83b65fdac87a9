//go:build race

package server

// raced reports that the race detector is on, which makes stack frames larger.
const raced = true
