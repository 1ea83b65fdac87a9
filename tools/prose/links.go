package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s#]*)(?:#([^)\s]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// links finds the links of a document to a missing file or heading. It does not follow links to
// other sites.
func links(root, name, text string) []finding {
	// The head of a generated document becomes part of docs.
	name = strings.Replace(name, "tools/apidoc/", "docs/", 1)
	var found []finding
	for _, m := range link.FindAllStringSubmatchIndex(text, -1) {
		file, anchor := text[m[2]:m[3]], ""
		if m[4] >= 0 {
			anchor = text[m[4]:m[5]]
		}
		if strings.Contains(file, ":") {
			continue
		}
		target := name
		if file != "" {
			target = filepath.Join(filepath.Dir(name), file)
		}
		if !linked(filepath.Join(root, target), anchor) {
			whole := passage{document, 1, text}
			found = append(found, whole.finding("link: no such file or heading", m[0]))
		}
	}
	return found
}

func linked(path, anchor string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	if anchor == "" {
		return true
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		plain := dropped.ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(plain, " ", "-") == anchor {
			return true
		}
	}
	return false
}
