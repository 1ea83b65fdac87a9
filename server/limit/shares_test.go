package limit

import (
	"testing"

	"pgregory.net/rapid"
)

func TestShares_GreedyCaller_LeavesGuarantee(t *testing.T) {
	t.Parallel()
	s := NewShares(100, map[string]int64{"greedy": 1, "small": 1, "large": 3})
	took := 0
	for s.Take("greedy", 1) == Taken {
		took++
	}
	if took != 10+44 {
		t.Errorf("the greedy caller took %d, want its 10 and seven eighths of the common 50", took)
	}
	for range 10 {
		if s.Take("small", 1) != Taken {
			t.Fatal("a caller did not get its guarantee")
		}
	}
	if s.Take("large", 30) != Taken {
		t.Error("the weight of a caller does not count")
	}
	if s.Take("small", 1) != Taken {
		t.Error("no common room is left for a caller that asks later")
	}
}

func TestShares_NoCallersConfigured_NewcomerFindsRoom(t *testing.T) {
	t.Parallel()
	const room = 1024
	s := NewShares(room, nil)
	took := 0
	for s.Take("greedy", 1) == Taken {
		took++
	}
	if took != room*lead/(lead+1) {
		t.Errorf("the greedy caller took %d", took)
	}
	if got := s.Take("greedy", 1); got != ShareFull {
		t.Errorf("the outcome is %v, want ShareFull", got)
	}
	if s.Take("newcomer", HeavyCall) != Taken {
		t.Error("a newcomer found no room")
	}
}

func TestShares_SingleCaller_HasAllRoom(t *testing.T) {
	t.Parallel()
	s := NewShares(1000, map[string]int64{"one": 3})
	if s.Take("one", 1000) != Taken || s.Take("one", 1) != RoomFull {
		t.Error("want exactly the whole room")
	}
}

// TestShares_AnyOrder_StaysInBounds checks the sum of the taken room, guarantees included, after
// any takes, returns and changes of the weights.
func TestShares_AnyOrder_StaysInBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const room = 64
		weights := map[string]int64{"a": 1, "b": 2, "c": 5}
		if rapid.Bool().Draw(t, "no weights") {
			weights = nil
		}
		s := NewShares(room, weights)
		taken := map[string][]int64{}
		divided := false
		callers := rapid.SampledFrom([]string{"a", "b", "c", "unknown"})
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				caller, weight := callers.Draw(t, "caller"),
					rapid.Int64Range(1, 16).Draw(t, "weight")
				within := s.used[caller]+weight <= s.guaranteed[caller]
				if s.Take(caller, weight) == Taken {
					taken[caller] = append(taken[caller], weight)
				} else if within {
					t.Fatalf("%s was refused within its guarantee", caller)
				}
			},
			"give": func(t *rapid.T) {
				caller := callers.Draw(t, "caller")
				if mine := taken[caller]; len(mine) > 0 {
					s.Add(caller, -mine[0])
					taken[caller] = mine[1:]
				}
			},
			"divide": func(t *rapid.T) {
				divided = true
				s.Divide(map[string]int64{"a": rapid.Int64Range(1, 9).Draw(t, "a"), "b": 1})
			},
			"": func(t *rapid.T) {
				var sum, beyond int64
				for caller, used := range s.Used() {
					sum += used
					beyond += max(0, used-s.guaranteed[caller])
				}
				if beyond != s.commonUsed || !divided && sum > room || sum != s.Total() {
					t.Fatalf("%d used of %d, %d of the common part counted as %d",
						sum, room, beyond, s.commonUsed)
				}
			},
		})
		for caller, mine := range taken {
			for _, weight := range mine {
				s.Add(caller, -weight)
			}
		}
		if len(s.Used()) != 0 || s.commonUsed != 0 {
			t.Fatalf("all was given back and %v is left", s.Used())
		}
	})
}
