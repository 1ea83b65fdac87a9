package main

import (
	"cmp"
	"maps"
	"slices"
)

// graph holds the number of references, by the file that uses and the file that declares.
type graph map[string]map[string]int

type arrow struct{ from, to string }

// order returns the files so that few arrows lead from a later file to an earlier one. The minimum
// is hard to find; this is a greedy order (Eades, Lin and Smyth), improved by moving single files
// until no move helps. The same graph always gives the same order.
func (g graph) order() []string {
	best := g.greedy()
	for improved := true; improved; {
		improved = false
		for _, file := range slices.Sorted(maps.Keys(g)) {
			if moved := g.moveToBest(best, file); moved != nil {
				best, improved = moved, true
			}
		}
	}
	return best
}

// greedy takes files that nothing left uses for the front and files that use nothing left for the
// back; if there are none, the file with the most arrows out compared with arrows in goes to the
// front.
func (g graph) greedy() []string {
	var front, back []string
	left := slices.Sorted(maps.Keys(g))
	for len(left) > 0 {
		balance := func(file string) (out, in int) {
			for _, other := range left {
				out += present(g[file], other)
				in += present(g[other], file)
			}
			return out, in
		}
		next := slices.MaxFunc(left, func(a, b string) int {
			return cmp.Compare(rank(balance(a)), rank(balance(b)))
		})
		if out, in := balance(next); out == 0 && in > 0 {
			back = append(back, next)
		} else {
			front = append(front, next)
		}
		left = slices.DeleteFunc(left, func(file string) bool { return file == next })
	}
	slices.Reverse(back)
	return append(front, back...)
}

// rank is highest for a file that nothing uses and for one that uses nothing.
func rank(out, in int) int {
	if out == 0 || in == 0 {
		return 1 << 20
	}
	return out - in
}

func present(to map[string]int, file string) int {
	if to[file] > 0 {
		return 1
	}
	return 0
}

// moveToBest moves one file to the place at which the fewest of its arrows are upward; nil if it is
// there already.
func (g graph) moveToBest(order []string, file string) []string {
	at := slices.Index(order, file)
	rest := slices.Delete(slices.Clone(order), at, at+1)
	// cost is relative to the front, where each file that uses this one has an upward arrow.
	cost := 0
	costNow := 0
	least := 0
	place := 0
	for i, other := range rest {
		if i == at {
			costNow = cost
		}
		if cost < least {
			least, place = cost, i
		}
		cost += present(g[file], other) - present(g[other], file)
	}
	if at == len(rest) {
		costNow = cost
	}
	if cost < least {
		least, place = cost, len(rest)
	}
	if least >= costNow {
		return nil
	}
	return slices.Insert(rest, place, file)
}

// upward returns the arrows that lead from a later file to an earlier one, sorted.
func (g graph) upward(order []string) []arrow {
	place := map[string]int{}
	for i, file := range order {
		place[file] = i
	}
	var up []arrow
	for from, to := range g {
		for file := range to {
			if place[from] > place[file] {
				up = append(up, arrow{from, file})
			}
		}
	}
	slices.SortFunc(up, func(a, b arrow) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	return up
}
