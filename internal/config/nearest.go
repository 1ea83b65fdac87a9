package config

// nearest returns the candidate that a misspelled text most likely means; empty if none is near.
func nearest(text string, candidates []string) string {
	best, bestDistance := "", 2+len(text)/4 // above this distance it is another word, not a typo
	for _, c := range candidates {
		if d := distance(text, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance returns the number of letters to insert, delete, replace or swap with a neighbour.
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
