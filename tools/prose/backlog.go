package main

import (
	"fmt"
	"strings"
)

// backlogFile lists the folders that are still to be rewritten, each with the number of findings
// that it has: "engine 120". The numbers may only fall, and the file goes when all are 0.
const backlogFile = "tools/prose/backlog.txt"

// beyondBacklog returns the findings of folders with more findings than their backlog. A folder
// with fewer is an error: the backlog must be lowered.
func beyondBacklog(found []finding, backlog string) ([]finding, error) {
	allowed := map[string]int{}
	for line := range strings.Lines(backlog) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		var folder string
		var n int
		if _, err := fmt.Sscanf(line, "%s %d", &folder, &n); err != nil {
			return nil, fmt.Errorf("%s: %q is not \"folder number\"", backlogFile, line)
		}
		allowed[folder] = n
	}
	count := map[string]int{}
	for _, f := range found {
		count[top(f.file)]++
	}
	for folder, n := range allowed {
		if count[folder] < n {
			return nil, fmt.Errorf("%s: %s has only %d findings left; write that instead of %d",
				backlogFile, folder, count[folder], n)
		}
	}
	var beyond []finding
	for _, f := range found {
		if count[top(f.file)] > allowed[top(f.file)] {
			beyond = append(beyond, f)
		}
	}
	return beyond, nil
}

func top(file string) string {
	folder, _, _ := strings.Cut(file, "/")
	return folder
}
