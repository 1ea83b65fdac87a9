//go:build race

package server

// raceEnabled reports that the race detector is on, which makes stack frames larger.
const raceEnabled = true
