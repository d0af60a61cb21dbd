package cost_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/cost"
)

func prices(t *testing.T) cost.Prices {
	t.Helper()
	p, err := cost.ReadPrices(bytes.NewReader(cost.DefaultPrices))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// plain is a load of one task per second with known results.
func plain(mode string) cost.Load {
	return cost.Load{
		Mode: mode, Rate: 1, ScheduledShare: 1, PayloadBytes: 100, TasksPerRequest: 10, Utilization: 1,
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestUnitsOfATask(t *testing.T) {
	immediate := plain(cost.Managed)
	immediate.ScheduledShare = 0
	keyed := plain(cost.Managed)
	keyed.KeyedShare = 1
	long := plain(cost.Managed)
	long.LongShare = 1
	matched, matchedKeyed := plain(cost.Managed), keyed
	matched.MatchedShare, matchedKeyed.MatchedShare = 1, 1
	retried := plain(cost.Managed)
	retried.Retries = 2
	large := plain(cost.Deliver)
	large.PayloadBytes = 10 << 10
	inbound, deliver := plain(cost.Managed), plain(cost.Deliver)
	inbound.BufferedShare, deliver.BufferedShare = 1, 1
	direct := plain(cost.Deliver)
	direct.ScheduledShare = 0
	for _, c := range []struct {
		name           string
		load           cost.Load
		writes, queued float64
	}{
		{"managed, scheduled", plain(cost.Managed), 5, 0.3},
		{"managed, immediate", immediate, 5, 0.3},
		{"managed, matched", matched, 4, 0},
		{"managed, through the inbound queue", inbound, 5, 0.44},
		{"deliver, through the inbound queue", deliver, 3, 0.24},
		{"keyed", keyed, 6, 0.3},
		{"keyed, matched", matchedKeyed, 5, 0},
		{"long", long, 6, 0.3},
		{"two retries", retried, 15, 0.9},
		{"deliver", plain(cost.Deliver), 3, 0.1},
		{"deliver within 15 minutes", direct, 0, 0.1},
		{"deliver 10 KiB", large, 14, 0.1},
	} {
		u := cost.PerTask(c.load)
		near(t, c.name+": write units", u.WriteUnits, c.writes)
		near(t, c.name+": SQS requests", u.SQSRequests, c.queued)
	}
}

// Tasks that are due soon or have a key do not go through the inbound queue.
func TestWhatGoesThroughTheInboundQueue(t *testing.T) {
	l := plain(cost.Managed)
	near(t, "all wait", cost.InboundShare(l), 1)
	l.ScheduledShare, l.KeyedShare = 0.5, 0.2
	near(t, "half of them, some with a key", cost.InboundShare(l), 0.4)
	l.Mode = cost.Deliver
	near(t, "deliver", cost.InboundShare(l), 0.5)
}

func TestBillAddsUp(t *testing.T) {
	l := plain(cost.Deliver)
	l.Wait = 24 * time.Hour
	b := cost.Of(l, prices(t))
	month := 730 * 3600.0 // tasks
	near(t, "on demand", b.Writes.OnDemandMonth, 3*month/1e6*0.625)
	near(t, "provisioned", b.Writes.ProvisionedMonth, 3*730*0.00065)
	near(t, "per million", b.Writes.OnDemandMillion, 1.875)
	near(t, "free SQS requests", b.SQS.OnDemandMonth, 0)
	near(t, "total", b.Total.OnDemandMonth,
		b.Writes.OnDemandMonth+b.Reads.OnDemandMonth+b.SQS.OnDemandMonth+b.Storage.OnDemandMonth)
	near(t, "EventBridge, of which 14 million are free", b.EventBridge, 0)
	near(t, "utilization", b.ProvisionedFrom, 0.00065/3600*1e6/0.625)
	if b.Storage.OnDemandMonth <= 0 {
		t.Error("a day of wake-up rows is stored for nothing")
	}
}

func TestPeakPaysForProvisionedCapacityOnly(t *testing.T) {
	even, peaked := plain(cost.Managed), plain(cost.Managed)
	peaked.PeakRate = 10
	a, b := cost.Of(even, prices(t)), cost.Of(peaked, prices(t))
	near(t, "on demand", b.Writes.OnDemandMonth, a.Writes.OnDemandMonth)
	near(t, "provisioned", b.Writes.ProvisionedMonth, 10*a.Writes.ProvisionedMonth)
}

// Above the reported rate, and not below, the total is less than EventBridge Scheduler.
func TestWhereItBeatsEventBridge(t *testing.T) {
	l := plain(cost.Deliver)
	l.Servers, l.Partitions, l.Utilization = 3, 3, 0.7
	at := cost.Of(l, prices(t)).BeatsEventBridgeFrom
	if at <= 0 {
		t.Fatal("never")
	}
	for rate, want := range map[float64]bool{at * 0.98: false, at * 1.02: true} {
		l.Rate, l.PeakRate = rate, 0
		b := cost.Of(l, prices(t))
		if got := min(b.Total.OnDemandMonth, b.Total.ProvisionedMonth) < b.EventBridge; got != want {
			t.Errorf("at %v tasks/s: cheaper %v, want %v", rate, got, want)
		}
	}
	managed := plain(cost.Managed)
	if at := cost.Of(managed, prices(t)).BeatsEventBridgeFrom; at != 0 {
		t.Errorf("five write units are not cheaper than EventBridge, but it says from %v tasks/s on", at)
	}
}

func TestRefusedLoads(t *testing.T) {
	for want, spoil := range map[string]func(*cost.Load){
		"mode":              func(l *cost.Load) { l.Mode = "other" },
		"rate":              func(l *cost.Load) { l.Rate = math.NaN() },
		"peak rate":         func(l *cost.Load) { l.PeakRate = 0.5 },
		"scheduled share":   func(l *cost.Load) { l.ScheduledShare = 1.1 },
		"long share":        func(l *cost.Load) { l.LongShare = math.NaN() },
		"payload":           func(l *cost.Load) { l.PayloadBytes = -1 },
		"tasks per request": func(l *cost.Load) { l.TasksPerRequest = 0 },
		"utilization":       func(l *cost.Load) { l.Utilization = 0 },
		"partitions":        func(l *cost.Load) { l.Partitions = -1 },
		"wait":              func(l *cost.Load) { l.Wait = -1 },
	} {
		l := plain(cost.Managed)
		spoil(&l)
		if err := l.Check(); !errors.Is(err, cost.ErrLoad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestRefusedPrices(t *testing.T) {
	list := string(cost.DefaultPrices)
	for want, text := range map[string]string{
		"field cheap":         list + "\ncheap: true\n",
		"date is missing":     strings.Replace(list, "date: 2026-11-21", "", 1),
		"write_per_million":   strings.Replace(list, "write_per_million: 0.625", "write_per_million: 0", 1),
		"storage_gb_month":    strings.Replace(list, "storage_gb_month: 0.25", "storage_gb_month: -1", 1),
		"EOF":                 "",
		"request_per_million": strings.Replace(list, "request_per_million: 0.40", "request_per_million: .nan", 1),
	} {
		if _, err := cost.ReadPrices(strings.NewReader(text)); !errors.Is(err, cost.ErrPrices) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
