package task_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

func valid() task.Lambda { return task.Lambda{Name: "send-mail"}.WithDefaults() }

func TestDefaultsAreValid(t *testing.T) {
	l := valid()
	if err := l.Validate(); err != nil {
		t.Error(err)
	}
	want := task.Lambda{
		Name: "x", Priorities: []string{"only"}, Shards: 7, MaxAttempts: 2, Timeout: time.Second,
		BackoffMin: time.Minute, BackoffMax: time.Hour, Retention: time.Hour,
	}
	got := want.WithDefaults()
	if got.Priorities[0] != "only" || got.Shards != 7 || got.MaxAttempts != 2 || got.Timeout != time.Second ||
		got.BackoffMin != time.Minute || got.BackoffMax != time.Hour || got.Retention != time.Hour {
		t.Errorf("defaults replaced what was set: %+v", got)
	}
}

func TestLambdaValidation(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, c := range []struct {
		name   string
		change func(*task.Lambda)
		want   string // part of the error; empty: it is fine
	}{
		{"longest name", func(l *task.Lambda) { l.Name = long }, ""},
		{"name of all kinds", func(l *task.Lambda) { l.Name = "aZ09_-" }, ""},
		{"no name", func(l *task.Lambda) { l.Name = "" }, `lambda name "": want 1 to 64 characters of a-z, A-Z, 0-9, '_' and '-'`},
		{"name too long", func(l *task.Lambda) { l.Name = long + "x" }, "want 1 to 64 characters"},
		{"name with a dot", func(l *task.Lambda) { l.Name = "a.b" }, `lambda name "a.b"`},
		{"name with a newline", func(l *task.Lambda) { l.Name = "a\n" }, `lambda name "a\n"`},
		{"name beyond ASCII", func(l *task.Lambda) { l.Name = "ä" }, `lambda name "ä"`},

		{"one priority", func(l *task.Lambda) { l.Priorities = []string{"a"} }, ""},
		{"eight priorities", func(l *task.Lambda) { l.Priorities = strings.Split("a,b,c,d,e,f,g,h", ",") }, ""},
		{"nine priorities", func(l *task.Lambda) { l.Priorities = strings.Split("a,b,c,d,e,f,g,h,i", ",") }, "priorities: want 1 to 8, have 9"},
		{"no priorities", func(l *task.Lambda) { l.Priorities = nil }, "priorities: want 1 to 8, have 0"},
		{"priority twice", func(l *task.Lambda) { l.Priorities = []string{"a", "b", "a"} }, `priorities: "a" is named twice`},
		{"bad priority", func(l *task.Lambda) { l.Priorities = []string{"a b"} }, `priority name "a b"`},

		{"weights", func(l *task.Lambda) { l.PriorityWeights = []uint16{1000, 3, 1} }, ""},
		{"too few weights", func(l *task.Lambda) { l.PriorityWeights = []uint16{1, 1} }, "priority weights: want 3, one for each priority, have 2"},
		{"no weight", func(l *task.Lambda) { l.PriorityWeights = []uint16{1, 0, 1} }, `weight of priority "normal" 0: want 1 to 1000`},

		{"no shards", func(l *task.Lambda) { l.Shards = 0 }, "shards 0: want 1 to 1024"},
		{"most shards", func(l *task.Lambda) { l.Shards = 1024 }, ""},
		{"too many shards", func(l *task.Lambda) { l.Shards = 1025 }, "shards 1025: want 1 to 1024"},

		{"no attempts", func(l *task.Lambda) { l.MaxAttempts = 0 }, "max attempts 0: want 1 to 1000"},
		{"too many attempts", func(l *task.Lambda) { l.MaxAttempts = 1001 }, "max attempts 1001: want 1 to 1000"},

		{"timeout too short", func(l *task.Lambda) { l.Timeout = time.Millisecond }, "timeout 1ms: want 100ms to 720h0m0s"},
		{"timeout too long", func(l *task.Lambda) { l.Timeout = task.TimeoutMax + 1 }, "want 100ms to 720h0m0s"},
		{"negative timeout", func(l *task.Lambda) { l.Timeout = -time.Second }, "timeout -1s"},

		{"backoff of one length", func(l *task.Lambda) { l.BackoffMin, l.BackoffMax = time.Second, time.Second }, ""},
		{"backoff upside down", func(l *task.Lambda) { l.BackoffMin, l.BackoffMax = time.Minute, time.Second }, "backoff maximum 1s: want 1m0s to 720h0m0s"},
		{"no backoff", func(l *task.Lambda) { l.BackoffMin = 0 }, "backoff minimum 0s: want 1ms to 720h0m0s"},
		{"backoff too long", func(l *task.Lambda) { l.BackoffMax = task.BackoffCeil + 1 }, "backoff maximum"},

		{"retention too short", func(l *task.Lambda) { l.Retention = time.Second }, "retention 1s: want 1m0s to 43800h0m0s"},
		{"retention too long", func(l *task.Lambda) { l.Retention = task.RetentionMax + 1 }, "retention"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := valid()
			c.change(&l)
			wantError(t, l.Validate(), c.want)
		})
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "":
		if err != nil {
			t.Errorf("refused: %v", err)
		}
	case !errors.Is(err, task.ErrInvalid) || !strings.Contains(err.Error(), want):
		t.Errorf("error %v, want ErrInvalid that says %q", err, want)
	}
}

