package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is one number of a run: the median over its rounds.
type result struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Value  float64   `json:"value"`
	Rounds []float64 `json:"rounds"`
	Of     string    `json:"of,omitempty"` // the limit that it is compared with
	Ratio  float64   `json:"ratio,omitempty"`
	Budget string    `json:"budget,omitempty"`
	Kept   *bool     `json:"kept,omitempty"`
}

// results are all numbers of a run, by name, in the order in which they came first.
type results struct {
	names []string
	by    map[string]*result
}

func newResults() *results { return &results{by: map[string]*result{}} }

func (r *results) add(name, unit string, value float64) {
	if r.by[name] == nil {
		r.names = append(r.names, name)
		r.by[name] = &result{Name: name, Unit: unit}
	}
	one := r.by[name]
	one.Rounds = append(one.Rounds, value)
	one.Value = median(one.Rounds)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// compare works out the ratios: which number is measured against which limit.
func (r *results) compare(against map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(against)) {
		one, limit := r.by[name], r.by[against[name]]
		if one == nil || limit == nil || limit.Value == 0 {
			continue
		}
		one.Of, one.Ratio = limit.Name, one.Value/limit.Value
	}
}

// missing are the limits of numbers that have no ratio, as they were not measured.
func (r *results) missing(against map[string]string) []string {
	limits := map[string]bool{}
	for name, limit := range against {
		if r.by[name] != nil && r.by[limit] == nil {
			limits[limit] = true
		}
	}
	return slices.Sorted(maps.Keys(limits))
}

// print shows the numbers as a table.
func (r *results) print(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tmedian\tunit\tratio\tof\tbudget\t")
	for _, name := range r.names {
		one := r.by[name]
		ratio, kept := "", ""
		if one.Of != "" {
			ratio = fmt.Sprintf("%.3f", one.Ratio)
		}
		if one.Kept != nil {
			kept = map[bool]string{true: "kept", false: "MISSED"}[*one.Kept]
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", one.Name, plain(one.Value), one.Unit,
			ratio, one.Of, one.Budget, kept)
	}
	_ = table.Flush()
}

// plain is a number with as many digits as mean something.
func plain(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.3f", v), ".000")
}

func (r *results) printJSON(w io.Writer) error {
	all := make([]*result, len(r.names))
	for i, name := range r.names {
		all[i] = r.by[name]
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(map[string]any{"results": all})
}
