package group

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// world is keepers over one store, in virtual time. The follow-up of a group is only noted.
type world struct {
	*testing.T

	driver   *storetest.Faulty
	rows     *store.Store
	deny     error // of follow-ups
	mu       sync.Mutex
	followed []followed
}

type followed struct {
	as        task.ID
	item      string
	end       task.GroupEnd
	completed task.Instant
}

var errFull = errors.New("full")

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, driver: storetest.NewFaulty(storemem.New())}
		w.rows = store.New(w.driver, store.Config{Clock: clock.Real()})
		test(w)
	})
}

func (w *world) followUp(_ context.Context, item []byte, as task.ID, after *task.GroupEnd, completed task.Instant) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deny != nil {
		return "", w.deny
	}
	w.followed = append(w.followed, followed{as, string(item), *after, completed})
	return "k1", nil
}

// follows returns how often a follow-up was scheduled.
func (w *world) follows() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.followed)
}

func (w *world) groups() *control.Book[Group] { return NewBook(w.rows, clock.Real()) }

// keeper starts a process that counts groups over a store.
func (w *world) keeper(rows Store) (k *Keeper, stop func()) {
	w.Helper()
	k = NewKeeper(KeeperConfig{
		Store: rows, FollowUp: w.followUp, ForNow: func(err error) bool { return errors.Is(err, errFull) },
		Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
	})
	return k, runtest.Start(w.T, k.Run)
}

func now() task.Instant { return task.InstantOf(time.Now()) }

// group stores a group of n members, which wait, and seals it.
func (w *world) group(n uint32, otherwise string) *Group {
	w.Helper()
	raw, err := base64.StdEncoding.DecodeString(otherwise)
	if err != nil {
		w.Fatal(err)
	}
	return w.groupWith(n, &Spec{Then: []byte("then"), Else: raw})
}

func (w *world) groupWith(n uint32, spec *Spec) *Group {
	w.Helper()
	id := task.NewID(now(), 7, 7)
	g := &Group{ID: id.String(), Then: "report", Created: now(), Expires: now().Add(time.Hour), Members: n, Sealed: now()}
	for i := range n {
		w.put(g, i, task.Scheduled, false)
	}
	for _, item := range spec.All() {
		g.FollowUps = append(g.FollowUps, FollowUp{Edge: item.Edge, Lambda: "report"})
	}
	raw, err := json.Marshal(spec)
	if err == nil {
		err = PutSpec(w.Context(), w.rows, g.ID, raw)
	}
	if err != nil {
		w.Fatal(err)
	}
	if err := w.groups().Put(w.Context(), g); err != nil {
		w.Fatal(err)
	}
	return g
}

// put stores the row of a member.
func (w *world) put(g *Group, i uint32, state task.State, replaces bool) *task.Task {
	w.Helper()
	t := task.Task{
		ID: task.MemberID(g.Key(), i, 0), Partition: task.Partition{Lambda: 1}, State: state, Seq: 1, Due: now(), Created: now(), Key: "k",
		Member: &task.Member{Group: g.Key(), Index: i, Until: g.Until()}, WakeRow: task.WakeRow{At: now(), Seq: 1},
	}
	op := store.Op{Kind: store.PutTask, Task: t}
	if replaces {
		op.Kind, op.Task.Seq = store.ReplaceTask, 2
	}
	if op.Task.Wake = now(); state.IsEnd() {
		op.Task.Wake, op.Task.Ended, op.Task.ExpireAt = 0, now(), g.Until()
	}
	if results, err := w.rows.Apply(w.Context(), []store.Op{op}); err != nil || results[0] != nil {
		w.Fatal(results, err)
	}
	return &op.Task
}

// end has a member end.
func (w *world) end(g *Group, i uint32, state task.State) *task.Task { return w.put(g, i, state, true) }

// ended checks that one task followed, however often it was asked for, and returns how the group ended.
func (w *world) ended(g *Group) (followed, *Group) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	have, err := w.groups().Find(w.Context(), g.ID)
	if err != nil || !have.IsEnded() {
		w.Fatalf("group is %+v: %v", have, err)
	}
	for i := range w.followed {
		if w.followed[i] != w.followed[0] {
			w.Fatalf("two different tasks follow: %+v, %+v", w.followed[0], w.followed[i])
		}
	}
	if open, err := w.rows.Controls(w.Context(), KindOpen); err != nil || len(open) > 0 {
		w.Errorf("%d open groups are left, %v", len(open), err)
	}
	if len(w.followed) == 0 {
		return followed{}, have
	}
	return w.followed[0], have
}