func TestAllThatIsWrongIsSaid(t *testing.T) {
	err := task.Lambda{Name: "a b"}.Validate()
	for _, want := range []string{"lambda name", "priorities", "shards", "max attempts", "timeout", "backoff minimum", "retention"} {
		wantError(t, err, want)
	}
}

func TestOverridesValidation(t *testing.T) {
	for _, c := range []struct {
		name string
		o    task.Overrides
		want string
	}{
		{"none", task.Overrides{}, ""},
		{"all", task.Overrides{MaxAttempts: 1, Timeout: time.Second, BackoffMin: time.Second, BackoffMax: time.Minute}, ""},
		{"attempts", task.Overrides{MaxAttempts: 1001}, "max attempts 1001: want 1 to 1000"},
		{"timeout", task.Overrides{Timeout: 1}, "timeout 1ns: want 100ms to 720h0m0s"},
		{"half a backoff", task.Overrides{BackoffMin: time.Second}, "backoff maximum 0s: want 1s to 720h0m0s"},
		{"the other half", task.Overrides{BackoffMax: time.Second}, "backoff minimum 0s: want 1ms to 720h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) { wantError(t, c.o.Validate(), c.want) })
	}
}

func TestPriorityByName(t *testing.T) {
	l := valid()
	odd := task.Lambda{Name: "l", Priorities: []string{"a", "b", "c", "d"}}
	for _, c := range []struct {
		l    *task.Lambda
		name string
		want uint8
	}{
		{&l, "high", 0}, {&l, "normal", 1}, {&l, "low", 2}, {&l, "", 1}, {&odd, "d", 3}, {&odd, "", 2},
	} {
		if got, err := c.l.Priority(c.name); err != nil || got != c.want {
			t.Errorf("priority %q is %d, %v; want %d", c.name, got, err, c.want)
		}
	}
	_, err := l.Priority("urgent")
	wantError(t, err, `priority "urgent": lambda send-mail has high, normal, low`)
}

func TestMode(t *testing.T) {
	for text, want := range map[string]task.Mode{"": task.Managed, "managed": task.Managed, "deliver": task.Deliver} {
		got, err := task.ParseMode(text)
		if err != nil || got != want {
			t.Errorf("mode %q is %v, %v", text, got, err)
		}
		if again, _ := task.ParseMode(got.String()); again != got {
			t.Errorf("%v does not survive its own text", got)
		}
	}
	_, err := task.ParseMode("x")
	wantError(t, err, `mode "x": want managed or deliver`)
}

func TestPartitionsOfALambda(t *testing.T) {
	l := task.Lambda{Ref: 9, Priorities: []string{"a", "b"}, Shards: 3}
	seen := map[task.Partition]bool{}
	for _, p := range l.Partitions() {
		if p.Lambda != 9 || p.Priority > 1 || p.Shard > 2 || seen[p] {
			t.Errorf("partition %v", p)
		}
		seen[p] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d partitions, want 6", len(seen))
	}
}

func TestPolicyOfATask(t *testing.T) {
	l := valid()
	of := task.Policy{MaxAttempts: l.MaxAttempts, Timeout: l.Timeout, BackoffMin: l.BackoffMin, BackoffMax: l.BackoffMax, Retention: l.Retention, KeyRetention: l.Retention}
	for _, c := range []struct {
		name   string
		o      task.Overrides
		change func(*task.Policy)
	}{
		{"the lambda's", task.Overrides{}, func(*task.Policy) {}},
		{"attempts", task.Overrides{MaxAttempts: 2}, func(p *task.Policy) { p.MaxAttempts = 2 }},
		{"timeout", task.Overrides{Timeout: time.Hour}, func(p *task.Policy) { p.Timeout = time.Hour }},
		{"backoff", task.Overrides{BackoffMin: 2, BackoffMax: 3}, func(p *task.Policy) { p.BackoffMin, p.BackoffMax = 2, 3 }},
	} {
		want := of
		c.change(&want)
		if got := l.PolicyFor(&task.Task{Overrides: c.o}); got != want {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
	}
}
