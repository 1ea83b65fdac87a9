package config

import "github.com/fencepost/fencepost/internal/typo"

// nearest returns the candidate that a misspelled text most likely means; empty if none is near.
func nearest(text string, candidates []string) string {
	return typo.Nearest(text, candidates, 1+len(text)/4)
}
