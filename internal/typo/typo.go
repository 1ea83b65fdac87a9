// Package typo finds the name that a misspelled one most likely means.
package typo

// Nearest returns the candidate with the fewest edits from text, if those are at most limit; else
// the empty string. An edit inserts, deletes or replaces a letter, or swaps two neighbours.
func Nearest(text string, candidates []string, limit int) string {
	best, fewest := "", limit+1
	for _, candidate := range candidates {
		if d := distance(text, candidate); d < fewest {
			best, fewest = candidate, d
		}
	}
	return best
}

// distance is the optimal string alignment distance of two texts, in bytes.
func distance(a, b string) int {
	before := []int{}
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
		row = make([]int, len(b)+1)
	}
	return last[len(b)]
}
