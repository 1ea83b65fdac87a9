package main

import (
	"strings"
	"testing"
)

// A label's value is not evaluated by a spreadsheet that opens the table.
func TestWriteCSV_Formula_Text(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	rows := [][]string{{"1", `=HYPERLINK("http://x")`}, {"1", "@sum"}, {"1", "a=b"}, {"1", ""}}
	if err := writeCSV(&out, []string{"CHAIN", "KEY"}, rows); err != nil {
		t.Fatal(err)
	}
	want := "CHAIN,KEY\n1,\"'=HYPERLINK(\"\"http://x\"\")\"\n1,'@sum\n1,a=b\n1,\n"
	if out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}
