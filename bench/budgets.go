package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// budget is the limit of a number. -check enforces the limits of counts. Ratios and times are only
// shown, because they depend on the load of the machine.
type budget struct {
	Most  *float64 `yaml:"most"`
	Least *float64 `yaml:"least"`
	Count bool     `yaml:"count"` // it hardly depends on the machine
	// the target on an otherwise idle machine; empty: the budget
	Goal *float64 `yaml:"goal"`
}

type budgets map[string]budget

func readBudgets(path string) (budgets, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the budgets: %w", err)
	}
	defer file.Close()
	var all budgets
	in := yaml.NewDecoder(file)
	in.KnownFields(true)
	if err := in.Decode(&all); err != nil {
		return nil, fmt.Errorf("read the budgets in %s: %w", path, err)
	}
	for name, b := range all {
		if (b.Most == nil) == (b.Least == nil) {
			return nil, fmt.Errorf("budget %s in %s: give one of most and least", name, path)
		}
	}
	return all, nil
}

// judge marks the results that have a budget, and returns those counts that break it. A number that
// has a ratio is judged by it.
func (all budgets) judge(r *results, check bool) error {
	var broken []string
	taken := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one, limit := r.by[name], all[name]
		if one == nil {
			continue
		}
		value := one.Value
		if _, compared := against()[name]; compared && one.Of == "" {
			continue // its limit was not measured in this run
		}
		if one.Of != "" {
			value = one.Ratio
		}
		kept := limit.allows(value)
		one.Budget, one.Kept = limit.String(), &kept
		if !limit.Count {
			continue
		}
		taken++
		if !kept {
			broken = append(broken,
				fmt.Sprintf("%s is %s %s, its budget is %s", name, plain(value), one.Unit, limit))
		}
	}
	switch {
	case !check:
		return nil
	case len(broken) > 0:
		return errors.New(
			"over budget: " + strings.Join(broken,
				"; ") + "; fix it, or change bench/budgets.yaml with a reason",
		)
	case taken == 0:
		return errors.New("no count with a budget was taken")
	}
	return nil
}

func (b budget) allows(value float64) bool {
	return (b.Most == nil || value <= *b.Most) && (b.Least == nil || value >= *b.Least)
}

func (b budget) String() string {
	if b.Goal != nil {
		return b.limit() + ", goal " + plain(*b.Goal)
	}
	return b.limit()
}

func (b budget) limit() string {
	if b.Most != nil {
		return "<= " + plain(*b.Most)
	}
	return ">= " + plain(*b.Least)
}

func shares(by map[string]float64, of float64) string {
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(by), func(a, c string) int {
		return int(by[c]-by[a]) + strings.Compare(a, c)
	}) {
		parts = append(parts, fmt.Sprintf("%s %.3f", name, by[name]/of))
	}
	return strings.Join(parts, ", ")
}
