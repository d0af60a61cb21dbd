package group

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Which tasks follow depends on how the group ended and on what else may follow. Their ids are their own.
func TestWhichTasksFollow(t *testing.T) {
	const then, also, otherwise, finally, second = "then", "also", "else", "finally", "second"
	item := func(e task.Edge, text string) Item { return Item{e, []byte(text)} }
	for name, c := range map[string]struct {
		spec                    Spec
		done, failed, cancelled []string
		expired                 []string
	}{
		"then alone":         {Spec{Then: []byte(then)}, []string{then}, []string{then}, []string{then}, nil},
		"two of then":        {Spec{Then: []byte(then), More: []Item{item(task.Then, also)}}, []string{then, also}, []string{then, also}, []string{then, also}, nil},
		"then and else":      {Spec{Then: []byte(then), Else: []byte(otherwise)}, []string{then}, []string{otherwise}, []string{otherwise}, []string{otherwise}},
		"else alone":         {Spec{Else: []byte(otherwise)}, nil, []string{otherwise}, []string{otherwise}, []string{otherwise}},
		"then and finally":   {Spec{Then: []byte(then), More: []Item{item(task.Finally, finally)}}, []string{then, finally}, []string{finally}, []string{finally}, []string{finally}},
		"several of finally": {Spec{More: []Item{item(task.Finally, finally), item(task.Finally, second)}}, []string{finally, second}, []string{finally, second}, []string{finally, second}, []string{finally, second}},
		"all": {
			Spec{Then: []byte(then), Else: []byte(otherwise), More: []Item{item(task.Finally, finally), item(task.Then, also)}},
			[]string{then, also, finally},
			[]string{otherwise, finally},
			[]string{otherwise, finally},
			[]string{otherwise, finally},
		},
	} {
		for how, want := range map[string][]string{"done": c.done, "failed": c.failed, "cancelled": c.cancelled, "expired": c.expired} {
			t.Run(name+" "+how, func(t *testing.T) {
				inWorld(t, func(w *world) { w.follow(&c.spec, how, want) })
			})
		}
	}
}

func (w *world) follow(spec *Spec, how string, want []string) {
	w.Helper()
	g := w.groupWith(1, spec)
	switch how {
	case "failed":
		w.end(g, 0, task.Dead)
	case "done":
		w.end(g, 0, task.Success)
	case "cancelled": // its member succeeded all the same
		_, err := w.groups().Change(w.Context(), g.ID, func(g *Group) (control.Do, error) { g.Cancelled = now(); return control.Store, nil })
		if err != nil {
			w.Fatal(err)
		}
		w.end(g, 0, task.Success)
	}
	_, stop := w.keeper(w.rows)
	time.Sleep(2 * time.Hour)
	stop()
	var have []string
	ids := map[task.ID]bool{}
	for _, f := range w.followed {
		have = append(have, f.item)
		ids[f.as] = true
		if f.end.Cancelled != (how == "cancelled") || f.end.Expired != (how == "expired") {
			w.Errorf("%s is told %+v", f.item, f.end)
		}
	}
	if !slices.Equal(have, want) || len(ids) != len(want) {
		w.Errorf("%v follow with %d ids, want %v", have, len(ids), want)
	}
	if len(want) > 0 && want[0] != "finally" && !ids[g.Key()] {
		w.Error("the first one has not the id that earlier releases give it")
	}
	ended, err := w.groups().Find(w.Context(), g.ID)
	if err != nil || !ended.IsEnded() || (ended.FollowUp != "") != (len(want) > 0) {
		w.Fatalf("%+v, %v", ended, err)
	}
	for i, f := range ended.FollowUps {
		if follows := slices.Contains(want, string(spec.All()[i].Item)); (f.ID != "") != follows || f.Edge != spec.All()[i].Edge {
			w.Errorf("%+v is noted of %s", f, spec.All()[i].Item)
		}
	}
}

// A task that a dead call left in the place of a member does not count for it, whenever it ends.
func TestWhatADeadCallLeftDoesNotCount(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.group(2, "")
		if _, err := w.groups().Change(t.Context(), g.ID, func(g *Group) (control.Do, error) { g.Tries = []uint32{1}; return control.Store, nil }); err != nil {
			t.Fatal(err)
		}
		member := &task.Member{Group: g.Key(), Index: 1, Until: g.Until(), Try: 1}
		row := task.Task{ID: member.ID(), Partition: task.Partition{Lambda: 1}, State: task.Scheduled, Seq: 1, Due: now(), Wake: now(), Created: now(), Key: "k", Member: member, WakeRow: task.WakeRow{At: now(), Seq: 1}}
		if results, err := w.rows.Apply(t.Context(), []store.Op{{Kind: store.PutTask, Task: row}}); err != nil || results[0] != nil {
			t.Fatal(results, err)
		}
		k, stop := w.keeper(w.rows)
		k.Ended(w.end(g, 0, task.Success))
		k.Ended(w.end(g, 1, task.Dead)) // of the first try
		time.Sleep(time.Minute)
		if w.follows() > 0 {
			t.Fatal("a task follows although a member lives")
		}
		row.State, row.Seq, row.Wake, row.Ended, row.ExpireAt = task.Success, 2, 0, now(), g.Until()
		if results, err := w.rows.Apply(t.Context(), []store.Op{{Kind: store.ReplaceTask, Task: row}}); err != nil || results[0] != nil {
			t.Fatal(results, err)
		}
		k.Ended(&row)
		time.Sleep(time.Minute)
		if f, _ := w.ended(g); fmt.Sprint(f.end.Ended.ByName()) != "map[success:2]" {
			t.Errorf("%v", f.end.Ended.ByName())
		}
		stop()
	})
}
