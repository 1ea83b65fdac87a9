package track

import (
	"slices"
	"time"
)

// outage is a time in which blocks were missed.
type outage struct {
	tip uint64    // of the view before it
	end time.Time // when the chain was seen again
}

// outages are those of a chain that still matter, oldest and lowest first. It is a value. A node
// that starts after an outage does not know of it.
type outages []outage

// mostOutages bounds them: a chain that is faster than its tracker has one in each update. Further
// ones are merged into the last, with the earlier tip.
const mostOutages = 16

// and adds the newest. It lasts longer than those before it, so of those only the ones that reach
// further down still matter.
func (o outages) and(newest outage) outages {
	o = slices.DeleteFunc(slices.Clone(o),
		func(before outage) bool { return before.tip >= newest.tip })
	if len(o) == mostOutages {
		o[len(o)-1].end = newest.end
		return o
	}
	return append(o, newest)
}

// since are the outages that ended after a moment.
func (o outages) since(moment time.Time) outages {
	return slices.DeleteFunc(slices.Clone(o),
		func(before outage) bool { return !before.end.After(moment) })
}
