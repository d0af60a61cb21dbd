package dispatcher

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/task"
)

// decideOccurrences returns the orders as they are after it was decided about occurrences of crons. The
// result of one that is not decided says so.
func (d *Dispatcher) decideOccurrences(ctx context.Context, orders []task.Order, results []task.Dispatched) []task.Order {
	var at []int
	var tasks []*task.Task
	for i := range orders {
		if o := &orders[i]; o.First && o.Task.Occurrence != nil && o.Event.Kind == task.Enqueue && d.Occurrences != nil {
			at, tasks = append(at, i), append(tasks, &o.Task)
		}
	}
	if len(at) == 0 {
		return orders
	}
	orders = slices.Clone(orders)
	for k, v := range d.Occurrences(ctx, tasks) {
		i := at[k]
		results[i].Again, results[i].Err = v.Again, v.Err
		o := *orders[i].Task.Occurrence
		o.Succeeded = v.Succeeded
		orders[i].Task.Occurrence = &o
		if v.Skip != "" {
			orders[i].Event = task.Event{Kind: task.Drop, Error: v.Skip, By: orders[i].Event.By}
		}
	}
	return orders
}
