package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

func TestShownRunway(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0:                         "0s",
		90 * time.Minute:          "1h30m0s",
		2 * day:                   "48h0m0s",
		2*day + time.Minute:       "2d",
		40*day + 23*time.Hour:     "40d",
		10 * 365 * 24 * time.Hour: "3650d",
	} {
		if got := shownRunway(durationpb.New(d)); got != want {
			t.Errorf("%v is shown as %s, want %s", d, got, want)
		}
	}
	if got := shownRunway(nil); got != "-" {
		t.Errorf("unknown is shown as %s", got)
	}
}

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