func TestAGroupEndsWhenItsLastMemberDoes(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "polled": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				g := w.group(3, "")
				k, stop := w.keeper(w.rows)
				k.Look(g.Key())
				time.Sleep(10 * time.Second)
				var last task.Instant
				for i, state := range []task.State{task.Success, task.Dead, task.Success} {
					if w.follows() > 0 {
						t.Fatalf("a task follows after %d of 3 members", i)
					}
					row := w.end(g, 2-uint32(i), state) // the one that holds the group is the last
					last = now()
					if told {
						k.Ended(row)
					}
					time.Sleep(5 * time.Second)
				}
				f, have := w.ended(g)
				if f.item != "then" || f.end.Members != 3 || f.end.Ended[task.Success] != 2 || f.end.Ended[task.Dead] != 1 || f.end.Ended.Sum() != 3 || f.end.Expired {
					t.Errorf("%+v", f)
				}
				late := f.completed.Sub(last)
				if told && late > restMin || !told && late > 2*time.Second {
					t.Errorf("completed %v after the last member", late)
				}
				if have.FollowUp != "k1" || have.State() != Done {
					t.Errorf("%+v", have)
				}
				stop()
			})
		})
	}
}

func TestWhatFollows(t *testing.T) {
	for _, c := range []struct {
		name, otherwise, want string
		ends                  []task.State
	}{
		{"all succeed", "ZWxzZQ==", "then", []task.State{task.Success, task.Delivered}},
		{"one is cancelled", "ZWxzZQ==", "else", []task.State{task.Success, task.Cancelled}},
		{"one is cancelled, and nothing else follows", "", "then", []task.State{task.Success, task.Cancelled}},
		{"there are none", "ZWxzZQ==", "then", nil},
		{"it expires", "ZWxzZQ==", "else", []task.State{task.Success, task.Unknown}},
		{"it expires, and nothing else follows", "", "", []task.State{task.Success, task.Unknown}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				g := w.group(uint32(len(c.ends)), c.otherwise)
				expires := false
				for i, state := range c.ends {
					if state == task.Unknown {
						expires = true
						continue
					}
					w.end(g, uint32(i), state)
				}
				_, stop := w.keeper(w.rows)
				time.Sleep(2 * time.Hour)
				f, have := w.ended(g)
				if f.item != c.want || have.Expired != expires || f.end.Expired != (expires && c.want != "") {
					t.Errorf("%+v follows; %+v", f, have)
				}
				if int(have.Ended.Sum()) != len(c.ends) && !expires {
					t.Errorf("counted %v", have.Ended.ByName())
				}
				stop()
			})
		})
	}
}

// A group that is not sealed is left alone, whatever its members do, until it expires.
func TestAnOpenGroupExpires(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.group(2, "ZWxzZQ==")
		_, err := w.groups().Change(t.Context(), g.ID, func(g *Group) (control.Do, error) { g.Sealed = 0; return control.Store, nil })
		if err != nil {
			t.Fatal(err)
		}
		k, stop := w.keeper(w.rows)
		k.Ended(w.end(g, 0, task.Success))
		k.Ended(w.end(g, 1, task.Success))
		time.Sleep(59 * time.Minute)
		if w.follows() > 0 {
			t.Fatal("a task follows after a group that is not sealed")
		}
		time.Sleep(time.Minute + 100*time.Millisecond) // it expires as a task is due, and not with the next look at all groups
		if f, have := w.ended(g); f.item != "else" || !f.end.Expired || have.State() != Expired {
			t.Errorf("%+v, %+v", f, have)
		}
		stop()
	})
}

func TestMembersThatWereDeletedCountAsDropped(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.group(2, "")
		_, err := w.groups().Change(t.Context(), g.ID, func(g *Group) (control.Do, error) { g.Members = 3; return control.Store, nil }) // one has no row
		if err != nil {
			t.Fatal(err)
		}
		w.end(g, 0, task.Success)
		_, stop := w.keeper(w.rows)
		time.Sleep(time.Minute)
		if w.follows() > 0 {
			t.Fatal("a task follows although a member lives")
		}
		w.end(g, 1, task.Success)
		time.Sleep(time.Minute)
		if f, _ := w.ended(g); f.end.Ended[task.Dropped] != 1 || f.end.Ended[task.Success] != 2 {
			t.Errorf("%v", f.end.Ended.ByName())
		}
		stop()
	})
}

