package dynamo

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// consumed tells the observer what a request consumed.
func (d *Driver) consumed(request string, c *types.ConsumedCapacity) {
	if c == nil || d.cfg.Observer.Consumed == nil {
		return
	}
	table := aws.ToString(c.TableName)
	tell := func(index string, capacity *types.Capacity) {
		if capacity != nil {
			d.cfg.Observer.Consumed(Consumption{
				Request: request, Table: table, Index: index, Read: units(capacity, request, false), Write: units(capacity, request, true),
			})
		}
	}
	tell("", c.Table)
	for name, capacity := range c.GlobalSecondaryIndexes {
		tell(name, &capacity)
	}
}

// units are those of one kind. Some services give only the total.
func units(c *types.Capacity, request string, write bool) float64 {
	if c.ReadCapacityUnits != nil || c.WriteCapacityUnits != nil {
		if write {
			return aws.ToFloat64(c.WriteCapacityUnits)
		}
		return aws.ToFloat64(c.ReadCapacityUnits)
	}
	switch request {
	case "PutItem", "UpdateItem", "DeleteItem", "BatchExecuteStatement":
		if !write {
			return 0
		}
	default:
		if write {
			return 0
		}
	}
	return aws.ToFloat64(c.CapacityUnits)
}

const (
	// unreadableLoggedMax bounds the rows that are logged by themselves, and remembered for it.
	unreadableLoggedMax = 1024
	// unreadableEvery is how often the others are logged, all together.
	unreadableEvery = time.Minute
)

// unreadableRows are the rows that were logged as such.
type unreadableRows struct {
	mu     sync.Mutex // guards logged
	logged map[string]bool
	others seldom
}

// isNew reports whether a row is to be logged by itself; known, that it was.
func (u *unreadableRows) isNew(key string) (isNew, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.logged[key]:
		return false, true
	case len(u.logged) >= unreadableLoggedMax:
		return false, false
	case u.logged == nil:
		u.logged = map[string]bool{}
	}
	u.logged[key] = true
	return true, false
}

// seldom counts what may happen often, for a log that tells of it seldom.
type seldom struct {
	mu    sync.Mutex // guards all
	told  bool
	last  time.Duration // when it was told, in monotonic time
	count int           // since then
}

// note counts one more. When it is time to tell of it, n is how many there were since it was told last; else
// 0.
func (s *seldom) note(c clock.Clock, every time.Duration) (n int) {
	now := clock.Mono(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if s.told && now-s.last < every {
		return 0
	}
	n = s.count
	s.told, s.last, s.count = true, now, 0
	return n
}

// unreadable reports a row that is left alone; the log has each only once, and beyond many how often they
// were met.
func (d *Driver) unreadable(table string, item map[string]types.AttributeValue, err error) {
	if d.cfg.Observer.Unreadable != nil {
		d.cfg.Observer.Unreadable(table, err)
	}
	var parts []string
	for _, name := range []string{attrPartition, attrWake, attrID, attrKind, attrName} {
		if text := textOf(item, name); text != "" {
			parts = append(parts, name+"="+text)
		}
	}
	key := strings.Join(parts, " ")
	isNew, known := d.unread.isNew(table + key)
	if isNew {
		d.cfg.Logger.Error("row left alone: this program cannot read it", slog.String("table", table), slog.String("key", key), slog.Any("error", err))
	}
	if isNew || known {
		return
	}
	if n := d.unread.others.note(d.cfg.Clock, unreadableEvery); n > 0 {
		d.cfg.Logger.Error("more rows left alone: this program cannot read them", slog.Int("met", n),
			slog.String("latest_table", table), slog.String("latest", key), slog.Any("error", err))
	}
}
