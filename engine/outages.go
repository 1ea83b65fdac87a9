package engine

import (
	"slices"
	"time"
)

// outage is a time in which blocks went by unseen: the tip of the view before it, and when the chain was seen again.
type outage struct {
	tip uint64
	end time.Time
}

// outages are those of a chain that still matter, oldest and lowest first. It is a value. It is kept in memory only: a node that was not there before an outage has
// seen none.
type outages []outage

// mostOutages bounds them. A chain that is faster than it is followed has one in each pass; those that are too many count as one, with the earlier tip.
const mostOutages = 16

// and adds the newest. It lasts longer than those before it, so of them only those matter that reach further down: none is forgotten for a later one.
func (o outages) and(newest outage) outages {
	o = slices.DeleteFunc(slices.Clone(o),
		func(before outage) bool { return before.tip >= newest.tip })
	if len(o) == mostOutages {
		o[len(o)-1].end = newest.end
		return o
	}
	return append(o, newest)
}

// since are those that ended after a moment.
func (o outages) since(moment time.Time) outages {
	return slices.DeleteFunc(slices.Clone(o),
		func(before outage) bool { return !before.end.After(moment) })
}
