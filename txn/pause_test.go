package txn

import "testing"

func TestDecide_Resume_NamesPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status       SubmitterStatus
		pause, names int64
		want         string
	}{
		"any pause":              {Paused, 4, 0, Applied},
		"the pause in force":     {Paused, 4, 4, Applied},
		"an earlier pause":       {Paused, 4, 3, ResultPauseChanged},
		"an unknown pause":       {Paused, 0, 3, ResultPauseChanged},
		"a pause that has ended": {Active, 0, 3, Applied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &View{Submitter: Submitter{Status: c.status, PauseID: c.pause}}
			step, ok := applyCommand(v, Command{ID: 1, Kind: CommandResume, Expect: c.names})
			record, is := step.(Record)
			if !ok || !is || record.Change.Commands[0].Result != c.want ||
				(record.Change.Status == Active) != (c.want == Applied) {
				t.Errorf("%v %+v, want %s", ok, step, c.want)
			}
		})
	}
}
