package dynamo

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
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

// unreadableLoggedMax bounds the rows that are remembered as logged; then it begins anew.
const unreadableLoggedMax = 1024

// unreadableRows are the rows that were logged as such.
type unreadableRows struct {
	mu     sync.Mutex // guards logged
	logged map[string]bool
}

// unreadable reports a row that is left alone; the log has each only once.
func (d *Driver) unreadable(table string, item map[string]types.AttributeValue, err error) {
	if d.cfg.Observer.Unreadable != nil {
		d.cfg.Observer.Unreadable(table, err)
	}
	var parts []string
	for _, name := range []string{attrPartition, attrWaiting, attrID, attrKind, attrName} {
		if text := textOf(item, name); text != "" {
			parts = append(parts, name+"="+text)
		}
	}
	key := strings.Join(parts, " ")
	u := &d.unread
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.logged[table+key] {
		return
	}
	if u.logged == nil || len(u.logged) >= unreadableLoggedMax {
		u.logged = map[string]bool{}
	}
	u.logged[table+key] = true
	d.cfg.Logger.Error("row left alone: this program cannot read it", slog.String("table", table), slog.String("key", key), slog.Any("error", err))
}