// A follow-up that is refused for now is scheduled later; one that is refused for good is a problem of the
// group.
func TestAFollowUpThatIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.group(0, "")
		w.deny = errFull
		_, stop := w.keeper(w.rows)
		time.Sleep(10 * time.Minute)
		w.mu.Lock()
		w.deny = nil
		w.mu.Unlock()
		time.Sleep(time.Minute)
		if f, _ := w.ended(g); f.item != "then" {
			t.Errorf("%+v", f)
		}
		stop()
	})
	inWorld(t, func(w *world) {
		g := w.group(0, "")
		w.deny = errors.New("the lambda was deleted")
		_, stop := w.keeper(w.rows)
		time.Sleep(10 * time.Second)
		if _, have := w.ended(g); have.Problem != "the lambda was deleted" || have.FollowUp != "" {
			t.Errorf("%+v", have)
		}
		stop()
	})
}

// Each write of a keeper fails, both ways, and the group ends all the same, once.
func TestEachWriteFails(t *testing.T) {
	for _, how := range []storetest.Fault{storetest.NotApplied, storetest.AppliedButErrored} {
		for nth := 1; ; nth++ {
			pending := 0
			t.Run(fmt.Sprintf("%d %d", how, nth), func(t *testing.T) {
				inWorld(t, func(w *world) {
					g := w.group(2000, "")
					for i := range uint32(1500) {
						w.end(g, i, task.Success)
					}
					isControl := func(op *store.Op) bool { return op.Kind == store.PutControl || op.Kind == store.DeleteControl }
					w.driver.FailMatching(isControl, nth, 10, how)
					_, stop := w.keeper(w.rows)
					time.Sleep(20 * time.Second) // it stores how far it is
					for i := uint32(1500); i < 2000; i++ {
						w.end(g, i, task.Success)
					}
					time.Sleep(5 * time.Minute)
					if f, _ := w.ended(g); f.end.Ended[task.Success] != 2000 || f.end.Ended.Sum() != 2000 {
						t.Errorf("%v", f.end.Ended.ByName())
					}
					stop()
					pending = w.driver.Pending()
				})
			})
			if pending == 10 {
				break // there is no nth write
			}
		}
	}
}

// killed is the store of a process that dies at a call: nothing that it asks for after that is done.
type killed struct {
	store.Driver

	mu    sync.Mutex
	left  int // calls until then
	after bool
	die   func()
}

func (k *killed) dies() (now, dead bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left--
	if k.left == 0 {
		k.die()
	}
	return k.left == 0, k.left < 0
}

func (k *killed) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	now, dead := k.dies()
	if dead || now && !k.after {
		return nil, context.Canceled
	}
	results, err := k.Driver.Apply(ctx, ops)
	if now {
		return nil, context.Canceled
	}
	return results, err
}

func (k *killed) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	if now, dead := k.dies(); now || dead {
		return nil, context.Canceled
	}
	return k.Driver.Tasks(ctx, ids)
}

func (k *killed) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	if now, dead := k.dies(); now || dead {
		return nil, context.Canceled
	}
	return k.Driver.Controls(ctx, kind, name)
}

// A keeper is killed between any two of its steps, before or after what it writes there, and another one goes
// on, alone or beside one that lived all the time.
func TestAKeeperDiesBetweenAnyTwoSteps(t *testing.T) {
	for _, beside := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for at := 1; ; at++ {
				died := false
				t.Run(fmt.Sprintf("beside=%v after=%v %d", beside, after, at), func(t *testing.T) {
					inWorld(t, func(w *world) {
						g := w.group(30, "ZWxzZQ==")
						for i := range uint32(20) {
							w.end(g, i, task.Success)
						}
						dying := make(chan struct{})
						d := &killed{Driver: w.driver, left: at, after: after, die: func() { close(dying) }}
						first, stopFirst := w.keeper(store.New(d, store.Config{Clock: clock.Real()}))
						if beside {
							_, stop := w.keeper(w.rows)
							defer stop()
						}
						for i := uint32(20); i < 30; i++ {
							first.Ended(w.end(g, i, task.FatalFailure))
						}
						select {
						case <-dying:
							died = true
						case <-time.After(time.Minute):
						}
						stopFirst()
						_, stop := w.keeper(w.rows)
						time.Sleep(time.Minute)
						f, _ := w.ended(g)
						if f.item != "else" || f.end.Ended[task.Success] != 20 || f.end.Ended[task.FatalFailure] != 10 || f.end.Ended.Sum() != 30 {
							t.Errorf("%q follows: %v", f.item, f.end.Ended.ByName())
						}
						stop()
					})
				})
				if !died {
					break
				}
				if at > 1000 {
					t.Fatal("it never ends")
				}
			}
		}
	}
}

