package main

import (
	"fmt"
	"strings"
	"testing"
)

// The file is valid, and every name in it is the name of a number that a run takes.
func TestBudgets(t *testing.T) {
	t.Parallel()
	all, err := readBudgets("budgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{
		"accept":        true,
		"accept.batch":  true,
		"growth.memory": true,
		"growth.burst":  true, "nonces.allocate": true,
		"policy": true, "policy.limited": true,
		"sink.kafka": true, "sink.kafka.paced": true, "sink.kafka.paced.lag": true,
	}
	for _, s := range sizes {
		for _, of := range []string{"create", "commit"} {
			taken[fmt.Sprintf("archive.%d.%s", s.archived, of)] = true
		}
		for _, e := range s.ends {
			taken["end."+e.name()] = true
		}
		for name := range s.growth.against() {
			taken[name[:strings.LastIndex(name, ".")]] = true
		}
		for _, w := range s.watches {
			taken[w.name()] = true
		}
	}
	for _, callers := range acceptCallers {
		taken[fmt.Sprintf("accept.%d", callers)] = true
	}
	for name := range all {
		scenario := name[:strings.LastIndex(name, ".")]
		if !taken[scenario] && !taken[strings.TrimSuffix(scenario, ".queries")] {
			t.Errorf("%s is of no scenario", name)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	most, least := 10.0, 0.5
	all := budgets{
		"count":          {Most: &most, Count: true},
		"time":           {Most: &most},
		"accept.64.rate": {Least: &least, Count: true},
	}
	for name, c := range map[string]struct {
		values map[string]float64
		check  bool
		broken string // empty: none
	}{
		"within":            {map[string]float64{"count": 10}, true, ""},
		"over":              {map[string]float64{"count": 10.1}, true, "count is 10.1"},
		"over, not checked": {map[string]float64{"count": 10.1}, false, ""},
		"a time over":       {map[string]float64{"count": 1, "time": 11}, true, ""},
		"a ratio below": {
			map[string]float64{"accept.64.rate": 49, "limit.insert.best": 100}, true,
			"accept.64.rate is 0.490",
		},
		"a ratio within": {
			map[string]float64{"accept.64.rate": 50, "limit.insert.best": 100}, true, "",
		},
		"a ratio without a limit": {
			map[string]float64{"count": 1, "accept.64.rate": 0.1}, true, "",
		},
		"nothing": {
			map[string]float64{"time": 1}, true, "no count with a budget was taken",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newResults()
			for name, value := range c.values {
				r.add(name, "1", value)
			}
			r.compare(against())
			if err := all.judge(r, c.check); (err == nil) != (c.broken == "") ||
				err != nil && !strings.Contains(err.Error(), c.broken) {
				t.Errorf("%v, want %q", err, c.broken)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	r := newResults()
	for _, v := range []float64{3, 1, 2} {
		r.add("odd", "1", v)
		r.add("even", "1", v)
	}
	r.add("even", "1", 10)
	if r.by["odd"].Value != 2 || r.by["even"].Value != 2.5 {
		t.Errorf("%v, %v", r.by["odd"].Value, r.by["even"].Value)
	}
}
