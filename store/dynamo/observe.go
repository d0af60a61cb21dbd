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
	// unreadableEvery is how often a table's other rows are logged, all together.
	unreadableEvery = time.Minute
)

// unreadableRows are the rows that were logged as such.
type unreadableRows struct {
	mu     sync.Mutex // guards all
	logged map[string]bool
	others map[string]*unreadableOthers // by table
}

// unreadableOthers are the rows of a table that are not logged by themselves.
type unreadableOthers struct {
	told time.Duration // when they were logged last, in monotonic time
	met  int           // how often one was met since
}

// isNews reports whether a row is to be logged, or all those beyond the bound that were met, so many times.
func (u *unreadableRows) isNews(now time.Duration, table, key string) (row bool, others int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.logged[table+key]:
		return false, 0
	case u.logged == nil:
		u.logged, u.others = map[string]bool{}, map[string]*unreadableOthers{}
	}
	if len(u.logged) < unreadableLoggedMax {
		u.logged[table+key] = true
		return true, 0
	}
	o := u.others[table]
	if o == nil {
		o = &unreadableOthers{told: now - unreadableEvery}
		u.others[table] = o
	}
	if o.met++; now-o.told < unreadableEvery {
		return false, 0
	}
	others = o.met
	*o = unreadableOthers{told: now}
	return false, others
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
	row, others := d.unread.isNews(clock.Mono(d.cfg.Clock), table, key)
	switch {
	case row:
		d.cfg.Logger.Error("row left alone: this program cannot read it", slog.String("table", table), slog.String("key", key), slog.Any("error", err))
	case others > 0:
		d.cfg.Logger.Error("more rows left alone: this program cannot read them", slog.String("table", table), slog.Int("met", others),
			slog.String("latest", key), slog.Any("error", err))
	}
}