// A process that heard nothing goes on from where another one was, and reads no more than that.
func TestACountIsStoredNowAndThen(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.group(3000, "")
		for i := range uint32(2500) {
			w.end(g, i, task.Success)
		}
		_, stop := w.keeper(w.rows)
		time.Sleep(time.Minute)
		stop()
		have, err := w.groups().Find(t.Context(), g.ID)
		if err != nil || have.Cursor != 2500 || have.Ended[task.Success] != 2500 || have.Version != 2 {
			t.Errorf("%+v, %v", have, err)
		}
	})
}

// Groups are forgotten with the rows of their members, a day after they expired.
func TestGroupsAreForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.group(0, "")
		_, stop := w.keeper(w.rows)
		time.Sleep(24 * time.Hour)
		w.ended(g)
		time.Sleep(3 * time.Hour)
		if _, err := w.groups().Find(t.Context(), g.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the group is still there: %v", err)
		}
		if specs, err := w.rows.Controls(t.Context(), KindSpec); err != nil || len(specs) > 0 {
			t.Errorf("%d are left, %v", len(specs), err)
		}
		stop()
	})
}

// meddler is the store of a keeper whose rows others change just before it writes, or just after it has read.
type meddler struct {
	Store

	afterRead func()
	beforePut func(row store.Control)
}

func (m *meddler) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	rows, err := m.Store.Tasks(ctx, ids)
	if m.afterRead != nil {
		m.afterRead()
	}
	return rows, err
}

func (m *meddler) PutControl(ctx context.Context, row store.Control) error {
	if m.beforePut != nil {
		m.beforePut(row)
	}
	return m.Store.PutControl(ctx, row)
}

// Members of a group of several parts end after the rows of a part were read, and before they are counted, in
// any order, whether the keeper is told or not. Each of them counts once, as it ended.
func TestMembersEndWhileTheyAreRead(t *testing.T) {
	const members, each = 4000, 60
	endOf := func(i uint32) task.State {
		return []task.State{task.Success, task.Dead, task.Cancelled, task.Expired}[i*3%7%4]
	}
	mixed := rand.New(rand.NewPCG(1, 2)).Perm(members)
	var want task.Outcomes
	for i := range uint32(members) {
		want[endOf(i)]++
	}
	for order, nth := range map[string]func(i uint32) uint32{
		"in order":  func(i uint32) uint32 { return i },
		"backwards": func(i uint32) uint32 { return members - 1 - i },
		"mixed":     func(i uint32) uint32 { return uint32(mixed[i]) },
	} {
		for _, told := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, told %v", order, told), func(t *testing.T) {
				inWorld(t, func(w *world) {
					g := w.group(members, "")
					var k *Keeper
					ended := uint32(0)
					rows := &meddler{Store: w.rows, afterRead: func() {
						for range each {
							if ended == members {
								return
							}
							row := w.end(g, nth(ended), endOf(nth(ended)))
							if ended++; told {
								k.Ended(row)
							}
						}
					}}
					k = NewKeeper(KeeperConfig{
						Store: rows, FollowUp: w.followUp, ForNow: func(error) bool { return false }, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
					})
					stop := runtest.Start(t, k.Run)
					time.Sleep(50 * time.Minute)
					if f, _ := w.ended(g); f.end.Members != members || f.end.Ended != want {
						t.Errorf("what follows is told of %v of %d members, want %v", f.end.Ended.ByName(), f.end.Members, want.ByName())
					}
					stop()
				})
			})
		}
	}
}

// A keeper whose write of a group meets a change of another process goes on with that group at once: when it
// stores how far it is, and when it stores the end.
func TestAGroupThatIsChangedMeanwhileGoesOn(t *testing.T) {
	for nth := 1; nth <= 2; nth++ {
		inWorld(t, func(w *world) {
			g := w.group(2000, "")
			for i := range uint32(1999) {
				w.end(g, i, task.Success)
			}
			puts := 0
			rows := &meddler{Store: w.rows, beforePut: func(row store.Control) {
				if row.Kind != KindOpen {
					return
				}
				if puts++; puts == nth {
					_, err := w.groups().Change(w.Context(), g.ID, func(g *Group) (control.Do, error) { g.CreatedBy = "somebody"; return control.Store, nil })
					if err != nil {
						w.Error(err)
					}
				}
			}}
			_, stop := w.keeper(rows)
			time.Sleep(100 * time.Millisecond)
			w.end(g, 1999, task.Success)
			time.Sleep(time.Second)
			if f, have := w.ended(g); puts < 2 || f.end.Ended[task.Success] != 2000 || have.CreatedBy != "somebody" {
				t.Errorf("write %d of %d met a change: %+v", nth, puts, have)
			}
			stop()
		})
	}
}
